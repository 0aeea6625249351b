"""The console, and what a browser that is signed in to it can be made to do by a page of another origin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.faces.console import Console, console_routes
from penstock.keys import Keyring
from tests.faces.console.conftest import Person
from tests.faces.console.test_sessions import cookie_of
from tests.keys.conftest import KeyStore
from tests.keys.test_matrix import Prepared, asked, name_of, routes_without_keys
from tests.servers import ThreadServer

LINK = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
# How a page of another origin may ask, as browsers tell it.
FOREIGN = {
    "fetch": {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "origin": "http://evil.example"},
    "same site": {"sec_fetch_site": "same-site", "sec_fetch_mode": "cors", "origin": "http://localhost:1"},
    "image": {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"},
    "frame": {**LINK, "sec_fetch_dest": "iframe"},
    "form": {**LINK, "origin": "http://evil.example"},
    "form without an origin": {**LINK, "origin": "null"},
    "plain http": {"origin": "http://evil.example"},
    "old browser": {
        "user_agent": "Mozilla/5.0 (X11)",
        "accept_language": "en",
        "referer": "http://evil.example/",
        "origin": "http://evil.example",
    },
}
PATHS = [
    f"{route.method} {route.pattern}".replace("{version}/{name}", "v/console.css")
    .replace("{name}", "k")
    .replace("{queue}", "q")
    for route in console_routes(Console(None, Keyring(b"s" * 32)))  # type: ignore[arg-type]
]


@pytest.fixture
def signed_in(key_store: KeyStore, keyed) -> Iterator[tuple[ThreadServer, Person]]:
    secret = key_store.create("boss", "queue|*|*")
    server = keyed()
    person = Person(server.talk())
    person.sign_in(secret)
    person.get()
    yield server, person
    person._talk.close()


@pytest.fixture
def open_server(tmp_path: Path) -> Iterator[ThreadServer]:
    """One whose store has no keys."""
    running = ThreadServer(f"sqlite:///{tmp_path}/open.db")
    yield running
    running.stop()


def ask(person: Person, path: str, headers: dict[str, str]) -> int:
    method, place = path.split(" ", 1)
    reply = person.get(place, **headers) if method == "GET" else person.post(place, **headers)
    return reply.status


@pytest.mark.parametrize("way", FOREIGN)
def test_no_route_of_the_console_serves_a_foreign_page(signed_in, open_server: ThreadServer, way: str) -> None:
    """Not even one that knows the token: with a session, and where no keys are asked for."""
    person = signed_in[1]
    for path in PATHS:
        assert ask(person, path, dict(FOREIGN[way])) == 403, path
    assert person.get().status == 200, "and nothing was signed out of"
    with open_server.talk() as talk:
        anybody = Person(talk)
        anybody.get()
        for path in PATHS:
            assert ask(anybody, path, dict(FOREIGN[way])) == 403, path


def test_a_link_leads_to_a_page_and_posts_nothing(signed_in) -> None:
    person = signed_in[1]
    for path in PATHS:
        assert (ask(person, path, dict(LINK)) == 403) is path.startswith("POST"), path
    assert person.get().status == 200


def test_a_link_from_elsewhere_comes_without_the_cookie(signed_in) -> None:
    """It is strict. The page where one signs in then has a link of its own, with which the cookie comes along."""
    person = signed_in[1]
    reply = person.get("/console/keys", cookie="", **LINK)
    reply = person.get(reply.headers["Location"], cookie="", **LINK)
    assert b'<a href="/console/keys">Go on</a>' in reply.body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example"])
def test_a_name_that_was_turned_against_the_server_finds_nothing(
    signed_in, open_server: ThreadServer, host: str
) -> None:
    """DNS rebinding. To the browser it is the page's own server: its requests are of the same origin, without the
    cookie, which belongs to the other name."""
    own = {"host": host, "sec_fetch_site": "same-origin", "origin": f"http://{host}"}
    person = signed_in[1]
    for path in PATHS:
        if "static" in path or "sign-in" in path or path == "GET /console/":
            continue
        assert ask(person, path, {**own, "cookie": ""}) == 303, path
    with open_server.talk() as talk:
        anybody = Person(talk)
        anybody.get()
        for path in PATHS:
            assert ask(anybody, path, dict(own)) == 403, path


def test_no_api_is_reached_with_a_session(signed_in) -> None:
    """A browser sends its cookie along to the APIs as well, if somebody has told it a wider path."""
    server, person = signed_in
    cookie = cookie_of(person.cookies)
    checked = 0
    with server.talk() as talk:
        for _, route in routes_without_keys():
            request = asked(route, "own-q", Prepared("0" * 36))
            if route.permission.scope.name == "ANYBODY":
                continue
            for headers in ({}, {"sec_fetch_site": "same-origin", "origin": server.url}, FOREIGN["fetch"]):
                reply = talk(request.method, request.path, request.body, cookie=cookie, **headers)
                assert reply.status in (401, 403), (name_of(route), headers, reply.status)
            checked += 1
    assert checked > 50
