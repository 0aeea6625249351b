"""Both steps of a signed request, without a socket: what the guard sees, and what is verified with the body."""

from __future__ import annotations

import pytest

from penstock import keys
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.faces.guard import Guard
from penstock.faces.patience import Patience
from penstock.faces.permission import Permission, Refusal, Scope, name_of_caller, permits, rules_of
from penstock.faces.signatures import SignatureRefusal, verify
from penstock.keys import Keyring
from penstock.model import Key
from penstock.timings import Timings
from tests.keys.signer import HOST, Signer
from tests.keys.test_guard import SOMEBODY, Clock

NOW = 1_772_600_767_123
STORE_SECRET = b"s" * 32
BODY = b'{"MessageBody": "hello"}'
RULES = ("queue|post|orders",)


def key(name: str, *rules: str, revoked_at: int | None = None) -> Key:
    return Key(name, keys.digest(STORE_SECRET, f"psk_{name}".encode()), rules or RULES, 0, revoked_at)


class House:
    """A guard with its keyring and the clock of both."""

    def __init__(self, *known: Key, pepper: str = "") -> None:
        self.keyring = Keyring(STORE_SECRET, known or [key("shop"), key("gone", revoked_at=1)], pepper)
        self.now = NOW
        self.guard = Guard(self.keyring, patience=Patience(monotonic=Clock()), clock=lambda: self.now)

    def signer(self, name: str = "shop", pepper: str = "", **scope: str) -> Signer:
        return Signer(name, keys.aws_secret(STORE_SECRET, pepper, key(name).digest), **scope)

    def ask(self, request: Request, permission: Permission | None = None) -> str | None:
        """In which step it is refused, and how."""
        route = Route(request.method, "/", lambda _request: Response(200), permission=permission or SIGNED)
        response = self.guard(request, route, SOMEBODY)
        if response is not None:
            return f"guard: {response.body.decode()}"
        wrong = verify(request)
        return None if wrong is None else f"verify: {wrong.refusal.name}"


def in_words(refusal: Refusal, _why: str) -> Response:
    return Response(403, refusal.name.encode())


SIGNED = Permission("post", Scope.ASKS_ITSELF, in_words, signed=True)


def request(headers: dict[str, str], body: bytes = BODY, method: str = "POST", query: str = "") -> Request:
    sent = {b"host": HOST.encode()} | {name.encode(): value.encode() for name, value in headers.items()}
    return Request(method, "/", query, sent, body)


def signed(house: House, body: bytes = BODY, at: int = NOW, **more: str) -> Request:
    return request(house.signer().headers(at, "POST", "/", body, **more), body)


def test_a_good_signature_is_as_good_as_the_key() -> None:
    house = House()
    asked = signed(house, x_amz_target="AmazonSQS.SendMessage", content_type="application/x-amz-json-1.0")
    assert house.ask(asked) is None
    assert name_of_caller(asked) == "shop"
    assert rules_of(asked) == RULES
    assert [permits(asked, "post", "orders"), permits(asked, "poll", "orders"), permits(asked, "post", "x")] == [
        True,
        False,
        False,
    ]


def test_before_it_is_verified_the_caller_may_do_nothing() -> None:
    house = House(key("shop", "queue|*|*"))
    asked = signed(house)
    assert house.guard(asked, Route("POST", "/", lambda _request: Response(200), permission=SIGNED), SOMEBODY) is None
    assert not permits(asked, "post", "orders")
    assert (rules_of(asked), name_of_caller(asked)) == ((), None)
    assert verify(asked) is None
    assert permits(asked, "post", "orders")


