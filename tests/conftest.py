"""Fixtures that every part of the suite may use."""

from __future__ import annotations

import gc
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from penstock.limits import Limits
from penstock.timings import Timings
from tests.lacking import lacking, summary
from tests.scheduling import Scheduling, rank
from tests.servers import ServerProcess, ThreadServer
from tests.talk import Talk

pytest_plugins = ["tests.databases"]

# How long an example takes says something about the machine, and nothing about what it is an example of.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_sessionstart() -> None:
    """A run in the background of a shell ignores Ctrl-C, and so would programs that tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three for two cores: half of the time tests wait, for a sync, a JVM or a process that starts."""
    return max(2, (os.cpu_count() or 1) * 3 // 2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank(item.nodeid))


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: they are not looked through for garbage again and again."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A run that left tests out must not look like one that ran them all."""
    skipped = terminalreporter.stats.get("skipped", [])
    for line in summary(str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple)):
        terminalreporter.write_line(line, yellow=True, bold=True)


@pytest.fixture
def many_files() -> Iterator[None]:
    """For a test that opens up to two thousand: by default a process may often open 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2_048:
        lacking("a process may open too few files", f"{hard} of them")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_048), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def limits() -> Limits:
    """A test that wants others is parametrized with them."""
    return Limits()


@pytest.fixture
def timings() -> Timings:
    """A test that wants others is parametrized with them."""
    return Timings()


@pytest.fixture
def server(tmp_path: Path, timings: Timings, limits: Limits) -> Iterator[ThreadServer]:
    """A running server with an empty SQLite store."""
    running = ThreadServer(f"sqlite:///{tmp_path}/data/penstock.db", timings=timings, limits=limits)
    yield running
    running.stop()


@pytest.fixture
def talk(server: ThreadServer) -> Iterator[Talk]:
    with server.talk() as talk:
        yield talk


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[type[ServerProcess]]:
    """Start server processes; whatever is left of them is killed at the end."""
    started = []

    def start(*flags: str, **options: object) -> ServerProcess:
        started.append(ServerProcess(tmp_path, *flags, **options))
        return started[-1]

    yield start
    for process in started:
        process.stop()
