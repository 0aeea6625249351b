"""Signing in and out, what ends a session, and what a session may do."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from urllib.parse import urljoin, urlsplit

import pytest

from penstock.edge.http import Request
from penstock.edge.router import Route
from penstock.faces.console import Console, console_routes
from penstock.faces.console.gate import SIGNED_IN
from penstock.faces.console.sessions import Session, Sessions, SessionTerms, Standing
from penstock.keys import Keyring, permits
from penstock.model import Key
from penstock.timings import Timings
from tests.faces.console.conftest import Person
from tests.keys.conftest import KeyStore, eventually
from tests.servers import ThreadServer

SECRET = b"s" * 32
BOSS = Key("boss", b"d" * 32, ("queue|*|*",), 0)
People = Callable[[ThreadServer], Person]
Keyed = Callable[..., ThreadServer]


class Now:
    def __init__(self) -> None:
        self.at = 1_000_000

    def __call__(self) -> int:
        return self.at


class TestValues:
    """Sessions without a server."""

    def make(self, *keys: Key, secret: bytes = SECRET) -> tuple[Sessions, Now]:
        now = Now()
        return Sessions(Keyring(secret, keys), now, SessionTerms(idle_ms=100, longest_ms=250)), now

    def test_a_session_is_the_same_in_every_process(self) -> None:
        (one, _), (other, _) = self.make(BOSS), self.make(BOSS)
        session = one.begin(BOSS)
        assert other.unseal(one.seal(session)) == session
        assert other.standing(session) is Standing.GOOD
        assert one.cookie == other.cookie

    def test_no_other_store_knows_it(self) -> None:
        (one, _), (other, _) = self.make(BOSS), self.make(BOSS, secret=b"t" * 32)
        assert other.unseal(one.seal(one.begin(BOSS))) is None
        assert one.cookie != other.cookie

    def test_with_a_pepper_the_store_is_not_enough_to_make_one(self) -> None:
        def sessions(pepper: str) -> Sessions:
            return Sessions(Keyring(SECRET, [BOSS], pepper), Now())

        forged = sessions("").seal(sessions("").begin(BOSS))
        assert sessions("").unseal(forged) is not None, "who has the store has all that it takes"
        assert sessions("a pepper from elsewhere").unseal(forged) is None

    def test_a_changed_one_is_worth_nothing(self) -> None:
        sessions, _ = self.make(BOSS)
        sealed = sessions.seal(sessions.begin(BOSS))
        for number in range(len(sealed)):
            changed = sealed[:number] + ("A" if sealed[number] != "A" else "B") + sealed[number + 1 :]
            # Base64 has bits to spare in its last character.
            assert sessions.unseal(changed) is None or number == len(sealed) - 1
        for text in ("", "x", "é", "=" * 9, "A" * 3_000, sealed[:-9]):
            assert sessions.unseal(text) is None

    def test_it_ends_when_it_is_idle_and_in_any_case(self) -> None:
        sessions, now = self.make(BOSS)
        session = sessions.begin(BOSS)
        assert sessions.renewed(session) is None
        now.at += 100
        assert sessions.standing(session) is Standing.GOOD
        renewed = sessions.renewed(session)
        now.at += 1
        assert sessions.standing(session) is Standing.IDLE
        assert sessions.standing(renewed) is Standing.GOOD
        now.at += 99
        again = sessions.renewed(renewed)
        now.at += 51
        assert sessions.standing(again) is Standing.IDLE, "however often it is renewed"

    def test_it_ends_with_its_key(self) -> None:
        sessions, _ = self.make(BOSS)
        session = sessions.begin(BOSS)
        assert self.make()[0].standing(session) is Standing.REVOKED
        assert self.make(Key("boss", b"e" * 32, BOSS.rules, 0))[0].standing(session) is Standing.REVOKED

    def test_one_of_no_one_is_none(self) -> None:
        sessions, _ = self.make(BOSS)
        assert sessions.standing(sessions.begin()) is Standing.NONE
        assert sessions.standing(None) is Standing.NONE

    def test_a_token_is_good_for_its_session_alone(self) -> None:
        sessions, _ = self.make(BOSS)
        one, other = sessions.begin(BOSS), sessions.begin(BOSS)
        assert sessions.is_token(one, sessions.token(one))
        for text in (sessions.token(other), "", "é", "\udcff", one.id):
            assert not sessions.is_token(one, text)
        assert sessions.unseal_note(one, sessions.seal_note(one, "dóne")) == "dóne"
        assert sessions.unseal_note(other, sessions.seal_note(one, "done")) is None
        # What was sealed as one thing is not taken for another.
        assert sessions.unseal(sessions.seal_note(one, sessions.seal(one))) is None

    def test_a_session_holds_no_secret(self) -> None:
        sessions, _ = self.make(BOSS)
        assert isinstance(sessions.begin(BOSS), Session)
        assert BOSS.digest.hex() not in repr(sessions.begin(BOSS))


@pytest.fixture
def boss(key_store: KeyStore) -> str:
    return key_store.create("boss", "queue|*|*")


def test_the_cookie(boss: str, keyed: Keyed, people: People) -> None:
    person = people(keyed())
    person.get("/console/sign-in")
    planted = dict(person.cookies)
    reply = person.sign_in(boss)
    [cookie] = [line for line in reply.headers.get_all("Set-Cookie") if line.partition("=")[0] in planted]
    terms = [part.strip() for part in cookie.split(";")[1:]]
    assert terms == ["Path=/console", "HttpOnly", "SameSite=Strict"]
    assert person.cookies != planted, "another session than before the key was given"
    assert boss not in str(person.cookies)
    assert person.get().status == 200


def test_the_cookie_travels_by_tls_only_where_the_browser_came_so(boss: str, keyed: Keyed, people: People) -> None:
    person = people(keyed(allowed_hosts="queue.example"))
    person.get("/console/sign-in")
    reply = person.post("/console/sign-in", {"key": boss}, origin="https://queue.example", host="queue.example")
    assert reply.status == 303
    assert all("; Secure" in line for line in reply.headers.get_all("Set-Cookie"))


def test_pages_lead_to_where_one_signs_in_and_back(boss: str, keyed: Keyed, people: People) -> None:
    person = people(keyed())
    reply = person.get("/console/keys?key=boss&action=post&queue=q")
    assert reply.status == 303
    reply = person.get(reply.headers["Location"])
    assert b"/console/keys?key=boss&amp;action=post&amp;queue=q" in reply.body
    reply = person.post("/console/sign-in", {"key": boss, "next": "/console/keys?key=boss&action=post&queue=q"})
    assert reply.headers["Location"] == "/console/keys?key=boss&action=post&queue=q"
    assert b"Signed in as boss." in person.get(reply.headers["Location"]).body
    assert b"Signed in as boss." not in person.get("/console/keys").body, "told once"
    assert person.get("/console/sign-in").headers["Location"] == "/console"


@pytest.mark.parametrize(
    "place",
    [
        "https://evil.example/console",
        "//evil.example/console",
        "/console//evil.example/..%2f",
        "/consolex",
        "/v1/queues",
        "/console\\evil",
        "/console/sign-in?next=/console/sign-in",
        "/console/../messages/q",
        "/console/%2E%2e/messages/q",
        "/console/x/.%2e/../../messages/q?wait=1",
        "javascript:alert(1)",
        "/console\r\nSet-Cookie: a=b",
        "x" * 5_000,
    ],
)
def test_no_one_is_led_elsewhere(boss: str, keyed: Keyed, people: People, place: str) -> None:
    person = people(keyed())
    person.get("/console/sign-in")
    reply = person.post("/console/sign-in", {"key": boss, "next": place})
    # As a browser takes it: %2e is a dot, and steps back are taken before it asks.
    there = urlsplit(urljoin("/", re.sub("%2e", ".", reply.headers["Location"], flags=re.IGNORECASE)))
    assert (there.scheme, there.netloc) == ("", "")
    assert there.path == "/console" or there.path.startswith("/console/")
    assert "a" not in person.cookies


def test_a_wrong_key_is_counted_and_logged(
    boss: str, keyed: Keyed, people: People, caplog: pytest.LogCaptureFixture
) -> None:
    server = keyed(timings=Timings(wrong_keys=2, wrong_keys_per_second=0))
    person = people(server)
    person.get("/console/sign-in")
    with caplog.at_level(logging.WARNING):
        assert person.post("/console/sign-in", {"key": "psk_wrong"}).status == 422
    assert "127.0.0.1" in caplog.text
    assert "psk_wrong" not in caplog.text
    # Keys that the APIs get are counted with them.
    with server.talk() as talk:
        assert talk("GET", "/v1/queues", authorization="Bearer psk_wrong").status == 401
    assert person.post("/console/sign-in", {"key": "psk_wrong"}).status == 429
    assert person.post("/console/sign-in", {"key": boss}).status == 303, "a right key is never kept waiting"
    for key in ("", " ", "x" * 501, "é", "\0"):
        assert people(server).post("/console/sign-in", {"key": key}).status in (403, 422, 429)


def test_a_revoked_key_ends_its_sessions_at_once(boss: str, keyed: Keyed, people: People) -> None:
    server = keyed()
    person, other = people(server), people(server)
    person.sign_in(boss)
    other.sign_in(boss)
    person.get("/console/keys")
    assert person.post("/console/keys/boss/revoke", {"confirm": "boss"}).status == 303
    # The part of a page leads the whole page there.
    part = other.get(hx_request="true", hx_current_url=f"{server.url}/console/keys?x=1")
    assert part.status == 401
    assert part.headers["HX-Redirect"] == "/console/sign-in?why=revoked&next=/console/keys%3Fx%3D1"
    reply = other.get("/console/keys")
    assert reply.status == 303
    assert b"was revoked" in other.get(reply.headers["Location"]).body


def test_so_does_one_that_another_process_revokes(boss: str, key_store: KeyStore, keyed: Keyed, people: People) -> None:
    person = people(keyed())
    person.sign_in(boss)
    key_store.revoke("boss")
    eventually(lambda: person.get().status == 303)


def test_time_ends_a_session(boss: str, keyed: Keyed, people: People) -> None:
    server = keyed(console_idle_s=60, console_session_s=200)
    server.clock.stop()
    person = people(server)
    person.sign_in(boss)
    for _ in range(4):
        server.clock.advance(45)
        assert person.get().status == 200, "what is used stays"
    server.clock.advance(45)
    reply = person.get()
    assert reply.status == 303
    assert "why=idle" in reply.headers["Location"]
    person.sign_in(boss)
    for _ in range(2):
        server.clock.advance(45)
        last = person.get(hx_request="true", x_console_poll="1")
    assert last.status == 401, "what a page does by itself keeps no session alive"


def test_a_session_outlives_a_restart_and_serves_at_other_servers(boss: str, keyed: Keyed, people: People) -> None:
    first, second = keyed(), keyed()
    person = people(first)
    person.sign_in(boss)
    elsewhere = people(second)
    elsewhere.cookies = dict(person.cookies)
    assert elsewhere.get().status == 200
    first.stop()
    third = people(keyed())
    third.cookies = dict(person.cookies)
    assert third.get().status == 200


def test_who_signs_out_is_out(boss: str, keyed: Keyed, people: People) -> None:
    server = keyed()
    person, other = people(server), people(server)
    person.sign_in(boss)
    other.sign_in(boss)
    copied = dict(person.cookies)
    person.get()
    reply = person.post("/console/sign-out")
    assert reply.headers["Location"] == "/console/sign-in?why=out"
    assert person.get().status == 303
    thief = people(server)
    thief.cookies = copied
    assert "why=ended" in thief.get().headers["Location"]
    assert other.get().status == 200, "others with the same key stay"


def test_who_signs_out_is_out_everywhere(boss: str, keyed: Keyed, people: People) -> None:
    """At another server on the store, and after a restart."""
    first, second = keyed(), keyed()
    person, elsewhere = people(first), people(second)
    person.sign_in(boss)
    elsewhere.cookies = copied = dict(person.cookies)
    assert elsewhere.get().status == 200
    person.get()
    assert person.post("/console/sign-out").status == 303
    eventually(lambda: elsewhere.get(cookie=cookie_of(copied)).status == 303)
    first.stop()
    second.stop()
    later = people(keyed())
    assert "why=ended" in later.get(cookie=cookie_of(copied)).headers["Location"]


def cookie_of(cookies: dict[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in cookies.items())


def test_signing_in_and_out_is_written_down(boss: str, keyed: Keyed, people: People) -> None:
    server = keyed()
    person = people(server)
    person.sign_in(boss)
    person.get("/console/keys")
    person.post("/console/keys", {"name": "k", "rules": "queue|post|*"})
    person.get("/console/keys")
    person.post("/console/keys/k/revoke", {"confirm": "k"})
    person.get("/console/keys")
    person.post("/console/sign-out")
    entries = server.in_unit(lambda unit: unit.actions.list(None, 10), write=False)
    assert [(one.key, one.via, one.what.value) for one in entries] == [
        ("boss", "console", what) for what in ("console.sign-out", "key.revoke", "key.create", "console.sign-in")
    ]


def test_no_api_takes_the_cookie(boss: str, keyed: Keyed, people: People) -> None:
    server = keyed()
    person = people(server)
    person.sign_in(boss)
    for path in ("/v1/queues", "/v1/keys", "/queues", "/metrics", "/messages/q"):
        assert person.get(path).status == 401
    # And the console takes no key but in its form.
    with server.talk() as talk:
        assert talk("GET", "/console/keys", authorization=f"Bearer {boss}").status == 303


class TestForgery:
    @pytest.mark.parametrize("token", ["", "x", "é", None])
    @pytest.mark.parametrize("path", ["/console/keys", "/console/keys/boss/revoke", "/console/sign-out"])
    def test_nothing_changes_without_the_token(
        self, boss: str, keyed: Keyed, people: People, path: str, token: str | None
    ) -> None:
        server = keyed()
        person = people(server)
        person.sign_in(boss)
        person.get("/console/keys")
        if token is None:
            other = people(server)
            other.sign_in(boss)
            other.get()
            token = other.token
        reply = person.post(path, {"csrf": token, "name": "k", "rules": "queue|*|*", "confirm": "boss"})
        assert reply.status == 403
        assert person.get("/console/keys").status == 200
        with server.talk() as talk:
            assert len(talk("GET", "/v1/keys", authorization=f"Bearer {boss}").json["keys"]) == 1

    def test_nor_without_keys(self, server: ThreadServer, person: Person) -> None:
        person.get("/console/keys")
        assert person.post("/console/keys", {"csrf": "", "name": "k", "rules": "queue|*|*"}).status == 403
        person.cookies.clear()
        assert person.post("/console/keys", {"name": "k", "rules": "queue|*|*"}).status == 403
        with server.talk() as talk:
            assert talk("GET", "/v1/keys").json == {"keys": []}

    def test_a_script_may_send_it_as_a_header(self, boss: str, keyed: Keyed, people: People) -> None:
        person = people(keyed())
        person.sign_in(boss)
        person.get("/console/keys")
        fields = {"csrf": "", "name": "k", "rules": "queue|post|*"}
        assert person.post("/console/keys", fields, x_csrf_token=person.token).status == 200

    def test_signing_in_needs_one_as_well(self, boss: str, keyed: Keyed, people: People) -> None:
        """Or somebody could be signed in as somebody else without noticing."""
        person = people(keyed())
        assert person.post("/console/sign-in", {"key": boss}).status == 403


def test_a_process_that_has_not_heard_of_the_first_key_keeps_its_session() -> None:
    """Another process may have made the key and signed somebody in, a moment ago."""
    console = Console(None, Keyring(SECRET))  # type: ignore[arg-type]
    sealed = console.sessions.seal(console.sessions.begin(BOSS))
    headers = {b"host": b"127.0.0.1:8080", b"cookie": f"{console.sessions.cookie}={sealed}".encode()}
    request = Request("GET", "/console/keys", headers=headers)
    [route] = [one for one in served() if (one.method, one.pattern) == ("GET", "/console/keys")]
    assert console.gate.admit(SIGNED_IN, request, route, NowhereClient()) is None
    assert not request.caller.is_new, "or its cookie would be lost"
    assert request.caller.name is None, "and it is nobody's yet"


class NowhereClient:
    def address(self) -> str:
        return "127.0.0.1"


# Who may use which route, independently of the code: everybody, any key, or one that permits an action on the queue
# that the path names, here "orders-1", or on every queue. A page that is added has to say here whom it is for.
EVERYBODY = None
ANY_KEY = ("", "")
ROUTES: dict[str, tuple[str, str] | None] = {
    "GET /console/sign-in": EVERYBODY,
    "POST /console/sign-in": EVERYBODY,
    "POST /console/sign-out": ANY_KEY,
    "GET /console": ANY_KEY,
    "GET /console/health": ANY_KEY,
    "GET /console/queues/{queue}/messages": ("poll", "orders-1"),
    "GET /console/queues/{queue}/messages/{message}": ("poll", "orders-1"),
    "GET /console/queues/{queue}/messages/{message}/body": ("poll", "orders-1"),
    "GET /console/ledger": ("poll", "*"),
    "GET /console/ledger/failures": ("poll", "*"),
    "GET /console/ledger/rows/{number}": ("poll", "*"),
    "GET /console/ledger/rows/{number}/body": ("poll", "*"),
    "GET /console/actions": ("admin", "*"),
    "GET /console/new-queue": ("admin", "orders-1"),
    "POST /console/new-queue": ("admin", "orders-1"),
    "GET /console/queues/{queue}": ("get_status", "orders-1"),
    "GET /console/queues/{queue}/charts/{chart}": ("get_status", "orders-1"),
    "GET /console/queues/{queue}/settings": ("admin", "orders-1"),
    "POST /console/queues/{queue}/settings": ("admin", "orders-1"),
    "POST /console/queues/{queue}/pause": ("admin", "orders-1"),
    "POST /console/queues/{queue}/resume": ("admin", "orders-1"),
    "POST /console/queues/{queue}/release": ("poll", "orders-1"),
    "GET /console/queues/{queue}/purge": ("poll", "orders-1"),
    "POST /console/queues/{queue}/purge": ("poll", "orders-1"),
    "GET /console/queues/{queue}/delete": ("admin", "orders-1"),
    "POST /console/queues/{queue}/delete": ("admin", "orders-1"),
    "POST /console/queues/{queue}/messages/act": ("poll", "orders-1"),
    "GET /console/queues/{queue}/messages/{message}/edit": ("poll", "orders-1"),
    "POST /console/queues/{queue}/messages/{message}/edit": ("poll", "orders-1"),
    "GET /console/queues/{queue}/messages/all": ("poll", "orders-1"),
    "POST /console/queues/{queue}/messages/all": ("poll", "orders-1"),
    "GET /console/queues/{queue}/send": ("post", "orders-1"),
    "POST /console/queues/{queue}/send": ("post", "orders-1"),
    "GET /console/tasks": ANY_KEY,
    "GET /console/tasks/{task}": ANY_KEY,
    "POST /console/tasks/{task}/cancel": ANY_KEY,
    "POST /console/tasks/{task}/run": ANY_KEY,
    "GET /console/keys": ("admin", "*"),
    "POST /console/keys": ("admin", "*"),
    "POST /console/keys/{name}/update": ("admin", "*"),
    "POST /console/keys/{name}/rotate": ("admin", "*"),
    "POST /console/keys/{name}/retire": ("admin", "*"),
    "POST /console/keys/{name}/revoke": ("admin", "*"),
    "GET /console/static/{version}/{name}": EVERYBODY,
    "GET /console/": EVERYBODY,
}
KINDS = {
    "boss": ("queue|*|*",),
    "looker": ("queue|get_status|*",),
    "admin-of-some": ("queue|admin|orders*",),
    "sender": ("queue|post|*",),
    "worker": ("queue|poll|orders-*",),
}
PARAMETERS = {
    "{version}/{name}": "v/console.css",
    "{name}": "victim",
    "{queue}": "orders-1",
    "{message}": "0199a8c2-51f4-7abc-9def-00000000002a",
    "{task}": "7e1c1f5c-2b50-4f0e-9d0c-1a35a4b8c6f1",
}


def served() -> list[Route]:
    broker = None
    return console_routes(Console(broker, Keyring(SECRET)))  # type: ignore[arg-type]


def test_the_table_names_every_route() -> None:
    assert {f"{route.method} {route.pattern}" for route in served()} == set(ROUTES)


@pytest.mark.parametrize("kind", KINDS)
def test_who_may_use_which_page(key_store: KeyStore, keyed: Keyed, people: People, kind: str) -> None:
    secret = key_store.create(kind, *KINDS[kind])
    key_store.create("victim", "queue|post|x")
    person = people(keyed())
    for asked, needs in ROUTES.items():
        if asked.endswith("/sign-out"):
            continue
        method, path = asked.split()
        for word, meant in PARAMETERS.items():
            path = path.replace(word, meant)
        stranger = people_of(person)
        stranger.get("/console/sign-in")
        reply = stranger.get(path) if method == "GET" else stranger.post(path)
        leads_out = reply.status == 303 and reply.headers["Location"].startswith("/console/sign-in")
        assert leads_out is (needs is not EVERYBODY), asked
        person.sign_in(secret)
        person.get()
        reply = person.get(path) if method == "GET" else person.post(path)
        may = needs in (EVERYBODY, ANY_KEY) or permits(KINDS[kind], *needs)
        assert (reply.status != 403) is may, (asked, reply.status)
        if not may and "new-queue" not in path:
            assert f"it needs queue|{'|'.join(needs)}".encode() in reply.body


def people_of(person: Person) -> Person:
    """Another one on the same connection."""
    return Person(person._talk)


def test_a_page_shows_what_its_key_may_see(key_store: KeyStore, keyed: Keyed, people: People, boss: str) -> None:
    secret = key_store.create("orders", "queue|get_status|orders*")
    server = keyed()
    with server.talk() as talk:
        for name in ("orders", "orders-dead", "payroll"):
            assert talk("PUT", f"/v1/queues/{name}", {}, authorization=f"Bearer {boss}").status == 201
    person = people(server)
    person.sign_in(secret)
    body = person.get().body
    assert b"orders-dead" in body
    assert b"payroll" not in body
    assert b"/console/keys" not in body, "what the key may not use is not offered"
    assert b"payroll" not in person.get("/console?filter=payroll").body.replace(
        b"\xe2\x80\x9cpayroll\xe2\x80\x9d", b""
    ).replace(b'value="payroll"', b"").replace(b"filter=payroll", b"")
