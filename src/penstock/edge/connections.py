"""All connections of one listener, and the clock that ends those which take too long.

One timer looks at every connection about twice a second and compares floats; no request ever starts a
timer. Connections read the deadlines from here instead of asking the time, and answers get their `Date`
by the same timer. Nothing here reads or writes a socket.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

from penstock.edge.header_blocks import HeaderBlocks
from penstock.edge.http import CLOSE, KEEP, set_date
from penstock.edge.journal import Journal
from penstock.edge.limits import BodyBudget, EdgeLimits, Gauges, Timeouts

NEVER: Final = float("inf")

# Room for one more client; or only to tell it that there are too many; or not even for that.
ROOM: Final = 0
CROWDED: Final = 1
FULL: Final = 2

# An aborted connection is lost in one of the next turns of the loop; this only bounds the wait for that.
_ABORT_S: Final = 1.0


class Timed(Protocol):
    """What the clock knows of a connection."""

    deadline: float

    def expire(self) -> None: ...
    def unwritten(self) -> int: ...
    def abort(self) -> None: ...
    def wind_down(self) -> None: ...


class Greeted(Protocol):
    """A client that has not agreed on TLS yet."""

    def abort(self) -> None: ...


class Connections:
    """`bodies` is the budget of all of them, and `blocks` what they have learnt of headers; `persist` is how an
    HTTP/1.1 answer leaves its connection, unless the client asked otherwise; `now` is seconds since the start, as of
    the last look. `clock` tells the seconds that answers take; that of the loop is too coarse for it. The `journal`
    is told of every request while it `logs_access`, else only of those that fail."""

    __slots__ = (
        "_choked",
        "_emptied",
        "_gauge",
        "_handshakes",
        "_interval",
        "_last",
        "_loop",
        "_open",
        "_timeouts",
        "_timer",
        "answered",
        "blocks",
        "bodies",
        "body_until",
        "clock",
        "head_until",
        "idle_until",
        "journal",
        "limits",
        "linger_until",
        "logs_access",
        "now",
        "persist",
        "write_until",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeouts: Timeouts,
        limits: EdgeLimits,
        gauges: Gauges | None = None,
        clock: Callable[[], float] = time.perf_counter,
        journal: Journal | None = None,
    ) -> None:
        gauges = gauges or Gauges()
        self.clock = clock
        self.journal = journal
        self.logs_access = False
        self.limits = limits
        self.bodies = BodyBudget(limits.body_bytes, gauges.body_bytes)
        self._gauge = gauges.connections
        self.blocks = HeaderBlocks()
        # How many requests.
        self.answered = 0
        self.persist = KEEP
        self.now = 0.0
        self._timeouts = timeouts
        self._open: set[Timed] = set()
        self._handshakes: set[Greeted] = set()
        # Those that take no bytes: by when one must be taken, and how many there were.
        self._choked: dict[Timed, tuple[float, int]] = {}
        self._emptied: asyncio.Event | None = None
        self._loop = loop
        self._last = loop.time()
        self._interval = _interval(timeouts)
        self._set_deadlines()
        set_date(time.time())
        self._timer = loop.call_later(self._interval, self._tick)

    def adjust(self, timeouts: Timeouts, limits: EdgeLimits) -> None:
        """From now on; a connection that is open keeps its limits."""
        self.limits = limits
        self.bodies.set_limit(limits.body_bytes)
        self._timeouts = timeouts
        self._interval = _interval(timeouts)
        self._set_deadlines()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Timed) -> int:
        """Whether there is room for it: `ROOM`, `CROWDED` or `FULL`."""
        self._open.add(connection)
        return self._crowding()

    def forget(self, connection: Timed) -> None:
        self._open.discard(connection)
        self._count()
        self._choked.pop(connection, None)
        if self._emptied is not None and not self._open:
            self._emptied.set()

    def greet(self, client: Greeted) -> bool:
        """Whether there is room for a handshake: as much as for those who are told that there are too many."""
        self._handshakes.add(client)
        return self._crowding() != FULL and self.persist is KEEP

    def part(self, client: Greeted) -> None:
        """The handshake has ended, either way."""
        self._handshakes.discard(client)
        self._count()

    def _count(self) -> int:
        """How many there are here."""
        own = len(self._open) + len(self._handshakes)
        self._gauge.set(own)
        return own

    def _crowding(self) -> int:
        own, total, limits = self._count(), self._gauge.total(), self.limits
        if total <= limits.connections and own <= limits.own_connections:
            return ROOM
        if total <= most_refused(limits.connections) and own <= most_refused(limits.own_connections):
            return CROWDED
        return FULL

    def choke(self, connection: Timed) -> None:
        """The client takes no bytes; it has until the write deadline to take one."""
        self._choked[connection] = (self.write_until, connection.unwritten())

    def unchoke(self, connection: Timed) -> None:
        self._choked.pop(connection, None)

    def _set_deadlines(self) -> None:
        # `now` may be one interval old when a connection takes its deadline; never end one early.
        now = self.now + self._interval
        timeouts = self._timeouts
        self.head_until = now + timeouts.header
        self.body_until = now + timeouts.body
        self.idle_until = now + timeouts.idle
        self.write_until = now + timeouts.write
        self.linger_until = now + min(timeouts.linger, timeouts.header)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self._interval, self._tick)
        at = self._loop.time()
        # Time in which the loop stood still is our own fault: clients do not pay for it.
        self.now += min(at - self._last, 2 * self._interval)
        self._last = at
        self._set_deadlines()
        set_date(time.time())
        now = self.now
        for connection in [one for one in self._open if one.deadline <= now]:
            connection.expire()
        for connection, (until, size) in list(self._choked.items()):
            unwritten = connection.unwritten()
            if unwritten < size:
                self._choked[connection] = (self.write_until, unwritten)
            elif until <= now:
                connection.abort()

    async def wind_down(self, grace: float) -> None:
        """Let requests in progress be answered for `grace` seconds, then end every connection."""
        self.persist = CLOSE
        self._emptied = asyncio.Event()
        for client in list(self._handshakes):
            client.abort()
        for connection in list(self._open):
            connection.wind_down()
        await self._wait_until_empty(grace)
        for connection in list(self._open):
            connection.abort()
        await self._wait_until_empty(_ABORT_S)
        self.stop_clock()

    def stop_clock(self) -> None:
        self._timer.cancel()

    async def _wait_until_empty(self, seconds: float) -> None:
        if self._open and self._emptied is not None:
            try:
                await asyncio.wait_for(self._emptied.wait(), seconds)
            except TimeoutError:
                return


def most_refused(limit: int) -> int:
    """How many connections there may be with those that are only told that there are too many: even refusing has a
    limit."""
    return limit + limit // 8 + 8


def _interval(timeouts: Timeouts) -> float:
    shortest = min(timeouts.header, timeouts.body, timeouts.idle, timeouts.write)
    return min(0.5, max(0.01, shortest / 4))
