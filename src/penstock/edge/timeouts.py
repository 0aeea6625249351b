"""How long the edge waits and how much it takes, in one place.

A handler's own work is never timed here: a long poll may last as long as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `header` counts from the first byte of a request, `body` from the end of its headers,
    `idle` from the last answer, `write` from the moment a client takes no more bytes."""

    header: float = 10.0
    body: float = 60.0
    idle: float = 75.0
    write: float = 30.0


@dataclass(frozen=True, slots=True)
class EdgeLimits:
    """`header_bytes` is the request line and all headers together, `body_bytes` what the bodies of all
    clients may hold at once."""

    header_bytes: int = 32768
    header_count: int = 100
    target_bytes: int = 8192
    connections: int = 10000
    body_bytes: int = 1 << 28
