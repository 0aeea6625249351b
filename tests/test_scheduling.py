"""Every test is run, and what takes longest is begun first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.scheduling import FIRST, ONE_WORKER, rank, scope_of

_CONFTEST = """
import pytest
from tests.scheduling import Scheduling


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log)
"""
_TESTS = """
import os
import pytest


@pytest.mark.parametrize("number", range(20))
def test_one(number, worker_id):
    with open({said!r}, "a") as said:
        said.write(f"{{__name__}} {{number}} {{worker_id}}\\n")
    if number == 7 and "elsewhere" in __name__ and not os.path.exists({died!r}):
        open({died!r}, "w").close()
        os._exit(1)
"""


@pytest.mark.parametrize("start", [*FIRST, *ONE_WORKER])
def test_what_is_named_is_there(start: str) -> None:
    assert (ROOT / start).exists()


def test_the_narrower_comes_before_the_wider() -> None:
    for names in (FIRST, ONE_WORKER):
        for place, name in enumerate(names):
            assert not any(name.startswith(other) for other in names[:place]), name


def test_scopes_and_ranks() -> None:
    assert scope_of("tests/spark/test_read.py::test_x[1]") == "tests/spark/"
    assert scope_of("tests/spark/faults/test_poison.py::test_poison") == "tests/spark/faults/"
    assert scope_of("tests/edge/test_end.py::test_x[1]") == "tests/edge/test_end.py::test_x[1]"
    assert rank("tests/spark/test_read.py::test_x") < rank("tests/faults/test_kill.py::test_x")
    assert rank("tests/faults/test_kill.py::test_x") < rank("tests/edge/test_end.py::test_x")


def test_each_is_run_though_a_worker_dies(tmp_path: Path) -> None:
    said, died = tmp_path / "said", tmp_path / "died"
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    for folder, name in (("tests/console", "together"), ("other", "elsewhere")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f"test_{name}.py").write_text(_TESTS.format(said=str(said), died=str(died)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, str(tmp_path)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    lines = [line.split() for line in said.read_text().splitlines()]
    assert "1 failed, 40 passed" in done.stdout, done.stdout + done.stderr
    assert len(lines) == 41, "the one that it died of is told as a failure, and tried again"
    assert {(name, number) for name, number, _ in lines} == {
        (name, str(number)) for name in ("test_elsewhere", "test_together") for number in range(20)
    }
    assert len({worker for name, _, worker in lines if name == "test_together"}) == 1
