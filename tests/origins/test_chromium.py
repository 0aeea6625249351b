"""What web pages can do to a server without keys, tried in a real browser.

A page of another origin tries every way in which a browser sends a request without asking: each must reach the server
and be refused there, with nothing changed. The server's own page, links and typed addresses work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from penstock.edge.http import Request, Response
from penstock.edge.router import Client, Guard, Route
from tests.chromium import Chromium, Page
from tests.keys.conftest import KeyStore
from tests.servers import ThreadServer

# To this browser all of these are this machine. The first two are an attacker's.
EVIL, REBOUND, LAN = "evil.test", "rebound.test", "lan.test"
SCRIPT = "<title>inert</title><script>document.title = 'ran'; fetch('/v1/queues')</script>"

# By the name of the way, what the page runs; `at` is the server's address.
WAYS = {
    "a POST without CORS": "fetch(at + '/v1/queues/q/purge', {method: 'POST', mode: 'no-cors', body: '{}'})",
    "a POST with a key in it": "fetch(at + '/v1/keys', {method: 'POST', mode: 'no-cors', "
    'body: \'{"name": "mine", "rules": ["queue|*|*"]}\'})',
    "a POST with CORS": "fetch(at + '/messages/q', {method: 'POST', body: 'forged'}).catch(() => 0)",
    "a GET that claims through mqs": "fetch(at + '/messages/q', {mode: 'no-cors'})",
    "a GET that claims through MQ-Core": "fetch(at + '/q/messages', {mode: 'no-cors'})",
    "a GET that claims through EmoDB": "fetch(at + '/queue/1/q/poll', {mode: 'no-cors'})",
    "a GET with CORS": "fetch(at + '/v1/queues').catch(() => 0)",
    "an image": "void (new Image().src = at + '/messages/q')",
    "an image without a referrer": "{ const i = new Image(); i.referrerPolicy = 'no-referrer'; "
    "i.src = at + '/messages/q' }",
    "a script": "{ const s = document.createElement('script'); s.src = at + '/messages/q'; document.body.append(s) }",
    "a frame": "{ const f = document.createElement('iframe'); f.src = at + '/messages/q'; document.body.append(f) }",
    "a beacon": "navigator.sendBeacon(at + '/v1/queues/q/purge', '{}')",
    "a form": "{ const f = document.createElement('form'); f.method = 'post'; f.enctype = 'text/plain'; "
    "f.action = at + '/v1/queues/q/purge'; document.body.append(f); f.submit() }",
    "a form without an origin": "{ const f = document.createElement('iframe'); "
    "f.sandbox = 'allow-forms allow-scripts'; "
    "f.srcdoc = `<form method=post enctype=text/plain action=${at}/v1/queues/q/purge></form>"
    "<script>document.forms[0].submit()</script>`; document.body.append(f) }",
    "a link that claims": "void (location.href = at + '/messages/q')",
    "a window that claims": "void open(at + '/q/messages')",
}
# A browser asks before it sends these, and is not told that it may.
ASKED_FIRST = {
    "a DELETE": "{method: 'DELETE'}",
    "a PUT": "{method: 'PUT', body: '{}'}",
    "a PATCH": "{method: 'PATCH', body: '{}'}",
    "JSON": "{method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{}'}",
    "a key": "{headers: {'Authorization': 'Bearer x'}}",
}


class _Blank(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><body>a page of somebody else")

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    """The port of a web server with a blank page at every address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Blank)
    server.handle_error = lambda *_args: None  # a browser that hangs up is none
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("chromium"), EVIL, REBOUND, LAN) as browser:
        yield browser


@pytest.fixture
def page(chromium: Chromium) -> Iterator[Page]:
    opened = chromium.page()
    yield opened
    opened.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadServer]:
    running = ThreadServer(f"sqlite:///{tmp_path}/penstock.db", allowed_hosts=LAN)
    with running.talk() as talk:
        assert talk("PUT", "/v1/queues/q", {}).status == 201
        for _ in range(3):
            assert talk("POST", "/messages/q", SCRIPT, content_type="text/html").status == 201
    yield running
    running.stop()


# What a browser says of requests that the server's own pages make, such as one that was under way when it left them.
OWN = (b"same-origin", b"none")


