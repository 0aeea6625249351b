"""The mark on a store that is still being filled: a table `migration` of one row. While it is there, nobody else may
open the store; when it goes, in one commit, the store is whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from penstock.errors import MigrationUnfinished
from penstock.stores.protocol import Store
from penstock.stores.sql.engine import Engine
from penstock.stores.sql.unit import SqlUnit

_TABLE = "migration"
_COLUMNS = "source, address, fingerprint, run"
# A fingerprint that no store has: what is there must not be gone on with.
SPOILT = ""


@dataclass(frozen=True)
class Mark:
    """`source` is the identity of the store that is copied, `fingerprint` what it was like, `run` who is at it now."""

    source: str
    address: str
    fingerprint: str
    run: str


def refuse_unfinished(store: Store) -> None:
    with store.unit(write=False) as unit:
        engine = cast(SqlUnit, unit).session.engine
        if not engine.has_table(_TABLE):
            return
        mark = find(engine)
    source = mark.address if mark else "FROM"
    raise MigrationUnfinished(
        f"this store is the unfinished copy of {source}: finish it with "
        f"'penstock migrate-store {source} {without_password(store.url)}'"
    )


def find(engine: Engine) -> Mark | None:
    """None too where MariaDB has made the table and was killed before the row."""
    rows = engine.rows(f"SELECT {_COLUMNS} FROM {_TABLE}") if engine.has_table(_TABLE) else []
    return Mark(*rows[0]) if rows else None


def make(engine: Engine, mark: Mark) -> None:
    engine.run(
        f"""CREATE TABLE IF NOT EXISTS {_TABLE} (
            source VARCHAR(64) NOT NULL, address TEXT NOT NULL, fingerprint VARCHAR(64) NOT NULL,
            run VARCHAR(64) NOT NULL)"""
    )
    engine.run(
        f"INSERT INTO {_TABLE} ({_COLUMNS}) VALUES (?, ?, ?, ?)",
        (mark.source, mark.address, mark.fingerprint, mark.run),
    )


def take_over(engine: Engine, run: str) -> None:
    """From now on an earlier run, should it still be alive, can change nothing any more."""
    engine.run(f"UPDATE {_TABLE} SET run = ?", (run,))


def note_fingerprint(engine: Engine, fingerprint: str) -> None:
    engine.run(f"UPDATE {_TABLE} SET fingerprint = ?", (fingerprint,))


def hold(engine: Engine, run: str) -> None:
    """Until the unit ends, nobody takes over. Raises MigrationUnfinished where somebody has."""
    if not engine.has_table(_TABLE) or not engine.run(f"UPDATE {_TABLE} SET run = ? WHERE run = ?", (run, run)):
        raise MigrationUnfinished("another 'penstock migrate-store' has taken over")


def lift(engine: Engine) -> None:
    engine.run(f"DROP TABLE {_TABLE}")


def without_password(url: str) -> str:
    """Also in ASCII, which every database keeps as it is."""
    parts = urlsplit(url)
    if parts.netloc:
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
    return url.encode("ascii", "backslashreplace").decode()
