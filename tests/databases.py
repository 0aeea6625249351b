"""Fixtures: fresh databases on private servers, or on those that `PENSTOCK_TEST_POSTGRESQL` and
`PENSTOCK_TEST_MARIADB` name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

from devtools.databases import MariadbDatabases, MariadbServer, NotInstalled, PostgresDatabases, PostgresServer
from tests.lacking import not_installed


@contextlib.contextmanager
def required(variable: str | None = None) -> Iterator[None]:
    """A test of a database that is not there is left out; `variable` may name a server elsewhere."""
    try:
        yield
    except NotInstalled as missing:
        elsewhere = f", or set {variable} to the URL of a server" if variable else ""
        not_installed(missing.package, f"see tests/prepare.sh{elsewhere}")


@pytest.fixture(scope="session")
def shared_postgres() -> Iterator[PostgresDatabases]:
    """The server that the tests of a process share, started when the first of them asks."""
    url = os.environ.get("PENSTOCK_TEST_POSTGRESQL")
    with required("PENSTOCK_TEST_POSTGRESQL"):
        server = PostgresDatabases(url) if url else PostgresServer(durable=False)
    with server:
        yield server


@pytest.fixture(scope="session")
def shared_mariadb() -> Iterator[MariadbDatabases]:
    """The server that the tests of a process share, started when the first of them asks."""
    url = os.environ.get("PENSTOCK_TEST_MARIADB")
    with required("PENSTOCK_TEST_MARIADB"):
        server = MariadbDatabases(url) if url else MariadbServer(durable=False)
    with server:
        yield server


@pytest.fixture
def postgres_url(shared_postgres: PostgresDatabases) -> Iterator[str]:
    """An empty database of the test's own."""
    url = shared_postgres.new_url()
    yield url
    shared_postgres.drop(url)


@pytest.fixture
def mariadb_url(shared_mariadb: MariadbDatabases) -> Iterator[str]:
    """An empty database of the test's own."""
    url = shared_mariadb.new_url()
    yield url
    shared_mariadb.drop(url)


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A durable server of the test's own, which it may stop, kill, and pause."""
    with required():
        server = PostgresServer()
    with server:
        yield server


@pytest.fixture
def own_mariadb() -> Iterator[MariadbServer]:
    """A durable server of the test's own, which it may stop, kill, and pause."""
    with required():
        server = MariadbServer()
    with server:
        yield server
