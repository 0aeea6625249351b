"""Keys that expire and are rotated, and when they were last used: in one process, in several, and by every way in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from penstock import keys
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.faces.guard import Guard
from penstock.faces.permission import Permission, Refusal
from penstock.keys import Keyring
from penstock.model import Key, KeyUse, OldSecret
from penstock.stores import open_store
from penstock.timings import Timings
from tests.keys.conftest import KeyStore
from tests.keys.signer import Signer
from tests.servers import ServerProcess, ThreadServer
from tests.talk import Talk
from tests.waiting import wait_until

HOUR = 3_600_000
FAR = 4_000_000_000_000


class Clock:
    """Milliseconds, as a test sets them."""

    def __init__(self, now: int = 1_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def digest(secret: str) -> bytes:
    return keys.digest(b"s", secret.encode())


def key(**more: object) -> Key:
    return Key("k", digest("new"), ("queue|*|*",), 0, **more)  # type: ignore[arg-type]


class TestKeyring:
    def test_a_key_is_good_until_the_instant_at_which_it_expires(self) -> None:
        clock = Clock(999)
        ring = Keyring(b"s", [key(expires_at=1_000)], clock=clock)
        assert ring.find(b"new") is not None
        assert ring.find_named("k") is not None
        clock.now = 1_000
        assert ring.find(b"new") is None
        assert ring.find_named("k") is None
        assert ring.has_expired("k")
        assert ring.asks_for_keys, "a store whose keys have all expired is not open"
        assert ring.why_refused(b"new") == ("this API key has expired", "the API key k, which has expired")
        assert ring.why_refused(b"guessed") == ("this API key is not known", "an unknown or revoked API key")

    def test_two_secrets_are_good_until_the_old_one_has_had_its_time(self) -> None:
        clock = Clock(999)
        ring = Keyring(b"s", [key(old=OldSecret(digest("old"), 1_000))], clock=clock)
        assert ring.find(b"old") is not None
        assert ring.find(b"new") is not None
        clock.now = 1_000
        assert ring.find(b"old") is None
        assert ring.find(b"new") is not None
        assert ring.why_refused(b"old")[1] == "an old secret of the API key k"

    def test_an_old_secret_expires_with_its_key(self) -> None:
        clock = Clock(1_000)
        ring = Keyring(b"s", [key(expires_at=1_000, old=OldSecret(digest("old")))], clock=clock)
        assert ring.find(b"old") is None

    def test_what_is_admitted_again_replaces_what_was_known(self) -> None:
        ring = Keyring(b"s", [key(old=OldSecret(digest("old")))], clock=Clock())
        ring.admit(key())
        assert ring.find(b"old") is None
        assert ring.find(b"new") is not None

    def test_uses_are_noted_once_for_each_secret_and_those_of_others_not_at_all(self) -> None:
        clock = Clock()
        ring = Keyring(b"s", [key(old=OldSecret(digest("old"), last_used_at=5))], clock=clock)
        for secret in (b"old", b"new", b"guessed", b"new"):
            ring.find(secret)
            clock.now += 1
        found = key(old=OldSecret(digest("old"), last_used_at=5))
        assert (ring.last_used_at(found), ring.last_used_at(found.old)) == (1_003, 1_000)
        uses = ring.take_uses()
        assert uses == [KeyUse("k", digest("old"), 1_000), KeyUse("k", digest("new"), 1_003)]
        assert ring.take_uses() == []
        ring.find(b"new")
        ring.put_back_uses(uses)
        assert ring.take_uses() == [uses[0], KeyUse("k", digest("new"), 1_004)]

    def test_what_expires_or_is_retired_is_not_used(self) -> None:
        ring = Keyring(b"s", [key(expires_at=1_000)], clock=Clock(1_000))
        ring.find(b"new")
        assert ring.take_uses() == []


def test_the_guard_answers_for_an_expired_key_as_for_an_unknown_one() -> None:
    clock, told = Clock(999), []

    def refused(refusal: Refusal, why: str) -> Response:
        told.append((refusal, why))
        return Response(401)

    class Somebody:
        @staticmethod
        def address() -> str:
            return "192.0.2.7"

    guard = Guard(Keyring(b"s", [key(expires_at=1_000)], clock=clock), clock=clock)
    route = Route("POST", "/x/{queue}", lambda _request: Response(200), permission=Permission("post", refused=refused))
    request = Request("POST", "/x/q", headers={b"x-bv-api-key": b"new"}, params=("q",))
    assert guard(request, route, Somebody()) is None
    clock.now += 1
    assert guard(request, route, Somebody()) is not None
    assert told == [(Refusal.UNKNOWN_KEY, "this API key has expired")]


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadServer]:
    server = ThreadServer(
        f"sqlite:///{tmp_path}/penstock.db", timings=Timings(key_uses_s=0.05), faces="native,emodb,sqs"
    )
    server.clock.stop()
    yield server
    server.stop()


@pytest.fixture
def talk(server: ThreadServer) -> Iterator[Talk]:
    with server.talk() as talk:
        yield talk


class TestOverHttp:
    def boss(self, talk: Talk) -> str:
        return talk("POST", "/v1/keys", {"name": "boss", "rules": ["queue|*|*"]}).json["secret"]

    def listed(self, talk: Talk, boss: str, name: str) -> dict:
        return next(one for one in talk("GET", "/v1/keys", **bearer(boss)).json["keys"] if one["name"] == name)

    def test_an_expired_key_is_refused_by_every_api_until_it_is_given_more_time(self, server, talk) -> None:
        boss = self.boss(talk)
        at = server.clock() + HOUR
        made = talk("POST", "/v1/keys", {"name": "k", "rules": ["queue|*|*"], "expires_at": at}, **bearer(boss)).json
        assert (made["expires_at"], made["state"]) == (at, "in force")
        asked = {"native": "/v1/queues", "emodb": "/queue/1/q/size", "sqs": "/?Action=ListQueues"}

        def answers() -> dict[str, int]:
            return {face: talk("GET", path, **bearer(made["secret"])).status for face, path in asked.items()}

        server.clock.advance((HOUR - 1) / 1000)
        assert answers() == {"native": 200, "emodb": 200, "sqs": 200}
        server.clock.advance(0.001)
        assert answers() == {"native": 401, "emodb": 403, "sqs": 403}
        assert talk("GET", "/v1/queues", **bearer(made["secret"])).json == {"error": "this API key has expired"}
        assert b"InvalidClientTokenId" in talk("GET", asked["sqs"], **bearer(made["secret"])).body
        assert self.listed(talk, boss, "k")["state"] == "expired"
        changed = talk("PATCH", "/v1/keys/k", {"expires_at": None}, **bearer(boss))
        assert (changed.status, changed.json["state"], changed.json["expires_at"]) == (200, "in force", None)
        assert answers() == {"native": 200, "emodb": 200, "sqs": 200}

    @pytest.mark.parametrize("at", [0, 1, -1, 1 << 60, "soon", 1.5])
    def test_what_is_not_an_instant_to_come_is_refused(self, server, talk, at: object) -> None:
        boss = self.boss(talk)
        asked = {"name": "k", "rules": ["queue|*|*"], "expires_at": at}
        assert talk("POST", "/v1/keys", asked, **bearer(boss)).status == 400
        assert talk("PATCH", "/v1/keys/boss", {"expires_at": at}, **bearer(boss)).status == 400
        assert self.listed(talk, boss, "boss")["expires_at"] is None

    def test_rotate_and_retire(self, server, talk) -> None:
        boss = self.boss(talk)
        rotated = talk("POST", "/v1/keys/boss/rotate", **bearer(boss))
        assert (rotated.status, rotated.json["old_secret"]["until"]) == (200, None)
        new = rotated.json["secret"]
        assert [talk("GET", "/v1/queues", **bearer(one)).status for one in (boss, new)] == [200, 200]
        assert talk("POST", "/v1/keys/boss/rotate", **bearer(new)).status == 409
        assert talk("POST", "/v1/keys/boss/retire", **bearer(new)).json["old_secret"] is None
        assert [talk("GET", "/v1/queues", **bearer(one)).status for one in (boss, new)] == [401, 200]
        actions = talk("GET", "/v1/actions", **bearer(new)).json["actions"]
        assert [one["what"] for one in actions] == ["key.retire", "key.rotate", "key.create"]

    def test_a_grace_ends_by_itself(self, server, talk) -> None:
        boss = self.boss(talk)
        rotated = talk("POST", "/v1/keys/boss/rotate", {"grace_ms": HOUR}, **bearer(boss)).json
        new, until = rotated["secret"], rotated["old_secret"]["until"]
        assert until == server.clock() + HOUR
        server.clock.advance((HOUR - 1) / 1000)
        assert talk("GET", "/v1/queues", **bearer(boss)).status == 200
        server.clock.advance(0.001)
        reply = talk("GET", "/v1/queues", **bearer(boss))
        assert reply.status == 401
        assert "another secret" in reply.json["error"]
        assert self.listed(talk, new, "boss")["old_secret"] is None
        assert talk("POST", "/v1/keys/boss/rotate", {"grace_ms": 0}, **bearer(new)).json["old_secret"] is None
        assert talk("GET", "/v1/queues", **bearer(new)).status == 401, "no grace at all"

    def test_both_secrets_to_sign_with_are_good(self, server, talk) -> None:
        boss = self.boss(talk)
        made = talk("POST", "/v1/keys", {"name": "k", "rules": ["queue|*|*"]}, **bearer(boss)).json
        rotated = talk("POST", "/v1/keys/k/rotate", **bearer(boss)).json
        assert made["aws_access_key_id"] == rotated["aws_access_key_id"] == "k"
        secrets = made["aws_secret_access_key"], rotated["aws_secret_access_key"]
        assert secrets[0] != secrets[1]

        def ask(secret: str) -> int:
            host, query = urlsplit(talk.url).netloc, "Action=ListQueues"
            headers = Signer("k", secret).headers(server.clock(), "GET", "/", b"", host, query)
            return talk("GET", f"/?{query}", **headers).status

        assert [ask(secret) for secret in secrets] == [200, 200]
        before = self.listed(talk, boss, "k")
        assert before["old_secret"]["last_used_at"] == server.clock()
        talk("POST", "/v1/keys/k/retire", **bearer(boss))
        assert [ask(secret) for secret in secrets] == [403, 200]

    def test_when_it_was_last_used_is_kept_in_the_store_without_a_write_for_each_request(self, server, talk) -> None:
        boss = self.boss(talk)
        assert talk("GET", "/v1/queues", **bearer(boss)).status == 200

        def kept() -> int | None:
            return server.in_unit(lambda unit: unit.keys.list()[0].last_used_at, write=False)

        wait_until(lambda: kept() == server.clock())


def test_every_process_knows_and_what_was_used_is_kept_at_the_end(tmp_path: Path, key_store: KeyStore) -> None:
    server = ServerProcess(tmp_path, "--workers", "2", "--store", key_store.url)
    try:
        with server.talks() as talks:
            boss = talks[0]("POST", "/v1/keys", {"name": "boss", "rules": ["queue|*|*"]}).json["secret"]
            new = talks[0]("POST", "/v1/keys/boss/rotate", **bearer(boss)).json["secret"]
            for secret in (boss, new):
                assert {talk("GET", "/v1/queues", **bearer(secret)).status for talk in talks} == {200}
            assert talks[-1]("POST", "/v1/keys/boss/retire", **bearer(new)).status == 200
            assert {talk("GET", "/v1/queues", **bearer(boss)).status for talk in talks} == {401}
            assert talks[0]("PATCH", "/v1/keys/boss", {"expires_at": FAR}, **bearer(new)).status == 200
            for talk in talks:
                [listed] = talk("GET", "/v1/keys", **bearer(new)).json["keys"]
                assert listed["expires_at"] == FAR
        server.terminate()
    finally:
        server.stop()
    store = open_store(key_store.url)
    with closing(store), store.unit(write=False) as unit:
        [found] = unit.keys.list()
    assert found.last_used_at is not None
