"""MariaDB as a side of a transfer."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pymysql

from penstock.stores.sql.engine import RawSql, Row
from penstock.stores.sql.engines.mariadb import MariaEngine, translated
from penstock.stores.transfer.side import Counters

_NEXT = re.compile(r"\bAUTO_INCREMENT=(\d+)")


class MariaDialect:
    bytewise = ""  # the columns are declared that way
    emptying = "TRUNCATE TABLE"
    has_slots = True

    def insert(self, raw: RawSql[MariaEngine], table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """The driver makes one statement out of up to 1 MB of rows."""
        places = ", ".join(["%s"] * len(columns))
        try:
            with raw.engine.connection.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)
        except pymysql.Error as error:
            raise translated(error) from error

    def counters(self, raw: RawSql[MariaEngine]) -> Counters:
        # Not from `information_schema`, which MySQL caches for a day.
        [(_, ledger)] = raw.rows("SHOW CREATE TABLE ledger")
        found = _NEXT.search(ledger)
        return Counters(raw.last_seq(), int(found[1]) - 1 if found else 0)

    def go_on_after(self, raw: RawSql[MariaEngine], counters: Counters) -> None:
        """The counter follows the number that is inserted, but 0 would ask for a new one."""
        if counters.seq:
            raw.run("DELETE FROM ticket")
            raw.run("INSERT INTO ticket (seq) VALUES (?)", (counters.seq,))
        raw.run("ALTER TABLE ledger AUTO_INCREMENT = ?", (counters.ledger + 1,))
