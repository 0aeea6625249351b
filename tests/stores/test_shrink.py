"""What a store holds and does not use goes back to the file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from penstock.model import Sizes
from penstock.stores import open_store
from penstock.stores.sql.engines.sqlite import SqliteStore
from tests.stores.conftest import Verbs
from tests.waiting import wait_until

MIB = 1024 * 1024


def sizes(verbs: Verbs) -> Sizes:
    with verbs.unit(write=False) as unit:
        return unit.figures.sizes()


def shrink(verbs: Verbs, limit: int = 64 * MIB) -> int:
    with verbs.unit() as unit:
        return unit.shrink(limit)


def fill_and_empty(verbs: Verbs, mib: int = 4) -> None:
    verbs.create("bulk")
    for _ in range(mib):
        verbs.send(*[os.urandom(4_000)] * 256, to="bulk")
    while verbs.purge("bulk"):
        pass


def test_every_store_can_be_asked(verbs):
    verbs.create()
    verbs.send(b"x")
    assert shrink(verbs) >= 0
    assert len(verbs.claim()) == 1
    verbs.store.tidy()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(open_store(f"sqlite:///{tmp_path}/s.db")) as store:
        assert isinstance(store, SqliteStore)
        yield store


def test_a_new_file_shrinks_by_bounded_steps(store):
    verbs = Verbs(store)
    verbs.create()
    verbs.send(b"stays")
    fill_and_empty(verbs)
    before = sizes(verbs)
    assert before.shrinks
    assert before.unused_bytes > 3 * MIB
    step = shrink(verbs, 128 * 1024)
    assert 0 < step <= 128 * 1024 + 16 * 4096
    assert sizes(verbs).unused_bytes == before.unused_bytes - step
    while shrink(verbs):
        pass
    assert sizes(verbs).unused_bytes == 0
    store.tidy()
    wait_until(lambda: store.path.stat().st_size < MIB)
    assert verbs.seen() == [b"stays"]


def test_what_a_lost_unit_gave_back_is_there_again(store):
    verbs = Verbs(store)
    fill_and_empty(verbs)
    before = sizes(verbs).unused_bytes

    def lose() -> None:
        with verbs.unit() as unit:
            assert unit.shrink(MIB)
            raise KeyError

    with pytest.raises(KeyError):
        lose()
    assert sizes(verbs).unused_bytes == before


def old_file(path: Path) -> None:
    """As an earlier version has made it: an empty file that is told nothing gets tables that never shrink."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; CREATE TABLE t (x); DROP TABLE t")
    connection.close()


def test_a_file_of_an_earlier_version_stays_as_it_is(tmp_path):
    old_file(tmp_path / "s.db")
    with closing(open_store(f"sqlite:///{tmp_path}/s.db")) as store:
        verbs = Verbs(store)
        fill_and_empty(verbs)
        assert not sizes(verbs).shrinks
        assert sizes(verbs).unused_bytes > 3 * MIB
        assert shrink(verbs) == 0


def test_a_log_that_a_reader_made_long_is_cut(store):
    """A reader keeps the log from starting over. When it has gone, nothing else may happen for long."""
    verbs = Verbs(store)
    verbs.create()
    reader = apsw.Connection(str(store.path), flags=apsw.SQLITE_OPEN_READONLY)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM queue").fetchall()
    for _ in range(6):
        verbs.send(*[os.urandom(4_000)] * 256)
    log = Path(f"{store.path}-wal")
    long = log.stat().st_size
    assert long > 6 * MIB
    store.tidy()
    store._tidying.join()
    assert log.stat().st_size == long
    reader.close()
    store.tidy()
    wait_until(lambda: log.stat().st_size < 5 * MIB)
    verbs.send(b"on")
    assert verbs.count().total == 6 * 256 + 1
