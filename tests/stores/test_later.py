"""Statements that wait for the next one: they happen in their order, before anything could notice, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InvalidRequest, PenstockError
from penstock.model import Draft, Settings
from penstock.stores import open_sql_store
from penstock.stores.sql.engine import Engine, SqlStore

NOW = 1_000_000
INSERT = "INSERT INTO tally (queue, slot, arrived, departed) VALUES (?, 7, ?, 0)"
ARRIVED = "SELECT queue, arrived FROM tally WHERE queue >= 100 ORDER BY queue"
KEY = "INSERT INTO api_key (name, digest, rules, created_at, revoked_at) VALUES (?, ?, ?, ?, ?)"
KEYS = "SELECT name, digest, rules, created_at, revoked_at FROM api_key ORDER BY name"


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlStore]:
    url = f"sqlite:///{tmp_path}/penstock.db"
    if request.param != "sqlite":
        url = request.getfixturevalue(f"{request.param}_url")
    with closing(open_sql_store(url)) as store:
        yield store


class Said:
    """To a database, with `?` for each parameter."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.text = engine.statements.dialect.with_parameters

    def later(self, sql: str, *params: object) -> Any:
        if self.engine.statements.dialect.name == "sqlite":
            sql = sql.replace("slot, ", "").replace("7, ", "")
        return self.engine.later(self.text(sql), params)

    def rows(self, sql: str) -> list[Any]:
        return self.engine.rows(self.text(sql))


def arrived(store: SqlStore) -> list[Any]:
    with store.raw(write=False) as raw:
        return raw.rows(ARRIVED)


def test_what_waits_happens_before_what_comes_next(store):
    with store.raw() as raw:
        said = Said(raw.engine)
        said.later(INSERT, 101, 1)
        before = said.later(ARRIVED)
        said.later(INSERT, 102, 2)
        after = said.later(ARRIVED)
        assert said.rows(ARRIVED) == [(101, 1), (102, 2)]
        said.later("UPDATE tally SET arrived = 3 WHERE queue = 101")
        assert (before.rows(), after.rows()) == ([(101, 1)], [(101, 1), (102, 2)])
    assert arrived(store) == [(101, 3), (102, 2)]


def say_twice(said: Said) -> None:
    """The second of these is an error."""
    said.later(INSERT, 101, 1)
    said.later(INSERT, 101, 2)
    said.later(INSERT, 102, 1)


def test_an_error_of_one_that_waits_fails_the_unit(store):
    def unit() -> None:
        with store.raw() as raw:
            say_twice(Said(raw.engine))

    with pytest.raises(PenstockError):
        unit()
    assert arrived(store) == []


def test_an_error_of_one_that_waits_is_raised_by_the_next(store):
    seen: list[Any] = []

    def unit() -> None:
        with store.raw() as raw:
            said = Said(raw.engine)
            say_twice(said)
            seen.extend(said.rows("SELECT 1"))

    with pytest.raises(PenstockError):
        unit()
    assert seen == []
    with store.raw() as raw:
        Said(raw.engine).later(INSERT, 103, 1)
    assert arrived(store) == [(103, 1)]


def test_what_waits_when_a_unit_is_given_up_never_happens(store):
    with suppress(ZeroDivisionError), store.raw() as raw:
        Said(raw.engine).later(INSERT, 101, 1)
        raise ZeroDivisionError
    with store.raw():
        pass
    assert arrived(store) == []


def test_values_arrive_as_they_are(store):
    rows = [
        ("'; DROP TABLE message; --", b"\0\xff'\\;", "100 % of %s\n\\ “ü” 🐟", 2**63 - 1, None),
        ("?", b"", "", -(2**63), 0),
    ]
    with store.raw() as raw:
        for row in rows:
            Said(raw.engine).later(KEY, *row)
        assert Said(raw.engine).rows(KEYS) == rows


def test_a_number_that_no_column_holds_is_refused_before_it_is_said(postgres_url):
    with closing(open_sql_store(postgres_url)) as store, store.raw() as raw:
        said = Said(raw.engine)
        for value in (2**63, "a\0b"):
            with pytest.raises(InvalidRequest):
                said.later("SELECT 1 FROM queue WHERE number = ?", value)
            assert raw.rows("SELECT 1 FROM queue WHERE name = ?", [value]) == []
        said.later(INSERT, 101, 1)
        assert said.rows(ARRIVED) == [(101, 1)]


def test_more_than_fits_into_a_packet(store):
    bodies = [b"'" * 500_000] * 30
    with store.unit() as unit:
        unit.create_queue("q", Settings(), NOW)
        for body in bodies:
            unit.send("q", [Draft(body)], NOW)
    with store.unit() as unit:
        assert [message.body for message in unit.claim("q", 30, NOW, 1_000).messages] == bodies
