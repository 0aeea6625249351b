"""A gate before a server, and commands that are gone at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devtools.programs import Program
from tests.spark.faults.conftest import gate, start

__all__ = ["gate", "start"]


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Any]:
    """Starts `penstock pipeline …` as a user does."""
    started: list[Program] = []

    def pipeline(*arguments: str, environ: dict[str, str] | None = None) -> Program:
        command = (sys.executable, "-m", "penstock", "pipeline", *arguments)
        started.append(Program(tmp_path, f"pipeline-{len(started)}", *command, environ=environ))
        return started[-1]

    yield pipeline
    for program in started:
        program.kill()
