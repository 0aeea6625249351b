"""The one check before every request, without a socket."""

from __future__ import annotations

import pytest

from penstock import keys
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.faces.guard import Guard, presented_secret
from penstock.faces.patience import Patience
from penstock.faces.permission import PUBLIC, Permission, Refusal, Scope, permits
from penstock.keys import Keyring
from penstock.model import Key


class Somebody:
    """At the other end of the connection."""

    @staticmethod
    def address() -> str:
        return "192.0.2.7"


SOMEBODY = Somebody()


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def ring(**rules: str) -> Keyring:
    return Keyring(b"s", [Key(name, keys.digest(b"s", name.encode()), (rule,), 0) for name, rule in rules.items()])


def route(permission: object) -> Route:
    return Route("POST", "/x/{queue}", lambda _request: Response(200), permission=permission)


def request(secret: str | None = None, queue: str = "q") -> Request:
    headers = {} if secret is None else {b"x-bv-api-key": secret.encode()}
    return Request("POST", f"/x/{queue}", headers=headers, params=(queue,))


def in_words(refusal: Refusal, _why: str) -> Response:
    return Response(403, refusal.name.encode())


POST = Permission("post", refused=in_words)


@pytest.mark.parametrize(
    ("headers", "secret"),
    [
        ({}, None),
        ({b"x-bv-api-key": b"k"}, b"k"),
        ({b"x-bv-api-key": b" k "}, b"k"),
        ({b"x-bv-api-key": b""}, None),
        ({b"authorization": b"Bearer k"}, b"k"),
        ({b"authorization": b"bearer  k "}, b"k"),
        ({b"authorization": b"Bearer"}, None),
        ({b"authorization": b"Basic k"}, None),
        ({b"authorization": b"k"}, None),
        ({b"x-bv-api-key": b"a", b"authorization": b"Bearer b"}, b"a"),
    ],
)
def test_where_a_key_comes_from(headers: dict[bytes, bytes], secret: bytes | None) -> None:
    assert presented_secret(Request("GET", "/", headers=headers)) == secret


def test_without_keys_everybody_may_do_everything() -> None:
    asked = request()
    assert Guard(ring())(asked, route(POST), SOMEBODY) is None
    assert permits(asked, "admin", "*")


def test_a_route_that_asks_nothing_is_shut_for_everybody() -> None:
    for keyring in (ring(), ring(all="queue|*|*")):
        refused = Guard(keyring)(request("all"), route(None), SOMEBODY)
        assert refused is not None
        assert refused.status == 403


def test_a_request_no_guard_has_seen_permits_nothing() -> None:
    assert not permits(request("all"), "post", "q")


def test_a_public_route_needs_no_key() -> None:
    assert Guard(ring(k="queue|post|q"))(request(), route(PUBLIC), SOMEBODY) is None


@pytest.mark.parametrize(
    ("secret", "queue", "answer"),
    [
        (None, "q", "NO_KEY"),
        ("wrong", "q", "UNKNOWN_KEY"),
        ("k", "q", None),
        ("k", "other", "NOT_PERMITTED"),
        ("k", "*", "NOT_PERMITTED"),
        ("all", "*", "NOT_PERMITTED"),
        ("all", "anything", None),
    ],
)
def test_who_may_pass(secret: str | None, queue: str, answer: str | None) -> None:
    refused = Guard(ring(k="queue|post|q", all="queue|*|*"))(request(secret, queue), route(POST), SOMEBODY)
    assert (refused and refused.body.decode()) == answer


def test_only_a_rule_for_all_queues_permits_what_concerns_all() -> None:
    every = route(Permission("admin", Scope.EVERY_QUEUE, in_words))
    guard = Guard(ring(some="queue|admin|q*", other="queue|post|*", all="queue|admin|*"))
    assert guard(request("some"), every, SOMEBODY).body == b"NOT_PERMITTED"
    assert guard(request("other"), every, SOMEBODY).body == b"NOT_PERMITTED"
    assert guard(request("all"), every, SOMEBODY) is None


def test_a_route_that_asks_itself_gets_a_caller_to_ask() -> None:
    asked = request("k")
    assert Guard(ring(k="queue|post|a*"))(asked, route(Permission("post", Scope.ASKS_ITSELF)), SOMEBODY) is None
    assert [permits(asked, "post", queue) for queue in ("a", "ab", "b", "dedupq/a", "*")] == [
        True,
        True,
        False,
        True,
        False,
    ]


class TestWrongKeys:
    """After a burst, guessing is slowed down; good keys notice nothing."""

    def guard(self) -> tuple[Guard, Clock]:
        clock = Clock()
        return Guard(ring(k="queue|post|*"), patience=Patience(monotonic=clock)), clock

    @staticmethod
    def wrong(guard: Guard) -> int:
        refused = guard(request("wrong"), route(Permission("post")), SOMEBODY)
        assert refused is not None
        if refused.status == 429:
            assert (b"Retry-After", b"1") in refused.headers
        return refused.status

    def test_a_burst_then_429_then_ten_a_second(self) -> None:
        guard, clock = self.guard()
        assert [self.wrong(guard) for _ in range(205)] == [401] * 200 + [429] * 5
        clock.now += 0.95
        assert [self.wrong(guard) for _ in range(12)] == [401] * 9 + [429] * 3
        clock.now += 3600
        assert [self.wrong(guard) for _ in range(205)] == [401] * 200 + [429] * 5

    def test_good_keys_missing_keys_and_public_routes_are_not_slowed_down(self) -> None:
        guard, _ = self.guard()
        while self.wrong(guard) != 429:
            pass
        for _ in range(500):
            assert guard(request("k"), route(POST), SOMEBODY) is None
            assert guard(request(), route(POST), SOMEBODY).body == b"NO_KEY"
            assert guard(request("wrong"), route(PUBLIC), SOMEBODY) is None
        assert self.wrong(guard) == 429

    def test_a_clock_that_stands_still_gives_no_patience(self) -> None:
        guard, _ = self.guard()
        assert sum(self.wrong(guard) == 401 for _ in range(1_000)) == 200
