"""When the log of a SQLite store goes into its file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from penstock.model import Draft, Settings
from penstock.stores import open_store
from penstock.stores.sql.engines.sqlite import SqliteStore
from tests.waiting import wait_until

BODY = b"x" * 3_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "penstock.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = open_store(f"sqlite:///{path}")
    assert isinstance(opened, SqliteStore)
    with opened.unit() as unit:
        unit.create_queue("q", Settings(), 1)
    yield opened
    opened.close()


def send(store: SqliteStore, count: int) -> None:
    """A unit for each, which writes several pages."""
    for _ in range(count):
        with store.unit() as unit:
            unit.send("q", [Draft(BODY)] * 10, 1)


def test_the_log_is_brought_home_before_it_has_grown(store: SqliteStore) -> None:
    lengths = []
    for _ in range(200):
        send(store, 1)
        lengths.append(store._log_length)
    assert max(lengths) < 2 * store._log_pages
    assert min(lengths[100:]) < store._log_pages, "it has begun anew"


def test_no_unit_has_to_bring_home_what_has_grown_while_somebody_read(store: SqliteStore, path: Path) -> None:
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM message").fetchall()
        while store._log_length < 10 * store._log_pages:
            send(store, 1)
        reader.execute("COMMIT")

    def has_begun_anew() -> bool:
        send(store, 1)
        return store._log_length < store._log_pages

    wait_until(has_begun_anew, what="a log that begins anew")
    assert store._tidying is not None, "a thread has done it"
    with store.unit(write=False) as unit:
        assert unit.count("q", 1, 10).total > 0
    [(found,)] = store._connection.execute("PRAGMA quick_check").fetchall()
    assert found == "ok"


def test_a_large_unit_brings_home_what_it_has_written(store: SqliteStore) -> None:
    with store.unit() as unit:
        unit.send("q", [Draft(BODY)] * 6_000, 1)
    assert store._log_length > 4 * store._log_pages
    assert store._log_home == store._log_length
    assert store._tidying is None, "no one reads, so nothing has to be left to a thread"


def test_a_store_closes_while_its_log_is_brought_home(store: SqliteStore, path: Path) -> None:
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM message").fetchall()
        while store._log_length < 4 * store._log_pages:
            send(store, 1)
    store._home_at = 0.0
    send(store, 1)
    store.close()
    assert not [one for one in threading.enumerate() if one.name == "penstock-tidy"]
    with closing(open_store(f"sqlite:///{path}")) as again, again.unit(write=False) as unit:
        assert unit.count("q", 1, 10).total > 0
