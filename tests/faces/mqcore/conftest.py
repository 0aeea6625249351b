from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import ThreadServer
from tests.talk import Talk

STORES = {"sqlite": "sqlite:///{}/penstock.db", "folders": "mqcore:///{}/root"}


@pytest.fixture(params=STORES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ThreadServer]:
    """The SQLite store with every face, and the folders, which carry this one alone."""
    running = ThreadServer(STORES[request.param].format(tmp_path))
    running.clock.stop()
    yield running
    running.stop()


@pytest.fixture
def queue(talk: Talk) -> str:
    assert talk("PUT", "/queue001").status == 201
    return "queue001"
