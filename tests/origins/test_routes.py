"""Every route of every API, asked by a web page of another origin and by a name that is not the server's."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.server.faces import FACES
from tests.keys.conftest import KeyStore
from tests.keys.test_matrix import asked, in_the_store, name_of, routes, routes_without_keys, running
from tests.servers import ThreadServer
from tests.talk import Reply

REFUSED = [
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site", "sec_fetch_mode": "no-cors"},
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"host": "evil.example"},
    {"host": "evil.example:8080", "sec_fetch_site": "same-origin", "origin": "http://evil.example:8080"},
]


def check_words(reply: Reply, face: str) -> None:
    if face == "sqs":
        assert b"<Code>AccessDenied</Code>" in reply.body
    else:
        assert list(reply.json) == ["reason" if face == "emodb" else "error"]


@pytest.mark.parametrize("face", FACES)
def test_every_route_refuses_foreign_pages_and_names(tmp_path: Path, face: str) -> None:
    checked = 0
    with running(tmp_path, face, {}) as (world, talk):
        for of_face, route in routes_without_keys():
            if of_face != face:
                continue
            prepared = world.prepare(in_the_store(route, "own-q"))
            before = world.snapshot()
            request = asked(route, "own-q", prepared)
            for headers in REFUSED:
                reply = talk(request.method, request.path, request.body, **headers)
                assert reply.status == 403, (name_of(route), headers)
                check_words(reply, face)
                if route.head:
                    assert talk("HEAD", request.path, **headers).status == 403
            assert world.snapshot() == before, f"{name_of(route)} was refused and has changed something"
            reply = talk(request.method, request.path, request.body, sec_fetch_site="same-origin", origin=talk.url)
            assert reply.status != 403, (name_of(route), reply.body)
            checked += 1
    assert checked == sum(of_face == face for of_face, _ in routes())


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/favicon.ico"])
def test_pages_may_be_linked_to_and_not_fetched(server: ThreadServer, path: str) -> None:
    with server.talk() as talk:
        link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
        assert talk("GET", path, **link).status == 200
        assert talk("GET", path, sec_fetch_site="cross-site", sec_fetch_mode="cors").status == 403
        assert talk("GET", path, **link, host="evil.example").status == 403


def test_names_that_the_settings_allow(tmp_path: Path) -> None:
    running = ThreadServer(f"sqlite:///{tmp_path}/penstock.db", host="localhost", allowed_hosts="queue.example")
    with running.talk() as talk:
        assert talk("GET", "/v1/queues", host="queue.example").status == 200
        assert talk("GET", "/v1/queues", host="other.example").status == 403
    running.stop()


def test_with_keys_nothing_is_asked_but_the_key(key_store: KeyStore, keyed) -> None:
    """No browser adds a key by itself, so there is nothing that a foreign page could make use of."""
    secret = key_store.create("k", "queue|*|*")
    with keyed().talk() as talk:
        for headers in REFUSED:
            assert talk("GET", "/v1/queues", **headers).status == 401
            assert talk("GET", "/v1/queues", authorization=f"Bearer {secret}", **headers).status == 200
            assert talk("GET", "/openapi.json", **headers).status == 200


def test_a_key_is_only_made_of_json(server: ThreadServer) -> None:
    """A form cannot say that it is JSON, and a page of another origin cannot without asking first."""
    body = '{"name": "k", "rules": ["queue|*|*"]}'
    with server.talk() as talk:
        for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            reply = talk("POST", "/v1/keys", body, content_type=content_type)
            assert (reply.status, reply.json) == (415, {"error": "Content-Type: application/json is required"})
        assert talk("GET", "/v1/keys").json == {"keys": []}
        assert talk("POST", "/v1/keys", body, content_type="application/json; charset=utf-8").status == 201


@pytest.mark.parametrize("path", ["/messages/q", "/q/messages"])
@pytest.mark.parametrize("kind", ["text/html", "image/svg+xml", "application/octet-stream"])
def test_a_message_is_inert_in_a_browser(server: ThreadServer, path: str, kind: str) -> None:
    with server.talk() as talk:
        talk("PUT", "/v1/queues/q", {})
        talk("POST", path, b"<script>", content_type=kind)
        reply = talk("GET", path)
        assert reply.headers["Content-Type"] == kind
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Content-Security-Policy"] == "sandbox"


def test_so_are_several_at_once(server: ThreadServer) -> None:
    with server.talk() as talk:
        talk("PUT", "/v1/queues/q", {})
        for _ in range(2):
            talk("POST", "/messages/q", b"<script>", content_type="text/html")
        reply = talk("GET", "/messages/q", x_mqs_max_messages="2")
        assert reply.headers["Content-Security-Policy"] == "sandbox"
        # Around the messages, not in each of them.
        assert b"sandbox" not in reply.body
