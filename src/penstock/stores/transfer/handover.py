"""The mark on a store that is being copied, or has been: a table `handover` of one row.

While it is there, nothing but a migration opens the store. So what is sent after the copy has begun cannot end up in a
store that is no longer used.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.errors import StoreHandedOver
from penstock.stores.sql.engine import Engine, RawSql, SqlStore
from penstock.stores.transfer.mark import without_password

_TABLE = "handover"
_COLUMNS = "target, run, fingerprint, finished_at"


@dataclass(frozen=True)
class Handover:
    """`target` is where to, `run` who is at it or was last. Once all is copied, `fingerprint` is what the store was
    like, and `finished_at` when that was."""

    target: str
    run: str
    fingerprint: str = ""
    finished_at: int = 0


def refuse_handed_over(store: SqlStore) -> None:
    with store.raw(write=False) as raw:
        found = find(raw)
    if found is None:
        return
    here = without_password(store.url)
    if found.finished_at:
        at = datetime.fromtimestamp(found.finished_at // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        what = f"was copied to {found.target} at {at}: use that one"
    else:
        what = f"is being copied: finish it with 'penstock migrate-store {here} {found.target}'"
    raise StoreHandedOver(f"this store {what}, or take it back with 'penstock migrate-store --take-back {here}'")


def find(raw: RawSql[Engine]) -> Handover | None:
    """None too where MariaDB has made the table and was killed before the row: nothing was copied then."""
    rows = raw.rows(f"SELECT {_COLUMNS} FROM {_TABLE}") if raw.has_table(_TABLE) else []
    return Handover(*rows[0]) if rows else None


def put(raw: RawSql[Engine], handover: Handover) -> None:
    raw.run(
        f"""CREATE TABLE IF NOT EXISTS {_TABLE} (
            target TEXT NOT NULL, run VARCHAR(64) NOT NULL, fingerprint VARCHAR(64) NOT NULL,
            finished_at BIGINT NOT NULL)"""
    )
    raw.run(f"DELETE FROM {_TABLE}")
    raw.run(
        f"INSERT INTO {_TABLE} ({_COLUMNS}) VALUES (?, ?, ?, ?)",
        (handover.target, handover.run, handover.fingerprint, handover.finished_at),
    )


def lift(raw: RawSql[Engine]) -> None:
    raw.run(f"DROP TABLE IF EXISTS {_TABLE}")
