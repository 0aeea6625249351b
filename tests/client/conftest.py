"""A client of a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client import Client


@pytest.fixture
def client(server) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client
