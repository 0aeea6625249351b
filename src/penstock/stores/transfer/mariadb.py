"""MariaDB as a side of a migration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

import pymysql

from penstock.stores.sql.engine import Row
from penstock.stores.sql.mariadb import MariaEngine, translated
from penstock.stores.transfer.side import Counters, Side

_NEXT = re.compile(r"\bAUTO_INCREMENT=(\d+)")


class MariaDialect:
    bytewise = ""  # the columns are declared so
    emptying = "TRUNCATE TABLE"
    has_slots = True

    def insert(self, engine: MariaEngine, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """The driver makes one statement of up to 1 MB of rows."""
        places = ", ".join(["%s"] * len(columns))
        try:
            with engine.connection.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)
        except pymysql.Error as error:
            raise translated(error) from error

    def is_used_elsewhere(self, side: Side) -> bool:
        with side.read() as engine:
            return cast(MariaEngine, engine).is_used_elsewhere()

    def counters(self, engine: MariaEngine) -> Counters:
        # Not from `information_schema`, which MySQL remembers for a day.
        [(_, ledger)] = engine.rows("SHOW CREATE TABLE ledger")
        found = _NEXT.search(ledger)
        return Counters(engine.last_seq(), int(found[1]) - 1 if found else 0)

    def go_on_after(self, engine: MariaEngine, counters: Counters) -> None:
        """A number that was inserted is a number that was given out, but 0 asks for a new one."""
        if counters.seq:
            engine.run("DELETE FROM ticket")
            engine.run("INSERT INTO ticket (seq) VALUES (?)", (counters.seq,))
        engine.run("ALTER TABLE ledger AUTO_INCREMENT = ?", (counters.ledger + 1,))
