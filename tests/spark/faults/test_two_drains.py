"""Two drains of one consumer at once: two timers that overlap, a second try beside a slow first one. One of them works,
and a reader that knows nothing of this sees every message once, at every moment."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from devtools.jvm import defaults
from devtools.programs import Program
from tests.servers import ThreadServer
from tests.spark.faults import truth
from tests.spark.faults.gate import Gate
from tests.spark.faults.work import PATH

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_MESSAGES = 20_000
_LIMIT = 2_500


class Reader(threading.Thread):
    """Reads all the Parquet files that a glob finds, again and again."""

    def __init__(self, lake: Path) -> None:
        super().__init__()
        self._lake = lake
        self._stopped = threading.Event()
        self.looks = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self._stopped.is_set() and not self.wrong:
            self.look()

    def look(self) -> int:
        ids: Counter[str] = Counter()
        for file in sorted(self._lake.glob("messages/**/*.parquet")):
            try:
                ids.update(pq.ParquetFile(file).read(["id"])["id"].to_pylist())
            except Exception as error:
                self.wrong.append(f"{file}: {error!r}")
        if ids.total() != len(ids):
            self.wrong.append(f"{ids.total()} rows of {len(ids)} messages")
        if len(ids) % _LIMIT:
            self.wrong.append(f"{len(ids)} messages: part of a shipment")
        self.looks += 1
        return len(ids)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def reader(lake: Path) -> Iterator[Reader]:
    reader = Reader(lake)
    reader.start()
    yield reader
    reader.stop()


@pytest.fixture
def drain(tmp_path: Path, lake: Path) -> Iterator[Callable[..., Program]]:
    """Starts the command as users do."""
    started: list[Program] = []

    def drain(url: str, *options: str) -> Program:
        command = [sys.executable, "-m", "penstock", "pipeline", "drain", "--queue", "q", "--lake", str(lake)]
        command += ["--limit", str(_LIMIT), "--url", url, "--master", "local[2,2]", *options]
        environ = {"PYTHONPATH": PATH, **defaults()}
        started.append(Program(tmp_path, f"drain-{len(started)}", *command, environ=environ))
        return started[-1]

    yield drain
    for program in started:
        program.kill()


def check(server: ThreadServer, reader: Reader, lake: Path, sent: truth.Messages) -> None:
    reader.stop()
    assert reader.wrong == []
    assert reader.looks > 1
    assert reader.look() == _MESSAGES
    assert reader.wrong == []
    assert truth.in_lake(lake) == sent
    assert truth.counters(server.url) == (_MESSAGES, _MESSAGES, 0)


def test_the_second_is_told(
    server: ThreadServer, gate: Gate, drain: Callable[..., Program], reader: Reader, lake: Path
) -> None:
    sent = truth.send(server.url, _MESSAGES)
    first, second = drain(gate.url), drain(gate.url)
    codes = first.wait(), second.wait()
    assert sorted(codes) == [0, 1], f"{first.out}{first.err}{second.out}{second.err}"
    done, refused = (first, second) if codes[0] == 0 else (second, first)
    assert "drained 20,000 messages" in done.out
    lines = [line for line in refused.err.splitlines() if "waiting for" not in line]
    assert len(lines) == 1, refused.err
    assert "another run works on q for the consumer 'drain'" in lines[0]
    assert "--wait" in lines[0]
    check(server, reader, lake, sent)


def test_the_second_waits(
    server: ThreadServer, gate: Gate, drain: Callable[..., Program], reader: Reader, lake: Path
) -> None:
    sent = truth.send(server.url, _MESSAGES)
    programs = [drain(gate.url, "--wait"), drain(gate.url, "--wait")]
    said = [program.finish() for program in programs]
    assert sum("drained 20,000 messages" in it for it in said) == 1, said
    assert sum("drained 0 messages" in it for it in said) == 1, said
    check(server, reader, lake, sent)


@pytest.mark.parametrize(
    ("point", "answered"),
    [("GET .*/shipments/drain/2/messages", True), ("POST .*/shipments/drain/2/settle", False)],
    ids=["with all that it was to write", "before it settles"],
)
def test_the_first_is_stopped_for_longer_than_its_lease(
    point: str,
    answered: bool,
    server: ThreadServer,
    gate: Gate,
    drain: Callable[..., Program],
    reader: Reader,
    lake: Path,
) -> None:
    """And goes on, with its file or its settlement, when the second has long been there."""
    sent = truth.send(server.url, _MESSAGES)
    held = gate.hold(point, answered=answered)
    first = drain(gate.url, "--lanes", "1")
    held.wait(first)
    stopped = first.members()
    _signal(stopped, signal.SIGSTOP)
    held.let_go()
    second = drain(server.url, "--lanes", "1")
    assert "drained" in second.finish()
    _signal(stopped, signal.SIGCONT)
    code: Any = first.wait()
    assert code in (0, 1), first.err
    if code == 1:
        assert "works for 'drain' now" in first.err
    check(server, reader, lake, sent)


def _signal(pids: list[int], which: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, which)
