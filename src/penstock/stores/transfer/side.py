"""A store as one side of a migration: opened, read and written below its verbs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from penstock.errors import InvalidSetting
from penstock.stores import open_sql_store
from penstock.stores.sql.engine import Engine, RawSql, Row, SqlStore
from penstock.stores.transfer.mark import refuse_unfinished


@dataclass(frozen=True)
class Counters:
    """The last sequence number of a message, and the last number of a row of the ledger, that were given out."""

    seq: int
    ledger: int


class Dialect(Protocol):
    """Where the databases differ. Each has its own driver, and so its own type of engine."""

    # How a condition and an order say that texts compare as the bytes of their UTF-8.
    bytewise: str
    # What empties a long table at once.
    emptying: str
    # Whether a tally has a slot for every connection, to be added up.
    has_slots: bool

    def insert(self, raw: Any, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """With the numbers they have, also where the database would give them out itself."""

    def counters(self, raw: Any) -> Counters: ...

    def go_on_after(self, raw: Any, counters: Counters) -> None:
        """Whatever is sent or finished from now on gets higher numbers. It may commit what is open."""


class Side:
    def __init__(self, store: SqlStore, dialect: Dialect) -> None:
        self.store = store
        self.dialect = dialect
        with self.read() as raw:
            [(self.origin, self.secret)] = raw.rows("SELECT origin, secret FROM store")

    @property
    def identity(self) -> str:
        """The same for a store and its copies, and no secret."""
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


def open_side(url: str, *, must_exist: bool) -> Side:
    """`must_exist` is for the store that is copied: a mistyped one is not made, and the half of another is refused."""
    scheme, _, rest = url.partition("://")
    dialect = _dialect(scheme)
    if scheme == "sqlite" and must_exist and not Path(rest[1:]).is_file():
        raise InvalidSetting(f"there is no store at {url}")
    store = open_sql_store(url, lanes=1)
    try:
        if must_exist:
            refuse_unfinished(store)
        return Side(store, dialect)
    except BaseException:
        store.close()
        raise


def _dialect(scheme: str) -> Dialect:
    # Their drivers take time to import, and need not be installed where they are not used.
    match scheme:
        case "sqlite":
            from penstock.stores.transfer.sqlite import SqliteDialect

            return SqliteDialect()
        case "postgresql" | "postgres":
            from penstock.stores.transfer.postgresql import PostgresDialect

            return PostgresDialect()
        case "mariadb" | "mysql":
            from penstock.stores.transfer.mariadb import MariaDialect

            return MariaDialect()
    raise InvalidSetting(
        f"a store of the kind {scheme!r} cannot be migrated; those of sqlite://, postgresql:// and mariadb:// can"
    )
