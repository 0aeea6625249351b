from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.limits import Limits
from penstock.timings import Timings
from tests.servers import ThreadServer
from tests.talk import Reply, Talk

# For tests of what each store does in a way of its own.
STORES = ("memory", "sqlite")


@pytest.fixture
def store() -> str:
    """A test that wants others is parametrized with them."""
    return "sqlite"


@pytest.fixture
def server(tmp_path: Path, timings: Timings, limits: Limits, store: str) -> Iterator[ThreadServer]:
    """A running server with an empty store."""
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path}/data/penstock.db"
    running = ThreadServer(url, timings=timings, limits=limits)
    yield running
    running.stop()


class Native:
    """The native API on the queue "q", in as many words as a test needs."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk

    def create(self, name: str = "q", **settings: Any) -> Reply:
        return self.talk("PUT", f"/v1/queues/{name}", settings)

    def send(self, *messages: str | dict[str, Any], to: str = "q") -> list[dict[str, Any]]:
        made = [{"body": message} if isinstance(message, str) else message for message in messages]
        reply = self.talk("POST", f"/v1/queues/{to}/messages", {"messages": made})
        assert reply.status == 201, reply.body
        return reply.json["sent"]

    def claim(self, queue: str = "q", **asked: Any) -> list[dict[str, Any]]:
        reply = self.talk("POST", f"/v1/queues/{queue}/claim", asked)
        assert reply.status == 200, reply.body
        return reply.json["messages"]

    def done(self, verb: str, *receipts: str, queue: str = "q", **asked: Any) -> list[bool]:
        reply = self.talk("POST", f"/v1/queues/{queue}/{verb}", {"receipts": list(receipts), **asked})
        assert reply.status == 200, reply.body
        return reply.json["done"]

    def peek(self, query: str = "", queue: str = "q") -> dict[str, Any]:
        reply = self.talk("GET", f"/v1/queues/{queue}/messages{query}")
        assert reply.status == 200, reply.body
        return reply.json

    def count(self, queue: str = "q") -> dict[str, Any]:
        return self.talk("GET", f"/v1/queues/{queue}").json["count"]


@pytest.fixture
def native(talk: Talk) -> Native:
    """With a queue called q."""
    native = Native(talk)
    assert native.create().status == 201
    return native


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["body"] for message in messages]
