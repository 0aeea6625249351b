from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.servers import ThreadServer
from tests.talk import Reply, Talk

JSON = "application/json"
SUCCESS = {"success": True}


class Emo:
    """One of the two services, as a client of the document's sees it."""

    def __init__(self, talk: Talk, base: str) -> None:
        self.talk = talk
        self.base = base

    def get(self, path: str) -> Reply:
        return self.talk("GET", f"{self.base}/{path}")

    def post(self, path: str, body: bytes | str | None = None, content_type: str | None = JSON) -> Reply:
        headers = {} if content_type is None or body is None else {"content_type": content_type}
        return self.talk("POST", f"{self.base}/{path}", body, **headers)

    def send(self, queue: str, *texts: str) -> None:
        """Messages as the JSON that goes over the wire."""
        for text in texts:
            reply = self.post(f"{queue}/send", text)
            assert (reply.status, reply.json) == (200, SUCCESS), reply.body

    def poll(self, queue: str, **options: int) -> list[dict]:
        return self._messages(f"{queue}/poll", options)

    def peek(self, queue: str, **options: int) -> list[dict]:
        return self._messages(f"{queue}/peek", options)

    def _messages(self, path: str, options: dict[str, int]) -> list[dict]:
        query = "&".join(f"{name}={value}" for name, value in options.items())
        reply = self.get(f"{path}?{query}")
        assert (reply.status, reply.headers["Content-Type"]) == (200, JSON), reply.body
        return reply.json

    def payloads(self, queue: str, **options: int) -> list:
        return [message["payload"] for message in self.poll(queue, **options)]

    def ack(self, queue: str, messages: list[dict]) -> None:
        reply = self.post(f"{queue}/ack", json.dumps([message["id"] for message in messages]))
        assert (reply.status, reply.json) == (200, SUCCESS), reply.body

    def renew(self, queue: str, messages: list[dict], **options: int) -> None:
        query = "&".join(f"{name}={value}" for name, value in options.items())
        reply = self.post(f"{queue}/renew?{query}", json.dumps([message["id"] for message in messages]))
        assert (reply.status, reply.json) == (200, SUCCESS), reply.body

    def size(self, queue: str) -> int:
        return self.get(f"{queue}/size").json

    def claim_count(self, queue: str) -> int:
        return self.get(f"{queue}/claimcount").json


@pytest.fixture(params=["/queue/1", "/dedupq/1"])
def emo(talk: Talk, request: pytest.FixtureRequest) -> Emo:
    """Each of the two services: all calls are the same."""
    return Emo(talk, request.param)


@pytest.fixture
def plain(talk: Talk) -> Emo:
    return Emo(talk, "/queue/1")


@pytest.fixture
def dedup(talk: Talk) -> Emo:
    return Emo(talk, "/dedupq/1")


@pytest.fixture
def other_talk(server: ThreadServer) -> Iterator[Talk]:
    """A second connection: one that was refused in the middle of its body is closed."""
    with server.talk() as talk:
        yield talk
