"""Stores to copy, and places to copy them to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stores.transfer.contents import fill


@pytest.fixture
def new_url(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Where there is no store yet, of the kind asked for."""
    made: list[tuple[Any, str]] = []

    def new_url(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/{len(list(tmp_path.iterdir()))}-{time.monotonic_ns()}.db"
        databases = request.getfixturevalue({"postgresql": "shared_postgres", "mariadb": "shared_mariadb"}[kind])
        made.append((databases, databases.new_url()))
        return made[-1][1]

    yield new_url
    for databases, url in made:
        databases.drop(url)


@pytest.fixture
def source(new_url: Callable[[str], str]) -> str:
    """A store that holds something of everything."""
    url = new_url("sqlite")
    fill(url)
    return url
