"""Everything arrives, from every kind of store in every other, page by page."""

from __future__ import annotations

from contextlib import closing

import pytest

from penstock import limits
from penstock.errors import InvalidSetting
from penstock.model import LedgerMode
from penstock.stores import open_store
from penstock.stores.transfer import tables
from penstock.stores.transfer.copy import migrate
from penstock.stores.transfer.postgresql import NUMBERED
from penstock.stores.transfer.side import Paging, open_side
from tests.stores.conftest import Verbs
from tests.stores.transfer.contents import KINDS, contents, fill, goes_on
from tests.stores.transfer.observers import SMALL, Quiet


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("of", KINDS)
def test_everything_arrives(of, to, new_url):
    first, second = new_url(of), new_url(to)
    fill(first)
    before = contents(first)
    summary = migrate(first, second, Quiet(), SMALL)
    assert contents(first) == contents(second) == before
    assert {table.name: rows for table, rows in summary.rows.items()} == {
        "queue": 14,
        "tally": 14,
        "api_key": 2,
        "action": 2,
        "move": 5,
        "consumer": 2,
        "shipment": 3,
        "lease": 2,
        "export": 2,
        "sending": 1,
        "seen": 7,
        "attempt": 1,
        "collapse": 1,
        "figure": 5,
        "message": len(before["hidden"]),
        "ledger": len(before["ledger"]),
    }
    with closing(open_store(second)) as store:
        goes_on(store, before)
    with pytest.raises(InvalidSetting, match="a finished copy of the first and has been used since"):
        migrate(first, second, Quiet(), SMALL)


@pytest.mark.parametrize("to", KINDS)
def test_numbers_go_on_where_nothing_is_left(to, new_url):
    """A cursor of the ledger, and an id, must not come to mean something else."""
    first, second = new_url(to), new_url(to)
    with closing(open_store(first)) as store:
        verbs = Verbs(store)
        verbs.create()
        verbs.send(b"1", b"2", b"3")
        verbs.ack(*verbs.claim())
        last = verbs.rows()[-1].number
        verbs.sweep(ledger_before=verbs.now + 1)
        assert verbs.rows() == []
    migrate(first, second, Quiet())
    with closing(open_store(second)) as store:
        verbs = Verbs(store)
        verbs.send(b"4")
        [message] = verbs.claim()
        verbs.ack(message)
        assert message.seq >= 4
        assert [row.id for row in verbs.rows(after=last)] == [message.id]


@pytest.mark.parametrize("name", KINDS)
def test_no_column_is_forgotten(name, new_url):
    """A column that a later schema adds has to be copied too."""
    url = new_url(name)
    with closing(open_store(url)) as store, store.unit(write=False) as unit:
        rows = unit.session.engine.rows
        for table in tables.ALL:
            if name == "sqlite":
                columns = {row[0] for row in rows(f"SELECT name FROM pragma_table_info('{table.name}')")}
            else:
                where = "current_schema()" if name == "postgresql" else "DATABASE()"
                columns = {
                    row[0]
                    for row in rows(
                        f"""SELECT column_name FROM information_schema.columns
                            WHERE table_schema = {where} AND table_name = '{table.name}'"""
                    )
                }
            assert columns - {"slot", "live_name"} == set(table.columns)
        if name == "sqlite":
            names = {row[0] for row in rows("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            # Each store counts its own ledger: the rows of a copy are counted by the first server on it.
            assert names == {table.name for table in tables.ALL} | {"store", "ledger_size", "sqlite_sequence"}


def test_no_column_that_postgresql_numbers_is_forgotten(new_url):
    """It would begin again with numbers that were copied."""
    with closing(open_store(new_url("postgresql"))) as store, store.unit(write=False) as unit:
        numbered = unit.session.engine.rows(
            """SELECT table_name, column_name FROM information_schema.columns
               WHERE table_schema = current_schema() AND is_identity = 'YES'"""
        )
    assert dict(numbered) == {**NUMBERED, "ledger": "number"}


def test_pages_are_bounded_in_rows_and_bytes(new_url):
    url = new_url("sqlite")
    with closing(open_store(url)) as store:
        verbs = Verbs(store)
        verbs.create(ledger=LedgerMode.BODIES)
        for _ in range(6):
            verbs.send(*[b"x" * limits.BODY_BYTES] * 8)
        verbs.send(*[b"x"] * 40_000)
    side = open_side(url, must_exist=True)
    with closing(side.store):
        pages = list(tables.pages(side, tables.MESSAGE))
    assert sum(map(len, pages)) == 40_048
    assert max(map(len, pages)) == Paging().page_rows
    assert max(sum(len(row[-1]) for row in page) for page in pages) <= Paging().page_bytes
    assert len(pages) < 40


def test_labels_count_towards_a_page(new_url):
    url = new_url("sqlite")
    with closing(open_store(url)) as store:
        verbs = Verbs(store)
        for number in range(60):
            verbs.create(f"q{number}", labels={"k": "v" * 300_000})
    side = open_side(url, must_exist=True)
    with closing(side.store):
        pages = [len(page) for page in tables.pages(side, tables.QUEUE)]
    assert sum(pages) == 60
    assert max(pages) * 300_000 <= Paging().page_bytes
