"""A gate before the server, and programs that are gone at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devtools.programs import Program
from tests.servers import ServerProcess, ThreadServer
from tests.spark.faults import truth, work
from tests.spark.faults.gate import Gate


@pytest.fixture
def gate(server: ThreadServer) -> Iterator[Gate]:
    """The way to a server that has a queue called q."""
    truth.create(server.url)
    gate = Gate(server.url)
    yield gate
    gate.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Starts drivers as processes of their own."""
    started: list[Program] = []

    def start(what: str, **options: object) -> Program:
        started.append(work.start(tmp_path, f"{what}-{len(started)}", what, **options))
        return started[-1]

    yield start
    for program in started:
        program.kill()


@pytest.fixture
def restart(tmp_path: Path) -> Iterator[Any]:
    """Starts servers on one store, one after the other."""
    started: list[ServerProcess] = []

    def restart() -> ServerProcess:
        started.append(ServerProcess(tmp_path))
        return started[-1]

    yield restart
    for server in started:
        server.stop()
