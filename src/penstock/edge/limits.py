"""How long the edge waits and how much it takes: values that the composition root passes in.

A handler's own work is never timed here: a long poll may last as long as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

# A body up to this long may take the last eighth of the budget as well, so that large ones, however slowly they come,
# leave room.
_SMALL_BODY = 1 << 16


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `header` counts from the first byte of a request, `body` from the end of its headers,
    `idle` from the last answer, `write` from the moment a client takes no more bytes. After a refusal a
    client that goes on sending is read from for `linger`, and never longer than `header`."""

    header: float = 10.0
    body: float = 60.0
    idle: float = 75.0
    write: float = 30.0
    linger: float = 2.0


@dataclass(frozen=True, slots=True)
class EdgeLimits:
    """`header_bytes` is the request line and all headers together, `body_bytes` what the bodies of all
    clients may hold at once. `connections` is for all processes of a server, `own_connections` for each.

    The last four bound what one client can make us read in vain: `backlog_bytes` behind a request that
    is not answered yet; `refused_bytes` of the body of a refused request, whose connection is kept if it
    ends within them; `cut_bytes` of a body that is cut off; `trailing_bytes` behind the last answer.
    """

    header_bytes: int = 32768
    header_count: int = 100
    target_bytes: int = 8192
    connections: int = 10000
    own_connections: int = 1 << 30
    body_bytes: int = 1 << 28
    backlog_bytes: int = 1 << 16
    refused_bytes: int = 1 << 16
    cut_bytes: int = 1 << 24
    trailing_bytes: int = 1 << 24


class Gauge(Protocol):
    """A number of this process, and the sum of it over all processes of a server."""

    def set(self, value: int) -> None: ...

    def total(self) -> int: ...


class OwnGauge:
    """Of the only process."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = 0

    def set(self, value: int) -> None:
        self._value = value

    def total(self) -> int:
        return self._value


class Gauges:
    """What `EdgeLimits` limits for all processes together."""

    __slots__ = ("body_bytes", "connections")

    def __init__(self, connections: Gauge | None = None, body_bytes: Gauge | None = None) -> None:
        self.connections: Gauge = connections or OwnGauge()
        self.body_bytes: Gauge = body_bytes or OwnGauge()


class BodyBudget:
    """How many bytes the bodies of all clients may hold at once.

    Only a body that comes in several pieces is counted, from its second piece on and until it is answered: most
    requests never meet this object. What does not fit is refused and does not wait. A body that waited would keep
    what it has, and bodies that wait for one another could all wait forever.
    """

    __slots__ = ("_gauge", "_limit", "_limit_of_large", "held")

    def __init__(self, limit: int, gauge: Gauge | None = None) -> None:
        self._gauge: Gauge = gauge or OwnGauge()
        self.held = 0
        self.set_limit(limit)

    def set_limit(self, limit: int) -> None:
        self._limit = limit
        self._limit_of_large = limit - limit // 8

    def grow(self, size: int, more: int) -> bool:
        """Let a body that is now `size` bytes long have the last `more` of them, if they are there."""
        if self._gauge.total() + more > (self._limit if size <= _SMALL_BODY else self._limit_of_large):
            return False
        self.held += more
        self._gauge.set(self.held)
        return True

    def free(self, size: int) -> None:
        self.held -= size
        self._gauge.set(self.held)