def test_a_refused_signature_leaves_a_caller_that_may_do_nothing() -> None:
    house = House(key("shop", "queue|*|*"))
    asked = signed(house)
    asked.body = b"another"
    assert house.ask(asked) == "verify: WRONG_SIGNATURE"
    assert not permits(asked, "post", "orders")
    assert name_of_caller(asked) is None


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (lambda asked: setattr(asked, "body", BODY + b" "), "verify: WRONG_SIGNATURE"),
        (lambda asked: setattr(asked, "path", "/000000000000/orders"), "verify: WRONG_SIGNATURE"),
        (lambda asked: setattr(asked, "method", "PUT"), "verify: WRONG_SIGNATURE"),
        (lambda asked: setattr(asked, "query", "Action=PurgeQueue"), "verify: WRONG_SIGNATURE"),
        (lambda asked: asked.headers.update({b"host": b"other.example"}), "verify: WRONG_SIGNATURE"),
        (lambda asked: asked.headers.update({b"x-amz-target": b"AmazonSQS.PurgeQueue"}), "verify: WRONG_SIGNATURE"),
        (lambda asked: asked.headers.update({b"x-amz-meta": b"more"}), "guard: WRONG_SIGNATURE"),
        (lambda asked: asked.headers.update({b"user-agent": b"more"}), None),
    ],
)
def test_what_is_signed_cannot_be_changed(change, refusal: str | None) -> None:
    house = House()
    asked = signed(house, x_amz_target="AmazonSQS.SendMessage")
    change(asked)
    assert house.ask(asked) == refusal


@pytest.mark.parametrize(
    ("minutes", "refusal"), [(-16, "guard: WRONG_SIGNATURE"), (-14, None), (14, None), (16, "guard: WRONG_SIGNATURE")]
)
def test_old_and_ahead_by_the_clock_of_the_server(minutes: int, refusal: str | None) -> None:
    house = House()
    asked = signed(house)
    house.now += minutes * 60_000
    assert house.ask(asked) == refusal


@pytest.mark.parametrize(
    ("scope", "refusal"),
    [
        ({"region": "us-gov-west-1"}, None),
        ({"region": "anything"}, None),
        ({"service": "sts"}, None),
        ({"service": "s3"}, "guard: WRONG_SIGNATURE"),
        ({"term": "aws5_request"}, "guard: WRONG_SIGNATURE"),
    ],
)
def test_the_scope(scope: dict[str, str], refusal: str | None) -> None:
    house = House()
    assert house.ask(request(house.signer(**scope).headers(NOW, "POST", "/", BODY))) == refusal


@pytest.mark.parametrize("name", ["nobody", "gone", "Shop", "", "shop!"])
def test_an_unknown_or_revoked_key_is_refused_before_the_body_is_read(name: str) -> None:
    house = House()
    assert house.ask(request(house.signer(name).headers(NOW, "POST", "/", BODY))) == "guard: UNKNOWN_KEY"


def test_a_key_that_is_revoked_while_the_body_comes() -> None:
    house = House()
    asked = signed(house)
    route = Route("POST", "/", lambda _request: Response(200), permission=SIGNED)
    assert house.guard(asked, route, SOMEBODY) is None
    house.keyring.expel("shop")
    assert verify(asked).refusal is Refusal.UNKNOWN_KEY
    assert not permits(asked, "post", "orders")


def test_a_key_that_was_made_meanwhile_is_known() -> None:
    house = House()
    asked = request(house.signer("new").headers(NOW, "POST", "/", BODY))
    assert house.ask(asked) == "guard: UNKNOWN_KEY"
    house.keyring.admit(key("new"))
    assert house.ask(asked) is None


@pytest.mark.parametrize(
    ("headers", "refusal"),
    [
        ({}, "guard: NO_KEY"),
        ({"authorization": "Basic x"}, "guard: NO_KEY"),
        ({"authorization": "AWS4-HMAC-SHA256 x"}, "guard: MALFORMED_SIGNATURE"),
        ({"authorization": "Bearer psk_wrong"}, "guard: UNKNOWN_KEY"),
        ({"authorization": "Bearer psk_shop"}, None),
        ({"x-bv-api-key": "psk_shop"}, None),
        ({"x-bv-api-key": "psk_shop", "authorization": "AWS4-HMAC-SHA256 x"}, None),
    ],
)
def test_keys_are_good_on_the_same_routes(headers: dict[str, str], refusal: str | None) -> None:
    house = House()
    asked = request(headers)
    assert house.ask(asked) == refusal
    assert name_of_caller(asked) == (None if refusal else "shop")


