"""`penstock top`: what a server does, live: its processes, and the queues in which messages wait longest."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.options import Duration, WholeNumber, talks_to_server
from penstock.cli.output import Table, line_width, on_terminal, print_json, print_json_line, shorten
from penstock.cli.text import age, number
from penstock.cli.watch import watch

if TYPE_CHECKING:
    from penstock.client import Client, OverviewRow, Process

_MIB = 1 << 20
_QUIT = (b"q", b"Q", b"\x03", b"\x04")


@dataclass(frozen=True, slots=True)
class Rates:
    """What a process does in a second; None where it was seen for the first time."""

    cpu: float | None
    requests: float | None
    units: float | None
    operations: float | None


_UNKNOWN = Rates(None, None, None, None)
_HEADER = ("process", "pid", "cpu %", "memory", "connections", "waiting", "requests/s", "units/s", "operations/s")
# The name stands last: it is what is cut where a terminal is too narrow.
_QUEUE_HEADER = (
    *("ready", "delayed", "claimed", "oldest ready", "sends/s", "acks/s", "dead letters", "paused", "queue"),
)
_SORTS = (*("oldest", "ready", "delayed", "claimed", "total", "sends", "acks", "dead-letters", "paused", "name"),)


@click.command()
@click.option("--once", is_flag=True, help="Show it once, after one such pause.")
@click.option("--every", "every_ms", type=Duration(least=100), default="2s", show_default=True,
              help="How long to measure before it is shown again.")  # fmt: skip
@click.option("--sort", type=click.Choice(_SORTS), default="oldest", show_default=True,
              help="Which queues come first; 'oldest': those whose ready messages have waited longest.")  # fmt: skip
@click.option("--filter", "part", metavar="TEXT", default="", help="Only queues with this in their names.")
@click.option("--limit", type=WholeNumber(0, 1000), default=30, show_default=True,
              help="How many queues to show at most.")  # fmt: skip
@talks_to_server
def top(
    client: Client, once: bool, every_ms: int, sort: str, part: str, limit: int, as_json: bool
) -> None:  # fmt: skip
    """Show what a server does: its processes, and the queues whose messages wait longest.

    On a terminal, q or Ctrl-C ends it. With API keys, it needs get_status on every queue.
    """
    view = _Top(client, as_json, in_lines=not once, sort=sort.replace("-", "_"), part=part, limit=limit)
    if once:
        view.look()
        time.sleep(every_ms / 1000)
        view.show()
    elif on_terminal() and sys.stdin is not None and sys.stdin.isatty() and not as_json:
        _live(view, every_ms)
    else:
        watch(view.show, every_ms, as_json)


class _Top:
    def __init__(self, client: Client, as_json: bool, *, in_lines: bool, sort: Any, part: str, limit: int) -> None:
        self._client, self._as_json, self._in_lines = client, as_json, in_lines
        self._sort, self._part, self._limit = sort, part, limit
        self._looked_at = 0.0
        self._former: dict[str, Process] = {}
        self._found: tuple[list[tuple[Process, Rates]], list[OverviewRow]] = ([], [])

    def look(self) -> tuple[list[tuple[Process, Rates]], list[OverviewRow]]:
        """Every process with what it has done since the last look, and the queues that come first."""
        processes = self._client.processes()
        now = time.monotonic()
        seconds, self._looked_at = now - self._looked_at, now
        former, self._former = self._former, {process.name: process for process in processes}
        found = [(process, rates_of(former.get(process.name), process, seconds)) for process in processes]
        self._found = found, self._queues()
        return self._found

    def _queues(self) -> list[OverviewRow]:
        if not self._limit:
            return []
        return self._client.overview(self._sort, contains=self._part, limit=self._limit).rows

    def show(self) -> None:
        self.look()
        self.print()

    def print(self) -> None:
        """What was seen last."""
        found, queues = self._found
        if self._as_json:
            told = [{**asdict(process), "per_second": asdict(done)} for process, done in found]
            value = {"processes": told, "queues": [asdict(line) for line in queues]}
            (print_json_line if self._in_lines else print_json)(value)
        else:
            for line in self.lines(line_width()):
                click.echo(line)

    def lines(self, width: int | None) -> list[str]:
        found, queues = self._found
        rows = [_row(process.name, str(process.pid), [process], [done]) for process, done in found]
        if len(rows) > 1:
            rows.insert(0, _row("all", "", *map(list, zip(*found, strict=True))))
        shown = Table(_HEADER, right=_HEADER[1:], width=width).lines(rows)
        if queues:
            table = Table(_QUEUE_HEADER, right=_QUEUE_HEADER[:-2], width=width)
            shown += ["", *table.lines([_queue_row(line) for line in queues])]
        return shown


def _queue_row(row: OverviewRow) -> Sequence[str]:
    return (
        number(row.ready),
        number(row.delayed),
        number(row.claimed),
        "" if row.oldest_ready_ms is None else age(0, row.oldest_ready_ms),
        number(round(row.sends_per_second)),
        number(round(row.acks_per_second)),
        number(row.totals.dead_lettered),
        "" if row.paused_at is None else "paused",
        row.name,
    )


def _live(view: _Top, every_ms: int) -> None:
    """Until q or Ctrl-C. A server that goes away meanwhile is waited for; a terminal that gets another size is drawn
    at once, without asking the server again."""
    from penstock.client import Unavailable, Unreachable

    reached, trouble = False, ""
    with _keys() as wait_for_key:
        while True:
            try:
                view.look()
                reached, trouble = True, ""
            except (Unavailable, Unreachable) as error:
                if not reached:
                    raise
                trouble = f"penstock: {error}"
            until = time.monotonic() + every_ms / 1000
            _draw(view, trouble)
            while (left := until - time.monotonic()) > 0:
                pressed = wait_for_key(left)
                if pressed in _QUIT:
                    return
                _draw(view, trouble)


def _draw(view: _Top, trouble: str) -> None:
    size = shutil.get_terminal_size()
    lines = [*([trouble] if trouble else []), *view.lines(size.columns)][: max(1, size.lines - 1)]
    click.clear()
    click.echo("\n".join(shorten(line, size.columns) for line in lines))


@contextmanager
def _keys() -> Iterator[Any]:
    """Keys without a return, and without being shown. What is yielded waits for one, or for another size, or for so
    many seconds, and gives the key."""
    import termios
    import tty

    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    former = signal.signal(signal.SIGWINCH, lambda *_: os.write(waker, b"x"))

    def wait(seconds: float) -> bytes:
        ready, _, _ = select.select([stdin, woken], [], [], seconds)
        if woken in ready:
            os.read(woken, 4096)
        if stdin not in ready:
            return b""
        # A terminal that is gone can be read, and gives nothing.
        return os.read(stdin, 1) or b"q"

    try:
        tty.setcbreak(stdin)
        yield wait
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, former)
        os.close(woken)
        os.close(waker)


def rates_of(former: Process | None, process: Process, seconds: float) -> Rates:
    if former is None:
        return _UNKNOWN
    return Rates(
        cpu=(process.cpu_s - former.cpu_s) / seconds,
        requests=(process.requests - former.requests) / seconds,
        units=(process.units - former.units) / seconds,
        operations=(process.operations - former.operations) / seconds,
    )


def _row(name: str, pid: str, processes: Sequence[Process], done: Sequence[Rates]) -> Sequence[str]:
    """Of one process, or of all together."""
    return (
        name,
        pid,
        _summed([rates.cpu for rates in done], 100),
        f"{sum(process.memory_bytes for process in processes) / _MIB:.0f} MiB",
        number(sum(process.connections for process in processes)),
        number(sum(process.waiting_claims for process in processes)),
        _summed([rates.requests for rates in done]),
        _summed([rates.units for rates in done]),
        _summed([rates.operations for rates in done]),
    )


def _summed(values: Sequence[float | None], times: int = 1) -> str:
    known = [value for value in values if value is not None]
    return number(round(times * sum(known))) if known else ""