class Seen:
    """What the guard was asked by pages of another origin, and how it answered."""

    def __init__(self, server: ThreadServer, monkeypatch: pytest.MonkeyPatch) -> None:
        """From the next connection on."""
        self.requests: list[tuple[str, str, int | None]] = []
        self._any = threading.Event()
        for front in server.fronts:
            router = front._listener._router
            monkeypatch.setattr(router, "guard", self._noting(router.guard))

    def _noting(self, judge: Guard) -> Guard:
        def judged(request: Request, route: Route, client: Client) -> Response | None:
            refused = judge(request, route, client)
            if request.headers.get(b"sec-fetch-site") not in OWN:
                self.requests.append((request.method, request.path, refused and refused.status))
                self._any.set()
            return refused

        return judged

    def forget(self) -> None:
        self.requests.clear()
        self._any.clear()

    def wait(self) -> None:
        assert self._any.wait(60), "the request never reached the server"


def state(server: ThreadServer) -> list[object]:
    with server.talk() as talk:
        queue = talk("GET", "/v1/queues/q").json
        peeked = talk("GET", "/v1/queues/q/messages?limit=10").json
        return [queue, peeked, talk("GET", "/v1/keys").json, talk("GET", "/v1/queues").json["total"]]


def port_of(server: ThreadServer) -> str:
    return server.url.rpartition(":")[2]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("origin", "target"),
    [(EVIL, "127.0.0.1"), ("localhost", "localhost"), (EVIL, LAN)],
    ids=["cross-site", "same-site", "plain-http"],
)
def test_a_foreign_page_changes_nothing(
    server: ThreadServer,
    page: Page,
    elsewhere: int,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    origin: str,
    target: str,
) -> None:
    before = state(server)
    page.go(f"http://{origin}:{elsewhere}/")
    seen = Seen(server, monkeypatch)
    page.run(f"{{ const at = 'http://{target}:{port_of(server)}'; {WAYS[way]} }}; 0")
    seen.wait()
    monkeypatch.undo()
    assert {status for *_, status in seen.requests} == {403}
    assert state(server) == before