@pytest.mark.parametrize(
    ("more", "refusal"),
    [
        ({"x_amz_security_token": "FwoGZXIvYXdzEBY"}, None),
        (
            {"x_amz_content_sha256": "ff5ff95bd0a8ae3b37b4fd5fa0d9f2bc76f0d8ce6d6e8e1a5ec3a3e1f0b8e6d1"},
            "verify: WRONG_SIGNATURE",
        ),
        ({"x_amz_content_sha256": "UNSIGNED-PAYLOAD"}, "verify: WRONG_SIGNATURE"),
        ({"x_amz_content_sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}, "verify: WRONG_SIGNATURE"),
        ({"x_amz_content_sha256": "HASH"}, None),
    ],
)
def test_headers_of_aws(more: dict[str, str], refusal: str | None) -> None:
    from hashlib import sha256

    house = House()
    hashed = {name: value.replace("HASH", sha256(BODY).hexdigest()) for name, value in more.items()}
    assert house.ask(signed(house, **hashed)) == refusal


@pytest.mark.parametrize(
    ("seconds", "refusal"), [(0, None), (59, None), (61, "guard: WRONG_SIGNATURE"), (-1_000, "guard: WRONG_SIGNATURE")]
)
def test_an_address_that_was_signed_beforehand(seconds: int, refusal: str | None) -> None:
    house = House()
    query = house.signer().query(NOW, "GET", "/", 60, Action="ReceiveMessage", WaitTimeSeconds="20")
    house.now += seconds * 1000
    assert house.ask(request({}, b"", "GET", query)) == refusal
    assert refusal or house.ask(request({}, b"", "GET", query + "&More=1")) == "verify: WRONG_SIGNATURE"
    assert refusal or house.ask(request({}, b"x", "GET", query)) == "verify: WRONG_SIGNATURE"


@pytest.mark.parametrize("expires_s", [0, 604_801, "", "x"])
def test_an_address_is_signed_for_a_week_at_most(expires_s: object) -> None:
    house = House()
    query = house.signer().query(NOW, "GET", "/", expires_s)
    assert house.ask(request({}, b"", "GET", query)) == "guard: MALFORMED_SIGNATURE"


def test_a_route_that_does_not_take_signatures_asks_for_a_key() -> None:
    house = House()
    plain = Permission("post", Scope.ASKS_ITSELF, in_words)
    assert house.ask(signed(house), plain) == "guard: NO_KEY"
    with pytest.raises(ValueError, match="has to ask itself"):
        Permission("post", Scope.QUEUE, in_words, signed=True)


@pytest.mark.parametrize(
    "headers", [{}, {"authorization": "AWS4-HMAC-SHA256 x"}, {"authorization": "Bearer x"}, {"x-amz-date": "x"}]
)
def test_while_there_is_no_key_any_credentials_will_do(headers: dict[str, str]) -> None:
    guard = Guard(Keyring(STORE_SECRET))
    asked = request(headers)
    assert guard(asked, Route("GET", "/", lambda _request: Response(200), permission=SIGNED), SOMEBODY) is None
    assert verify(asked) is None
    assert permits(asked, "admin", "*")
    assert name_of_caller(asked) is None


def test_while_there_is_no_key_a_get_that_changes_something_is_not_for_pages() -> None:
    guard = Guard(Keyring(STORE_SECRET))
    route = Route("GET", "/", lambda _request: Response(200), permission=SIGNED)
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"origin": "https://example.com"},
        {"accept-language": "en", "user-agent": "Mozilla/5.0"},
    ):
        refused = guard(request(headers, b"", "GET", "Action=PurgeQueue"), route, SOMEBODY)
        assert refused.body == b"FOREIGN"


# Guesses


