"""SQLite as a side of a migration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from penstock.stores.sql.apsw_engine import ApswEngine
from penstock.stores.sql.engine import Row
from penstock.stores.sql.sqlite import SqliteStore
from penstock.stores.transfer.side import Counters, Side


class SqliteDialect:
    bytewise = ""  # as they always do here
    emptying = "DELETE FROM"
    has_slots = False

    def insert(self, engine: ApswEngine, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        # Until the commit: a dead-letter queue may come after a queue that uses it.
        engine.rows("PRAGMA defer_foreign_keys = ON")
        places = ", ".join("?" * len(columns))
        engine.many(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)

    def is_used_elsewhere(self, side: Side) -> bool:
        return cast(SqliteStore, side.store).is_used_elsewhere()

    def counters(self, engine: ApswEngine) -> Counters:
        """Not the engine's own count: it does not see what was written past it."""
        [(seq,)] = engine.rows("SELECT arrived FROM tally WHERE queue = 0")
        [(ledger,)] = engine.rows("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'ledger'")
        return Counters(seq, ledger)

    def go_on_after(self, engine: ApswEngine, counters: Counters) -> None:
        engine.run("INSERT OR REPLACE INTO tally VALUES (0, ?, 0)", (counters.seq,))
        engine.run("DELETE FROM sqlite_sequence WHERE name = 'ledger'")
        engine.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('ledger', ?)", (counters.ledger,))
