"""The marks on the two stores of a transfer. Each is a table of one row, and while a store has one, only a transfer
opens it.

The source is marked when the copy begins and stays marked, so that nothing is sent to a store that is no longer used.
The target is marked until it is complete.
"""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from typing import Generic, TypeVar

from penstock.errors import MigrationUnfinished, StoreHandedOver
from penstock.stores.sql.engine import Engine, RawSql, SqlStore


@dataclass(frozen=True)
class Handover:
    """On the source: `target` is where it is copied to, `run` is the last transfer that worked on it. When the copy is
    complete, `fingerprint` is that of the source, and `finished_at` is the time."""

    target: str
    run: str
    fingerprint: str = ""
    finished_at: int = 0


@dataclass(frozen=True)
class Migration:
    """On the target: `source` and `fingerprint` are the identity and the state of the store that is copied, `address`
    is where it is, and `run` is the transfer at work."""

    source: str
    address: str
    fingerprint: str
    run: str


# Of a database: behind who connects come its hosts, with commas between them, and its name.
_PLACE = re.compile(r"(?P<scheme>[^:/?#]+://)(?:[^/?#]*@)?(?P<place>[^/?#]+[^?#]*)")

MarkRow = TypeVar("MarkRow", Handover, Migration)

# No store has this fingerprint: the next run starts over.
SPOILT = ""


class Mark(Generic[MarkRow]):
    """A table whose columns are the fields of `row`, in their order. `types` are the columns' types."""

    def __init__(self, table: str, row: type[MarkRow], types: tuple[str, ...]) -> None:
        names = [field.name for field in fields(row)]
        columns = ", ".join(f"{name} {type_} NOT NULL" for name, type_ in zip(names, types, strict=True))
        self._table = table
        self._row: type[MarkRow] = row
        self._create = f"CREATE TABLE IF NOT EXISTS {table} ({columns})"
        self._select = f"SELECT {', '.join(names)} FROM {table}"
        self._insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"

    def is_on(self, raw: RawSql[Engine]) -> bool:
        return raw.has_table(self._table)

    def find(self, raw: RawSql[Engine]) -> MarkRow | None:
        """Also None if MariaDB was killed between the table and its row: nothing was copied then."""
        rows = raw.rows(self._select) if self.is_on(raw) else []
        return self._row(*rows[0]) if rows else None

    def put(self, raw: RawSql[Engine], row: MarkRow) -> None:
        raw.run(self._create)
        raw.run(f"DELETE FROM {self._table}")
        raw.run(self._insert, astuple(row))

    def lift(self, raw: RawSql[Engine]) -> None:
        raw.run(f"DROP TABLE IF EXISTS {self._table}")


HANDOVER = Mark("handover", Handover, ("TEXT", "VARCHAR(64)", "VARCHAR(64)", "BIGINT"))
MIGRATION = Mark("migration", Migration, ("VARCHAR(64)", "TEXT", "VARCHAR(64)", "VARCHAR(64)"))


def refuse_handed_over(store: SqlStore) -> None:
    with store.raw(write=False) as raw:
        found = HANDOVER.find(raw)
    if found is None:
        return
    here = without_password(store.url)
    if found.finished_at:
        at = datetime.fromtimestamp(found.finished_at // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        what = f"was copied to {found.target} at {at}: use that one"
    else:
        what = f"is being copied: finish it with 'penstock migrate-store {here} {found.target}'"
    raise StoreHandedOver(f"this store {what}, or take it back with 'penstock migrate-store --take-back {here}'")


def refuse_unfinished(store: SqlStore) -> None:
    with store.raw(write=False) as raw:
        if not MIGRATION.is_on(raw):
            return
        found = MIGRATION.find(raw)
    source = found.address if found else "FROM"
    raise MigrationUnfinished(
        f"this store is the unfinished copy of {source}: finish it with "
        f"'penstock migrate-store {source} {without_password(store.url)}'"
    )


def take_over(raw: RawSql[Engine], run: str) -> None:
    """An earlier run that is still alive can change nothing from now on."""
    raw.run("UPDATE migration SET run = ?", (run,))


def note_fingerprint(raw: RawSql[Engine], fingerprint: str) -> None:
    raw.run("UPDATE migration SET fingerprint = ?", (fingerprint,))


def hold(raw: RawSql[Engine], run: str) -> None:
    """Let no other run take over until the unit ends. Raises MigrationUnfinished if one has."""
    if not MIGRATION.is_on(raw) or not raw.run("UPDATE migration SET run = ? WHERE run = ?", (run, run)):
        raise MigrationUnfinished("another 'penstock migrate-store' has taken over")


def without_password(url: str) -> str:
    """And in ASCII, which every database stores unchanged."""
    at = _PLACE.match(url)
    if at is not None:
        url = f"{at['scheme']}{at['place']}"
    return url.encode("ascii", "backslashreplace").decode()
