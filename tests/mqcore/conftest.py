from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.stores.mqcore import MqCoreStore
from tests.mqcore.disk import Desk, open_root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> Iterator[MqCoreStore]:
    """It moves and reaps by itself, and leaves nothing in `new` to its writer."""
    store = open_root(root)
    yield store
    store.close()


@pytest.fixture
def desk(store: MqCoreStore) -> Desk:
    return Desk(store)
