"""Shipments, as a consumer takes them: one after another by number, each repeated until it is settled or gone."""

from __future__ import annotations

from random import Random
from typing import Any

from soak.apis import read_messages
from soak.history import OK, PERHAPS, Recorder, now
from soak.talk import Reply, Talk, Unanswered, Unreachable

_HOLD_S = 5


class Shipper:
    def __init__(self, talk: Talk, recorder: Recorder, queue: str, consumer: str, random: Random) -> None:
        self._talk = talk
        self._recorder = recorder
        self._queue = queue
        self._consumer = consumer
        self._random = random
        self._number = 1
        # When it was first asked for: its hold began then at the earliest.
        self._asked_at: float | None = None
        self._messages: list[list[Any]] | None = None
        self._releases = False

    @property
    def is_open(self) -> bool:
        return self._asked_at is not None

    def step(self) -> int:
        """One request; returns how many messages were finished."""
        if self._messages is None:
            self._take()
            return 0
        return self._settle()

    def _path(self, verb: str = "") -> str:
        return f"/v1/queues/{self._queue}/shipments/{self._consumer}/{self._number}{verb}"

    def _ask(self, method: str, path: str, body: object = None) -> Reply | None:
        try:
            reply = self._talk(method, path, body)
        except Unanswered:
            return None
        return reply if reply.status < 500 else None

    def _take(self) -> None:
        self._talk.connect()
        if self._asked_at is None:
            self._asked_at = now()
        limit = self._random.choice((1, 50, 500))
        reply = self._ask("PUT", self._path(), {"limit": limit, "hold_ms": _HOLD_S * 1000})
        if reply is None:
            return
        if reply.status == 204:
            self._asked_at = None
            return
        if reply.status == 410:
            self._next()
            return
        assert reply.status in (200, 201), reply
        reply = self._ask("GET", self._path("/messages"))
        if reply is None or reply.status == 409:
            return  # it is still gathering, or the server has gone
        if reply.status in (404, 410):
            self._next()
            return
        assert reply.status == 200, reply
        self._messages = read_messages(reply.json["messages"])
        self._releases = self._random.random() < 0.2
        self._recorder.write(
            {
                "op": "claim", "queue": self._queue, "api": "shipment", "begin": self._asked_at, "end": now(),
                "hold_s": _HOLD_S, "name": f"{self._consumer}/{self._number}", "messages": self._messages,
            }
        )  # fmt: skip

    def _settle(self) -> int:
        assert self._messages is not None
        self._talk.connect()
        op, verb = ("release", "/release") if self._releases else ("ack", "/settle")
        named = [[tag, id, None] for tag, id, _, _ in self._messages]
        event = self._recorder.begin(op, self._queue, messages=named, api="shipment")
        try:
            reply = self._talk("POST", self._path(verb), {})
        except (Unanswered, Unreachable):
            self._recorder.end(event, PERHAPS)
            return 0
        if reply.status >= 500:
            self._recorder.end(event, PERHAPS, status=reply.status)
            return 0
        done = reply.status == 200
        self._recorder.end(event, OK, done=[done] * len(named), status=reply.status)
        count = len(named) if done and op == "ack" else 0
        self._next()
        return count

    def _next(self) -> None:
        self._number += 1
        self._asked_at = None
        self._messages = None
