"""One moment of a store, below its verbs: read in a transaction that may not write, whatever others write meanwhile.

A store is never made or migrated here: one of another version is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Protocol

from penstock.errors import InvalidSetting, StoreForeign
from penstock.stores.kinds import find_sql_kind, kind_of
from penstock.stores.sql import schema
from penstock.stores.sql.engine import Row
from penstock.stores.transfer.marks import without_password

# Statements here read whole tables.
_ANSWER_TIMEOUT_S = 24 * 60 * 60


class Snapshot(Protocol):
    """Errors of the driver come out as `penstock.errors`."""

    # The last sequence number that was given out, and the last number of a row of the ledger.
    last_seq: str
    last_ledger_number: str

    def rows(self, sql: str) -> list[Row]: ...

    def own_complaints(self) -> list[str]:
        """What the database itself finds wrong with its file. A database server keeps watch over its own."""


@contextmanager
def snapshot(url: str) -> Iterator[Snapshot]:
    """Raises InvalidSetting where there is nothing to verify, StoreForeign if it is not of this version."""
    kind = find_sql_kind(url)
    if kind is None:
        raise InvalidSetting(f"{kind_of(url).name} cannot be checked; those of sqlite, postgresql and mariadb can")
    path = kind.path(url)
    if not (kind.exists(url) if path is None else path.is_file()):
        raise InvalidSetting(f"there is no store at {without_password(url)}")
    # The drivers take time to import, and only those in use need to be installed.
    match kind.example.partition("://")[0]:
        case "sqlite" if path is not None:
            from penstock.stores.sql.engines.sqlite_reading import reading

            with reading(path) as connection:
                _refuse_version("sqlite", int(connection.pragma("user_version")))
                yield _SqliteSnapshot(connection)
        case "postgresql":
            from penstock.stores.sql.engines.postgresql import PostgresDatabase

            with PostgresDatabase(url).connection() as opened:
                shot = _PostgresSnapshot(opened)
                _refuse_version("postgresql", shot.version())
                yield shot
        case _:
            from penstock.stores.sql.engines.mariadb import MariaDatabase

            with closing(MariaDatabase(url, answer_timeout_s=_ANSWER_TIMEOUT_S).connection()) as maria:
                found = _MariaSnapshot(maria)
                _refuse_version("mariadb", found.version())
                yield found


def _refuse_version(dialect: str, version: int) -> None:
    lacking = schema.missing(dialect, version)
    if lacking:
        raise StoreForeign(
            f"this store has schema version {version}, made by an older Penstock: check it with that one, or start a "
            f"server of this version on it first, which brings it to {version + len(lacking)}"
        )


class _SqliteSnapshot:
    last_seq = "SELECT arrived FROM tally WHERE queue = 0"
    last_ledger_number = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'ledger'"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, sql: str) -> list[Row]:
        import apsw

        from penstock.stores.sql.engines.sqlite import translated

        try:
            return list(self._connection.execute(sql))
        except apsw.Error as error:
            raise translated(error) from error

    def own_complaints(self) -> list[str]:
        found = [str(line) for (line,) in self.rows("PRAGMA integrity_check(100)") if line != "ok"]
        for table, number, parent, _ in self.rows("PRAGMA foreign_key_check"):
            found.append(f"row {number} of {table} names a row of {parent} that does not exist")
        return found


class _PostgresSnapshot:
    last_seq = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM message_seq"
    last_ledger_number = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ledger_number"

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        # Undo what suits the statements of a server, each of which finds few rows by an index.
        for name in ("seqscan", "bitmapscan", "hashjoin", "mergejoin"):
            self.rows(f"SET enable_{name} = on")
        self.rows("SET statement_timeout = 0")
        self.rows("SET idle_in_transaction_session_timeout = 0")
        self.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def version(self) -> int:
        [(version,)] = self.rows("SELECT schema_version FROM store")
        return int(version)

    def rows(self, sql: str) -> list[Row]:
        import psycopg

        from penstock.stores.sql.engines.postgresql import translated

        try:
            cursor = self._connection.execute(sql.encode())
            return list(cursor.fetchall()) if cursor.description else []
        except psycopg.Error as error:
            raise translated(error) from error

    def own_complaints(self) -> list[str]:
        return []


class _MariaSnapshot:
    last_seq = "SELECT coalesce(max(seq), 0) FROM ticket"
    # Numbers are given out past the transaction, and the statistics that know of them may be old.
    last_ledger_number = "SELECT coalesce(max(number), 0) FROM ledger"

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.rows("SET SESSION sql_mode = @@sql_mode /*M!100300 , idle_transaction_timeout = 0 */")
        self.rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")

    def version(self) -> int:
        found = self.rows("SELECT schema_version FROM store")
        return int(found[0][0]) if found else 0

    def rows(self, sql: str) -> list[Row]:
        import pymysql

        from penstock.stores.sql.engines.mariadb import translated

        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        except pymysql.Error as error:
            raise translated(error) from error

    def own_complaints(self) -> list[str]:
        return []
