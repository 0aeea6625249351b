"""SQLite as a side of a transfer."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.stores.sql.engine import RawSql, Row
from penstock.stores.sql.engines.sqlite import SqliteEngine
from penstock.stores.transfer.side import Counters


class SqliteDialect:
    bytewise = ""  # SQLite compares texts so by default
    emptying = "DELETE FROM"
    has_slots = False

    def insert(self, raw: RawSql[SqliteEngine], table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        # Checked at the commit: a dead-letter queue may come after a queue that uses it.
        raw.rows("PRAGMA defer_foreign_keys = ON")
        places = ", ".join("?" * len(columns))
        raw.many(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)

    def counters(self, raw: RawSql[SqliteEngine]) -> Counters:
        """Not from the engine's own count, which misses what was written past it."""
        [(seq,)] = raw.rows("SELECT arrived FROM tally WHERE queue = 0")
        [(ledger,)] = raw.rows("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'ledger'")
        return Counters(seq, ledger)

    def go_on_after(self, raw: RawSql[SqliteEngine], counters: Counters) -> None:
        raw.run("INSERT OR REPLACE INTO tally VALUES (0, ?, 0)", (counters.seq,))
        raw.run("DELETE FROM sqlite_sequence WHERE name = 'ledger'")
        raw.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('ledger', ?)", (counters.ledger,))
