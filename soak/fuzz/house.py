"""A whole server without a socket: what a client sends is handed to a connection, and what it would get is kept.

The event loop runs only when it is told to, time stands still, and the store is in memory, so a case is a matter of
microseconds. After some thousands the house is pulled down: what they have left in its queues would only add up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from devtools.wire import Wire
from penstock.edge.connection import Connection
from penstock.edge.connections import Connections
from penstock.edge.limits import EdgeLimits, Timeouts
from penstock.edge.router import Router
from penstock.keys import digest
from penstock.model import Draft, Groups, Key, Settings
from penstock.server.board import Board, Meter
from penstock.server.committer import Committer, StoreFacts
from penstock.server.config import Config
from penstock.server.front import Front
from penstock.timings import Timings
from soak.fuzz.finding import Finding, expect
from soak.fuzz.reading import Answer, read_answers

NOW_MS = 1_790_000_000_000
QUEUES = ("orders", "jobs", "line.fifo")
KEY_NAME = "fuzz"
SECRET = b"a secret of the store, as long as"

# A request that is answered at all is answered within so many turns of the loop; one that is not waits for a message.
_TURNS = 40


class Loop:
    """An event loop that turns when it is told to."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.errors: list[str] = []
        self.loop.set_exception_handler(lambda _loop, context: self.errors.append(str(context)))

    def turn(self) -> None:
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        if self.errors:
            raise Finding(f"the event loop met an error: {self.errors}")


class Talker:
    """One connection to a router, as a client sees it."""

    def __init__(self, loop: Loop, router: Router, connections: Connections) -> None:
        self._loop = loop
        self.wire = Wire()
        self.connection = Connection(router, connections, loop.loop)
        self.connection.connection_made(self.wire)  # type: ignore[arg-type]

    def say(self, data: bytes) -> None:
        if not self.wire.closed:
            self.connection.data_received(data)

    def hang_up(self) -> None:
        """As a client that goes away; a deadline would have ended it as well, whatever was said."""
        for _ in range(4):
            if not self.wire.closed:
                self.connection.expire()
        self.connection.connection_lost(None)
        self._loop.turn()


class House:
    def __init__(self, *, with_key: bool = False) -> None:
        self.loop = Loop()
        config = Config(store="memory://", port=0)
        timings = Timings(wrong_keys=10**9)
        self.committer = Committer(config, self.loop.loop, lambda: NOW_MS, timings)
        facts = self.committer.facts
        if with_key:
            self.key = Key(KEY_NAME, digest(SECRET, b"psk_fuzz"), ("queue|*|*",), NOW_MS)
            facts = StoreFacts(facts.url, SECRET, facts.missing, [self.key])
        meter = Meter(Board(["server"]).place("server"), self.loop.loop)
        self.front = Front(config, self.committer.broker, facts, self.loop.loop, meter, None, timings, lambda: NOW_MS)
        # The listener of a front is the only one who knows its router, and it would open a socket.
        self.router = self.front._listener._router
        self.connections = Connections(self.loop.loop, Timeouts(), EdgeLimits())
        self._furnish()

    def _furnish(self) -> None:
        broker = self.committer.broker
        for name in QUEUES:
            settings = Settings() if not name.endswith(".fifo") else Settings(groups=Groups.FIFO)
            broker.create_queue(name, settings).listen(_ignore, _refuse)
            broker.send(name, (Draft(b"one"), Draft(b'{"two": 2}', "application/json"))).listen(_ignore, _refuse)
            self.loop.turn()

    def ask(self, data: bytes, methods: Sequence[str]) -> list[Answer]:
        """What is answered to these requests in one go; fewer than they are only if the last one waits."""
        talker = Talker(self.loop, self.router, self.connections)
        talker.say(data)
        for _ in range(_TURNS):
            if talker.wire.closed or len(read_answers(bytes(talker.wire.written), methods, whole=False)) == len(
                methods
            ):
                break
            self.loop.turn()
        answers = read_answers(bytes(talker.wire.written), methods)
        if len(answers) < len(methods):
            expect(not talker.wire.closed, "a connection was closed without an answer")
        talker.hang_up()
        expect(len(self.connections) == 0, "a connection was not forgotten")
        expect(self.connections.bodies.held == 0, "the bytes of a body are still accounted for")
        expect(not self.committer.broker.waiting_claims(), "a claim waits for a client that has gone")
        return answers

    def close(self) -> None:
        self.connections.stop_clock()
        self.committer.stop(0)
        self.loop.turn()
        self.committer.close()
        self.loop.loop.close()


def _ignore(_result: object) -> None:
    pass


def _refuse(error: Exception) -> None:
    raise error


def keep_quiet() -> None:
    """The log would tell of every case."""
    logging.disable(logging.CRITICAL)
