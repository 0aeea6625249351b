"""Somebody at the console, without a browser: cookies are kept, tokens are found in pages, nothing else is hidden."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.keys.conftest import KeyStore
from tests.servers import ThreadServer
from tests.talk import Reply, Talk

_TOKEN = re.compile(r'name="csrf-token" content="([^"]*)"')


class Person:
    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.cookies: dict[str, str] = {}
        self.token = ""

    def get(self, path: str = "/console", **headers: str) -> Reply:
        return self._ask("GET", path, None, headers)

    def head(self, path: str = "/console") -> Reply:
        return self._ask("HEAD", path, None, {})

    def post(self, path: str, fields: dict[str, str] | None = None, **headers: str) -> Reply:
        """With the token of the last page, unless another is given."""
        body = urlencode({"csrf": self.token, **(fields or {})})
        headers.setdefault("content_type", "application/x-www-form-urlencoded")
        return self._ask("POST", path, body, headers)

    def raw(self, path: str, body: bytes, content_type: str) -> Reply:
        return self._ask("POST", path, body, {"content_type": content_type})

    def sign_in(self, secret: str) -> Reply:
        self.get("/console/sign-in")
        reply = self.post("/console/sign-in", {"key": secret})
        assert reply.status == 303, reply.body
        return reply

    def _ask(self, method: str, path: str, body: str | bytes | None, headers: dict[str, str]) -> Reply:
        if self.cookies and "cookie" not in headers:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        reply = self._talk(method, path, body, **headers)
        for line in reply.headers.get_all("Set-Cookie", []):
            name, _, rest = line.partition("=")
            value, _, terms = rest.partition(";")
            if "Max-Age=0" in terms:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        found = _TOKEN.search(reply.body.decode("utf-8", "replace"))
        if found:
            self.token = unescape(found[1])
        return reply


@pytest.fixture
def people() -> Iterator[Callable[[ThreadServer], Person]]:
    talks: list[Talk] = []

    def come(server: ThreadServer) -> Person:
        talks.append(server.talk())
        return Person(talks[-1])

    yield come
    for talk in talks:
        talk.close()


@pytest.fixture
def person(server: ThreadServer, people: Callable[[ThreadServer], Person]) -> Person:
    """Somebody whom no one asks for a key."""
    return people(server)


@pytest.fixture
def key_store(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path)


@pytest.fixture
def keyed(key_store: KeyStore) -> Iterator[Callable[..., ThreadServer]]:
    """Start a server on a store that has its keys."""
    started: list[ThreadServer] = []

    def start(**settings: object) -> ThreadServer:
        started.append(ThreadServer(key_store.url, **settings))
        return started[-1]

    yield start
    for one in started:
        one.stop()
