"""`penstock top`: what the processes of a server do, live."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from penstock.cli.options import Duration, talks_to_server
from penstock.cli.output import print_json, print_json_line, print_table
from penstock.cli.text import number
from penstock.cli.watch import watch

if TYPE_CHECKING:
    from penstock.client import Client, Process

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Rates:
    """What a process does in a second; None where it was seen for the first time."""

    cpu: float | None
    requests: float | None
    units: float | None
    operations: float | None


_UNKNOWN = Rates(None, None, None, None)
_HEADER = ("process", "pid", "cpu %", "memory", "connections", "waiting", "requests/s", "units/s", "operations/s")


@click.command()
@click.option("--once", is_flag=True, help="Show it once, after one such pause.")
@click.option("--every", "every_ms", type=Duration(least=100), default="2s", show_default=True,
              help="How long to measure before it is shown again.")  # fmt: skip
@talks_to_server
def top(client: Client, once: bool, every_ms: int, as_json: bool) -> None:
    """Show what the processes of a server do: the sum, and each.

    With API keys, it needs get_status on every queue.
    """
    view = _Top(client, as_json, in_lines=not once)
    if once:
        view.look()
        time.sleep(every_ms / 1000)
        view.show()
    else:
        watch(view.show, every_ms, as_json)


class _Top:
    def __init__(self, client: Client, as_json: bool, in_lines: bool) -> None:
        self._client, self._as_json, self._in_lines = client, as_json, in_lines
        self._looked_at = 0.0
        self._former: dict[str, Process] = {}

    def look(self) -> list[tuple[Process, Rates]]:
        """Every process, with what it has done since the last look."""
        processes = self._client.processes()
        now = time.monotonic()
        seconds, self._looked_at = now - self._looked_at, now
        former, self._former = self._former, {process.name: process for process in processes}
        return [(process, rates_of(former.get(process.name), process, seconds)) for process in processes]

    def show(self) -> None:
        found = self.look()
        if self._as_json:
            value = {"processes": [{**asdict(process), "per_second": asdict(done)} for process, done in found]}
            (print_json_line if self._in_lines else print_json)(value)
        else:
            rows = [_row(process.name, str(process.pid), [process], [done]) for process, done in found]
            if len(rows) > 1:
                rows.insert(0, _row("all", "", *map(list, zip(*found, strict=True))))
            print_table(rows, _HEADER, right=_HEADER[1:])


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
