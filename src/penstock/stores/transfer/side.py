"""A store as one side of a transfer: opened, read and written below its verbs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

from penstock.errors import InvalidSetting
from penstock.stores import open_sql_store
from penstock.stores.kinds import find_sql_kind
from penstock.stores.sql.engine import Engine, RawSql, Row, SqlStore
from penstock.stores.transfer.marks import refuse_unfinished


@dataclass(frozen=True)
class Counters:
    """The last sequence number of a message, and the last number of a row of the ledger, that were given out."""

    seq: int
    ledger: int


@dataclass(frozen=True)
class Paging:
    """How much of a table is handled at once.

    A page is written in one transaction. It has at most `page_rows` rows and `page_bytes` bytes, or one row that is
    larger. Where rows are measured before they are read, at least `fewest_rows` are. One statement adds up `span_rows`
    rows.
    """

    page_rows: int = 5_000
    page_bytes: int = 8 * 1024 * 1024
    fewest_rows: int = 16
    span_rows: int = 100_000


class Dialect(Protocol):
    """Where the databases differ. Each has its own driver, and so its own type of engine."""

    # The clause that makes texts compare as the bytes of their UTF-8, in a condition and in an order.
    bytewise: str
    # The statement that empties a long table at once.
    emptying: str
    # Whether a tally has a slot for every connection, to be added up.
    has_slots: bool

    def insert(self, raw: Any, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Keep the numbers of the rows, even where the database would assign them itself."""

    def counters(self, raw: Any) -> Counters: ...

    def go_on_after(self, raw: Any, counters: Counters) -> None:
        """Give higher numbers to all that is sent or finished from now on. It may commit the open transaction."""


class Side:
    def __init__(self, store: SqlStore, dialect: Dialect, paging: Paging) -> None:
        self.store = store
        self.dialect = dialect
        self.paging = paging
        with self.read() as raw:
            [(self.origin, self.secret)] = raw.rows("SELECT origin, secret FROM store")

    @property
    def identity(self) -> str:
        """The same for a store and its copies, and not secret."""
        return sha256(self.origin.encode() + self.secret).hexdigest()

    def bytewise(self, column: str) -> str:
        return f"{column} {self.dialect.bytewise}"

    @contextmanager
    def read(self) -> Iterator[RawSql[Engine]]:
        with self.store.raw(write=False) as raw:
            yield raw

    @contextmanager
    def write(self) -> Iterator[RawSql[Engine]]:
        with self.store.raw() as raw:
            yield raw


def open_side(url: str, *, must_exist: bool, paging: Paging = Paging()) -> Side:
    """`must_exist` is for the source: one that does not exist is not created, and an unfinished copy is refused."""
    kind = find_sql_kind(url)
    if kind is None:
        scheme, _, _ = url.partition("://")
        raise InvalidSetting(
            f"a store of the kind {scheme!r} cannot be migrated; those of sqlite://, postgresql:// and mariadb:// can"
        )
    path = kind.path(url)
    if must_exist and path is not None and not path.is_file():
        raise InvalidSetting(f"there is no store at {url}")
    store = open_sql_store(url, lanes=1)
    try:
        if must_exist:
            refuse_unfinished(store)
        return Side(store, _dialect(store), paging)
    except BaseException:
        store.close()
        raise


def _dialect(store: SqlStore) -> Dialect:
    """By the name of its engine."""
    with store.raw(write=False) as raw:
        name = raw.engine.statements.dialect.name
    # The drivers take time to import, and only those in use need to be installed.
    match name:
        case "postgresql":
            from penstock.stores.transfer.postgresql import PostgresDialect

            return PostgresDialect()
        case "mariadb":
            from penstock.stores.transfer.mariadb import MariaDialect

            return MariaDialect()
        case _:
            from penstock.stores.transfer.sqlite import SqliteDialect

            return SqliteDialect()
