"""PostgreSQL as a side of a migration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import psycopg

from penstock.stores.sql.engine import Row
from penstock.stores.sql.postgresql import PostgresEngine, translated
from penstock.stores.transfer.side import Counters, Side

# The columns that the database fills itself, and that nobody else counts.
_NUMBERED = {"api_key": "number", "shipment": "id", "export": "id", "sending": "id", "collapse": "id"}


class PostgresDialect:
    bytewise = 'COLLATE "C"'  # else as the language of the database has it
    emptying = "TRUNCATE TABLE"
    has_slots = True

    def insert(self, engine: PostgresEngine, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """By COPY, which also takes numbers that are GENERATED ALWAYS."""
        try:
            with (
                engine.connection.cursor() as cursor,
                cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)".encode()) as copy,
            ):
                for row in rows:
                    copy.write_row(row)
        except psycopg.Error as error:
            raise translated(error) from error

    def is_used_elsewhere(self, side: Side) -> bool:
        with side.read() as engine:
            return cast(PostgresEngine, engine).is_used_elsewhere()

    def counters(self, engine: PostgresEngine) -> Counters:
        [(ledger,)] = engine.rows("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ledger_number")
        return Counters(engine.last_seq(), ledger)

    def go_on_after(self, engine: PostgresEngine, counters: Counters) -> None:
        given = [("message_seq", counters.seq), ("ledger_number", counters.ledger)]
        for table, column in _NUMBERED.items():
            given += engine.rows(
                f"SELECT pg_get_serial_sequence('{table}', '{column}'), coalesce(max({column}), 0) FROM {table}"
            )
        for sequence, last in given:
            if last:
                engine.rows("SELECT setval(?::text::regclass, ?)", (sequence, last))
        # Else the first claims are planned for empty tables.
        engine.run("ANALYZE queue, message, ledger")