def test_wrong_signatures_and_unknown_keys_are_guesses_and_old_ones_are_not() -> None:
    clock = Clock()
    house = House()
    house.guard = Guard(house.keyring, patience=Patience(Timings(wrong_keys=4.0), clock), clock=lambda: house.now)

    def forged() -> Request:
        asked = signed(house)
        asked.body = b"another"
        return asked

    old, malformed = signed(house, at=NOW - 3_600_000), request({"authorization": "AWS4-HMAC-SHA256 x"})
    unknown = request(house.signer("nobody").headers(NOW, "POST", "/", BODY))
    for _ in range(10):
        assert house.ask(old) == "guard: WRONG_SIGNATURE"
        assert house.ask(malformed) == "guard: MALFORMED_SIGNATURE"
        assert house.ask(request({})) == "guard: NO_KEY"
    assert house.ask(forged()) == "verify: WRONG_SIGNATURE"
    assert house.ask(unknown) == "guard: UNKNOWN_KEY"
    assert house.ask(request({"x-bv-api-key": "wrong"})) == "guard: UNKNOWN_KEY"
    assert house.ask(forged()) == "verify: WRONG_SIGNATURE"
    assert house.ask(forged()) == "verify: SLOW_DOWN"
    assert house.ask(unknown) == "guard: SLOW_DOWN"
    assert house.ask(request({"x-bv-api-key": "wrong"})) == "guard: SLOW_DOWN"
    assert house.ask(signed(house)) is None, "a good one is not slowed down"
    clock.now += 0.1
    assert house.ask(forged()) == "verify: WRONG_SIGNATURE"


def test_a_guess_is_logged_with_its_address_and_without_what_was_sent(caplog: pytest.LogCaptureFixture) -> None:
    house = House()
    asked = signed(house)
    asked.body = b"another"
    house.ask(asked)
    house.ask(request(house.signer("nobody").headers(NOW, "POST", "/", BODY)))
    assert caplog.messages == [
        "192.0.2.7 sent a wrong signature for the API key shop",
        "192.0.2.7 sent an unknown or revoked API key",
    ]


# The secret


def test_the_secret_is_derived_from_all_three() -> None:
    digest = key("shop").digest
    secret = keys.aws_secret(STORE_SECRET, "", digest)
    assert secret == "Jz6XB5l7Tq0Pf_Jy4vIpxuW-7Mf_cLk6HsVdTpU5gn8", "as long as there are keys, this never changes"
    others = [
        keys.aws_secret(b"t" * 32, "", digest),
        keys.aws_secret(STORE_SECRET, "pepper", digest),
        keys.aws_secret(STORE_SECRET, "", key("other").digest),
    ]
    assert len({secret, *others}) == 4
    assert {len(one) for one in (secret, *others)} == {43}


@pytest.mark.parametrize(("signs_with", "refusal"), [("of the server", None), ("", "verify: WRONG_SIGNATURE")])
def test_a_pepper_is_a_part_of_the_secret(signs_with: str, refusal: str | None) -> None:
    house = House(key("shop"), pepper="of the server")
    headers = house.signer(pepper=signs_with).headers(NOW, "POST", "/", BODY)
    assert house.ask(request(headers)) == refusal
    assert house.ask(request({"x-bv-api-key": "psk_shop"})) is None, "a key itself needs none"


def test_signing_keys_are_kept_for_scopes_that_were_signed_for() -> None:
    house = House()
    for region in ("a", "b", "a"):
        assert house.ask(request(house.signer(region=region).headers(NOW, "POST", "/", BODY))) is None
    assert len(house.keyring._signing_keys) == 2
    for number in range(100):
        asked = request(house.signer(region=f"made-up-{number}").headers(NOW, "POST", "/", BODY))
        asked.body = b"another"
        assert house.ask(asked).startswith("verify: ")
    assert len(house.keyring._signing_keys) == 2
    for number in range(1_100):
        assert house.ask(request(house.signer(region=f"real-{number}").headers(NOW, "POST", "/", BODY))) is None
    assert len(house.keyring._signing_keys) <= 1_024


def test_a_refusal_says_why() -> None:
    house = House()
    asked = signed(house)
    assert house.guard(asked, Route("POST", "/", lambda _request: Response(200), permission=SIGNED), SOMEBODY) is None
    asked.body = b"another"
    assert verify(asked) == SignatureRefusal(
        Refusal.WRONG_SIGNATURE,
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access "
        "Key and signing method. Consult the service documentation for details.",
    )
