"""A board that all processes of a server can read, and on which each writes in a place of its own.

It is memory that was made before any of them. No one waits for anyone: a number has one writer, and is written in one
go. Some numbers are written as they change, because a limit depends on them; the others once a second, and when they
are asked for. What has labels, such as the requests of each route, is on a sheet of each process.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from msgspec import msgpack

from penstock.edge.limits import Gauges
from penstock.faces.metrics import ProcessTotals, ServerReport, total_of
from penstock.model import ProcessReport
from penstock.server.sheets import Sheets

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
CountTotals: TypeAlias = Callable[[], ProcessTotals]

_read_totals: Final = msgpack.Decoder(dict[str, dict[tuple[str, ...], list[float]]]).decode


class Board:
    """With a place for each process, by its name."""

    def __init__(self, processes: Sequence[str]) -> None:
        self._processes = tuple(processes)
        self.numbers = memoryview(mmap.mmap(-1, len(processes) * len(_NAMES) * _BYTES)).cast("q")
        self._sheets = Sheets(len(processes))
        # As they were read last, should a sheet be written again and again while it is being read.
        self._totals: dict[int, ProcessTotals] = {}
        self.began_at = time.time()

    def place(self, process: str) -> Place:
        """For a process that begins."""
        return Place(self, self._processes.index(process))

    def leave(self, process: str) -> None:
        """It has ended, and holds nothing any more."""
        for number, name in enumerate(_NAMES, self._processes.index(process) * len(_NAMES)):
            if name not in _TOTALS:
                self.numbers[number] = 0

    def totals_at(self, place: int) -> ProcessTotals:
        """What the process in this place has counted, and those that were there before it."""
        data = self._sheets.read(place)
        if data:
            self._totals[place] = _read_totals(data)
        return self._totals.get(place, {})

    def write_totals(self, place: int, totals: ProcessTotals) -> None:
        self._sheets.write(place, msgpack.encode(totals))

    def report(self) -> ServerReport:
        places = range(len(self._processes))
        return ServerReport(self.reports(), total_of(map(self.totals_at, places)), self.began_at)

    def beat_at(self, process: str) -> float:
        """When its event loop has turned last, in seconds of the monotonic clock, to a second or so."""
        return self.numbers[self._processes.index(process) * len(_NAMES) + _AT["beat_ms"]] / 1000

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

    def __init__(self, board: Board, number: int) -> None:
        self.board = board
        self._number = number
        self._begun = board.totals_at(number)
        first = number * len(_NAMES)
        self._numbers = {name: SharedGauge(board.numbers, number) for number, name in enumerate(_NAMES, first)}
        self.gauges = Gauges(self._numbers["connections"], self._numbers["body_bytes"])
        self.wrong_keys = self._numbers["wrong_keys"]

    def write(self, name: str, value: int) -> None:
        self._numbers[name].set(value)

    def write_totals(self, totals: Sequence[ProcessTotals]) -> None:
        self.board.write_totals(self._number, total_of((self._begun, *totals)))


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
    """Reads what its process counts, and writes it in the place of the process. Where another looks at its pulse, it
    beats every `beat_s`, else with each writing."""

    def __init__(
        self, place: Place, loop: asyncio.AbstractEventLoop, beat_s: float | None = None, of_process: bool = True
    ) -> None:
        self.place = place
        self._loop = loop
        self._beat_s = beat_s
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._counts: dict[str, Count] = {}
        if of_process:
            self._counts = {
                "pid": os.getpid,
                "beat_ms": _beat_ms,
                "cpu_ms": lambda: time.process_time_ns() // 1_000_000,
                "memory_bytes": _memory_bytes,
            }
        self._totals: list[CountTotals] = []

    def watch(self, **counts: Count) -> None:
        self._counts.update(counts)

    def watch_totals(self, count: CountTotals) -> None:
        self._totals.append(count)

    def start(self) -> None:
        self._go_on()
        if self._beat_s is not None:
            self._beat(self._beat_s)

    def _go_on(self) -> None:
        self.write()
        self._timers["write"] = self._loop.call_later(_WRITE_S, self._go_on)

    def _beat(self, every_s: float) -> None:
        self.place.write("beat_ms", _beat_ms())
        self._timers["beat"] = self._loop.call_later(every_s, self._beat, every_s)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def reports(self) -> list[ProcessReport]:
        """Of all processes, this one as of now."""
        self.write()
        return self.place.board.reports()

    def report(self) -> ServerReport:
        """The same, and what they have counted together."""
        self.write()
        return self.place.board.report()

    def write(self) -> None:
        for name, count in self._counts.items():
            self.place.write(name, count())
        self.place.write_totals([count() for count in self._totals])


def _beat_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _memory_bytes() -> int:
    """What it has in memory; 0 where only another system than Linux would know."""
    with suppress(OSError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE
    return 0
