"""The mark on a store that is still being filled: a table `migration` of one row. While it is there, nothing else may
open the store; when it goes, in one commit, the store is complete."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from penstock.errors import MigrationUnfinished
from penstock.stores.sql.engine import Engine, RawSql, SqlStore

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


def refuse_unfinished(store: SqlStore) -> None:
    with store.raw(write=False) as raw:
        if not raw.has_table(_TABLE):
            return
        mark = find(raw)
    source = mark.address if mark else "FROM"
    raise MigrationUnfinished(
        f"this store is the unfinished copy of {source}: finish it with "
        f"'penstock migrate-store {source} {without_password(store.url)}'"
    )


def find(raw: RawSql[Engine]) -> Mark | None:
    """None too where MariaDB has made the table and was killed before the row."""
    rows = raw.rows(f"SELECT {_COLUMNS} FROM {_TABLE}") if raw.has_table(_TABLE) else []
    return Mark(*rows[0]) if rows else None


def make(raw: RawSql[Engine], mark: Mark) -> None:
    raw.run(
        f"""CREATE TABLE IF NOT EXISTS {_TABLE} (
            source VARCHAR(64) NOT NULL, address TEXT NOT NULL, fingerprint VARCHAR(64) NOT NULL,
            run VARCHAR(64) NOT NULL)"""
    )
    raw.run(
        f"INSERT INTO {_TABLE} ({_COLUMNS}) VALUES (?, ?, ?, ?)",
        (mark.source, mark.address, mark.fingerprint, mark.run),
    )


def take_over(raw: RawSql[Engine], run: str) -> None:
    """From now on an earlier run, should it still be alive, can change nothing any more."""
    raw.run(f"UPDATE {_TABLE} SET run = ?", (run,))


def note_fingerprint(raw: RawSql[Engine], fingerprint: str) -> None:
    raw.run(f"UPDATE {_TABLE} SET fingerprint = ?", (fingerprint,))


def hold(raw: RawSql[Engine], run: str) -> None:
    """Until the unit ends, no other run takes over. Raises MigrationUnfinished where one has."""
    if not raw.has_table(_TABLE) or not raw.run(f"UPDATE {_TABLE} SET run = ? WHERE run = ?", (run, run)):
        raise MigrationUnfinished("another 'penstock migrate-store' has taken over")


def lift(raw: RawSql[Engine]) -> None:
    raw.run(f"DROP TABLE {_TABLE}")


def without_password(url: str) -> str:
    """Also in ASCII, which every database keeps as it is."""
    parts = urlsplit(url)
    if parts.netloc:
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
    return url.encode("ascii", "backslashreplace").decode()