@pytest.mark.parametrize("way", ASKED_FIRST)
def test_what_a_browser_asks_about_first_is_not_sent(
    server: ThreadServer, page: Page, elsewhere: int, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    page.go(f"http://{EVIL}:{elsewhere}/")
    seen = Seen(server, monkeypatch)
    sent = f"fetch('{server.url}/v1/queues/q', {ASKED_FIRST[way]}).then(() => 'sent', () => 'not sent')"
    assert page.run(sent) == "not sent"
    assert seen.requests == []


def test_a_page_whose_name_leads_here_reads_nothing(server: ThreadServer, page: Page) -> None:
    """DNS rebinding: to the browser it is the page's own server, so that there is no other origin to speak of."""
    before = state(server)
    at = f"http://{REBOUND}:{port_of(server)}"
    page.go(f"{at}/docs")
    assert "is not a name of this server" in page.run("document.body.textContent")
    assert page.run("location.origin") == at
    for path in ("/v1/queues", "/messages/q", "/q/messages", "/queue/1/q/poll", "/openapi.json", "/health"):
        assert page.run(f"fetch('{path}').then((answer) => answer.status)") == 403
    asked = "fetch('/v1/queues/q/purge', {method: 'POST', body: '{}'}).then((answer) => answer.status)"
    assert page.run(asked) == 403
    assert state(server) == before


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", LAN])
def test_the_servers_own_page_may_do_everything(server: ThreadServer, page: Page, name: str) -> None:
    page.go(f"http://{name}:{port_of(server)}/docs")

    def ask(path: str, options: str = "{}") -> int:
        return page.run(f"fetch('{path}', {options}).then((answer) => answer.status)")

    assert ask("/v1/queues") == 200
    assert ask("/messages/q") == 200
    assert ask("/messages/q", "{method: 'POST', body: 'sent'}") == 201
    assert ask("/v1/queues/q", "{method: 'PATCH', body: '{}'}") == 200
    assert ask("/v1/queues/q", "{method: 'DELETE'}") in (200, 204)


def test_a_link_from_elsewhere_leads_to_the_page(server: ThreadServer, page: Page, elsewhere: int) -> None:
    page.go(f"http://{EVIL}:{elsewhere}/")
    page.run(f"void (location.href = '{server.url}/docs')")
    page.until("document.title.startsWith('Penstock') && document.querySelectorAll('.operation').length > 0")


def test_a_message_that_is_looked_at_runs_no_script(server: ThreadServer, page: Page) -> None:
    for path in ("/messages/q", "/q/messages"):
        page.go(server.url + path)
        assert page.run("document.title") == "inert"
        # It has no origin, so that nothing of the server is its own.
        assert page.run("self.origin") == "null"


# The same against the console, and against the APIs by a browser that is signed in.
CONSOLE_WAYS = {
    "a POST without CORS": "fetch(at + '/console/sign-out', {method: 'POST', mode: 'no-cors', credentials: 'include'})",
    "a GET without CORS": "fetch(at + '/console/keys', {mode: 'no-cors', credentials: 'include'})",
    "an image": "void (new Image().src = at + '/console')",
    "a script": "{ const s = document.createElement('script'); s.src = at + '/console/keys'; document.body.append(s) }",
    "a frame": "{ const f = document.createElement('iframe'); f.src = at + '/console'; document.body.append(f) }",
    "a beacon": "navigator.sendBeacon(at + '/console/sign-out', new URLSearchParams({csrf: 'x'}))",
    "a form": "{ const f = document.createElement('form'); f.method = 'post'; "
    "f.action = at + '/console/keys/boss/revoke'; f.innerHTML = '<input name=confirm value=boss>'; "
    "document.body.append(f); f.submit() }",
    "a form without an origin": "{ const f = document.createElement('iframe'); "
    "f.sandbox = 'allow-forms allow-scripts'; "
    "f.srcdoc = `<form method=post action=${at}/console/sign-out></form>"
    "<script>document.forms[0].submit()</script>`; document.body.append(f) }",
}
API_WAYS = {
    "a POST": "fetch(at + '/v1/queues/q/purge', {method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}'})",
    "an image": "void (new Image().src = at + '/messages/q')",
    "a link that claims": "void (location.href = at + '/messages/q')",
}


@pytest.fixture
def signed_in(
    key_store: KeyStore, keyed: Callable[..., ThreadServer], page: Page, monkeypatch: pytest.MonkeyPatch
) -> tuple[ThreadServer, str, Seen]:
    """A server with keys, and a browser that has a session of one that may do everything."""
    secret = key_store.create("boss", "queue|*|*")
    server = keyed(allowed_hosts=LAN)
    # Before the first connection, which the browser keeps.
    seen = Seen(server, monkeypatch)
    page.go(f"{server.url}/console/sign-in")
    page.run(f"document.querySelector('[name=key]').value = '{secret}'; document.forms[0].submit()")
    page.until("document.querySelector('form.who')")
    return server, secret, seen


@pytest.mark.parametrize("way", [*CONSOLE_WAYS, *(f"{way} to an API" for way in API_WAYS)])
@pytest.mark.parametrize(("origin", "target"), [(EVIL, "127.0.0.1"), ("127.0.0.1", "127.0.0.1")], ids=["cross", "same"])
def test_a_foreign_page_does_nothing_with_a_session(
    signed_in: tuple[ThreadServer, str, Seen],
    page: Page,
    elsewhere: int,
    way: str,
    origin: str,
    target: str,
) -> None:
    """Another port is the same site: the browser adds the cookie there, and it is refused all the same."""
    server, secret, seen = signed_in
    runs = CONSOLE_WAYS[way] if way in CONSOLE_WAYS else API_WAYS[way.removesuffix(" to an API")]
    page.go(f"http://{origin}:{elsewhere}/")
    seen.forget()
    page.run(f"{{ const at = 'http://{target}:{port_of(server)}'; {runs} }}; 0")
    seen.wait()
    assert {status for *_, status in list(seen.requests)} <= {401, 403}
    with server.talk() as talk:
        keys = talk("GET", "/v1/keys", authorization=f"Bearer {secret}").json["keys"]
        assert [(key["name"], key["revoked_at"]) for key in keys] == [("boss", None)]
    page.go(f"{server.url}/console")
    assert page.run("document.querySelector('form.who') !== null"), "the session is still there"


def test_a_page_whose_name_leads_here_has_no_session(signed_in: tuple[ThreadServer, str, Seen], page: Page) -> None:
    server, *_ = signed_in
    page.go(f"http://{REBOUND}:{port_of(server)}/console/keys")
    assert page.run("location.pathname") == "/console/sign-in"
    for path in ("/console", "/console/keys", "/console/health"):
        asked = f"fetch('{path}', {{redirect: 'manual'}}).then((answer) => answer.type)"
        assert page.run(asked) == "opaqueredirect"
