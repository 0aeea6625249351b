"""A board that all processes of a server can read, and on which each writes in a place of its own.

It is memory that was made before any of them. No one waits for anyone: a number has one writer, and is written in one
go. Some numbers are written as they change, because a limit depends on them; the others once a second, and when they
are asked for.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from penstock.edge.limits import Gauges
from penstock.model import ProcessReport

_NAMES: Final = (
    "pid",
    "beat_ms",
    "cpu_ms",
    "memory_bytes",
    "connections",
    "body_bytes",
    "wrong_keys",
    "requests",
    "waiting_claims",
    "units",
    "operations",
)
_AT: Final = {name: number for number, name in enumerate(_NAMES)}
# A process that takes the place of another goes on with these where that has ended.
_TOTALS: Final = frozenset({"cpu_ms", "wrong_keys", "requests", "units", "operations"})
_BYTES: Final = 8
_WRITE_S: Final = 1.0
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")

Count: TypeAlias = Callable[[], int]


class Board:
    """With a place for each process, by its name."""

    def __init__(self, processes: Sequence[str]) -> None:
        self._processes = tuple(processes)
        self.numbers = memoryview(mmap.mmap(-1, len(processes) * len(_NAMES) * _BYTES)).cast("q")

    def place(self, process: str) -> Place:
        """For a process that begins."""
        return Place(self, self._first(process))

    def leave(self, process: str) -> None:
        """It has ended, and holds nothing any more."""
        for number, name in enumerate(_NAMES, self._first(process)):
            if name not in _TOTALS:
                self.numbers[number] = 0

    def _first(self, process: str) -> int:
        return self._processes.index(process) * len(_NAMES)

    def beat_at(self, process: str) -> float:
        """When its event loop has turned last, in seconds of the monotonic clock, to a second or so."""
        return self.numbers[self._first(process) + _AT["beat_ms"]] / 1000

    def reports(self) -> list[ProcessReport]:
        """Of the processes that there are or were; one that is being replaced has no `pid`."""
        found = []
        for number, process in enumerate(self._processes):
            first = number * len(_NAMES)
            told = dict(zip(_NAMES, self.numbers[first : first + len(_NAMES)], strict=True))
            if told["pid"] or told["cpu_ms"]:
                found.append(
                    ProcessReport(
                        name=process,
                        pid=told["pid"],
                        cpu_s=told["cpu_ms"] / 1000,
                        memory_bytes=told["memory_bytes"],
                        connections=told["connections"],
                        requests=told["requests"],
                        waiting_claims=told["waiting_claims"],
                        units=told["units"],
                        operations=told["operations"],
                    )
                )
        return found


class Place:
    """Where one process writes."""

    def __init__(self, board: Board, first: int) -> None:
        self.board = board
        self._numbers = {name: SharedGauge(board.numbers, number) for number, name in enumerate(_NAMES, first)}
        self.gauges = Gauges(self._numbers["connections"], self._numbers["body_bytes"])
        self.wrong_keys = self._numbers["wrong_keys"]

    def write(self, name: str, value: int) -> None:
        self._numbers[name].set(value)


class SharedGauge:
    """A number on the board. See `edge.limits.Gauge`."""

    __slots__ = ("_at", "_begun", "_numbers")

    def __init__(self, numbers: memoryview[int], at: int) -> None:
        self._numbers = numbers
        self._at = at
        self._begun = numbers[at]

    def set(self, value: int) -> None:
        self._numbers[self._at] = self._begun + value

    def total(self) -> int:
        return sum(self._numbers[self._at % len(_NAMES) :: len(_NAMES)])


class Meter:
    """Reads what its process counts, and writes it in the place of the process."""

    def __init__(self, place: Place, loop: asyncio.AbstractEventLoop) -> None:
        self.place = place
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._counts: dict[str, Count] = {
            "pid": os.getpid,
            "beat_ms": lambda: time.monotonic_ns() // 1_000_000,
            "cpu_ms": lambda: time.process_time_ns() // 1_000_000,
            "memory_bytes": _memory_bytes,
        }

    def watch(self, **counts: Count) -> None:
        self._counts.update(counts)

    def start(self) -> None:
        self._write()
        self._timer = self._loop.call_later(_WRITE_S, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def reports(self) -> list[ProcessReport]:
        """Of all processes, this one as of now."""
        self._write()
        return self.place.board.reports()

    def _write(self) -> None:
        for name, count in self._counts.items():
            self.place.write(name, count())


def _memory_bytes() -> int:
    """What it has in memory; 0 where only another system than Linux would know."""
    with suppress(OSError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE
    return 0
