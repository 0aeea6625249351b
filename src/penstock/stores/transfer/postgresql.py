"""PostgreSQL as a side of a transfer."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from penstock.stores.sql.engine import RawSql, Row
from penstock.stores.sql.engines.postgresql import PostgresEngine, translated
from penstock.stores.transfer.side import Counters

# The columns that only the database numbers.
NUMBERED = {
    **dict.fromkeys(("api_key", "action"), "number"),
    **dict.fromkeys(("shipment", "lease", "export", "sending", "seen", "attempt", "collapse", "figure"), "id"),
}


class PostgresDialect:
    bytewise = 'COLLATE "C"'  # the default follows the language of the database
    emptying = "TRUNCATE TABLE"
    has_slots = True

    def insert(self, raw: RawSql[PostgresEngine], table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """By COPY, which accepts values even for columns that are GENERATED ALWAYS."""
        try:
            with (
                raw.engine.connection.cursor() as cursor,
                cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)".encode()) as copy,
            ):
                for row in rows:
                    copy.write_row(row)
        except psycopg.Error as error:
            raise translated(error) from error

    def counters(self, raw: RawSql[PostgresEngine]) -> Counters:
        [(ledger,)] = raw.rows("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ledger_number")
        return Counters(raw.last_seq(), ledger)

    def go_on_after(self, raw: RawSql[PostgresEngine], counters: Counters) -> None:
        given = [("message_seq", counters.seq), ("ledger_number", counters.ledger)]
        for table, column in NUMBERED.items():
            given += raw.rows(
                f"SELECT pg_get_serial_sequence('{table}', '{column}'), coalesce(max({column}), 0) FROM {table}"
            )
        for sequence, last in given:
            if last:
                raw.rows("SELECT setval(?::text::regclass, ?)", (sequence, last))
        # Without it, the first claims are planned for empty tables.
        raw.run("ANALYZE queue, message, ledger")
