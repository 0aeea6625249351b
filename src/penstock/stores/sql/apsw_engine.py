"""SQLite as the verbs use it: the driver `apsw`, with its errors translated in one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import apsw

from penstock import ids
from penstock.errors import PenstockError, StoreBusy, StoreCorrupt, StoreFull, StoreUnavailable
from penstock.stores.sql.arrivals import COLUMNS
from penstock.stores.sql.engine import Row

_PIECE_ROWS = 16
_INSERT = f"""
    INSERT INTO message ({", ".join(COLUMNS)}, receives, claim)
    VALUES ({", ".join("?" * len(COLUMNS))}, 0, 0)"""
_ADD_TO_TALLY = """
    INSERT INTO tally (queue, arrived, departed) VALUES (?, ?, ?)
    ON CONFLICT (queue) DO UPDATE SET arrived = arrived + excluded.arrived, departed = departed + excluded.departed"""


class ApswEngine:
    """There is one writer at a time: nothing has to be locked, and sequence numbers are counted in a row."""

    shared = False
    lock = ""
    lock_free = ""
    deletes_into = False
    walk = "message"
    age = "seq"
    ledger_of_queue = "ledger"

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._cursor = connection.cursor()
        # The last sequence number given out, and how many of them are not written down yet.
        self._seq: int | None = None
        self._given = 0

    def forget(self) -> None:
        """Somebody else has changed the store, or a unit was lost."""
        self._seq, self._given = None, 0

    def rows(self, sql: str, params: Sequence[object] = ()) -> list[Row]:
        try:
            return self._cursor.execute(sql, params).fetchall()
        except apsw.Error as error:
            raise translated(error) from error

    def rows_within(self, sql: str, params: Sequence[object], budget: int) -> list[Row]:
        """In pieces: looking at each row on its own takes as long as reading it."""
        column = 1  # the body
        rows: list[Row] = []
        try:
            cursor = self._cursor.execute(sql, params)
            while piece := list(islice(cursor, _PIECE_ROWS)):
                budget -= sum([len(row[column]) for row in piece])
                rows += piece
                if budget <= 0:
                    break
        except apsw.Error as error:
            raise translated(error) from error
        while len(rows) > 1 and budget + len(rows[-1][column]) <= 0:
            budget += len(rows.pop()[column])
        return rows

    def run(self, sql: str, params: Sequence[object] = ()) -> int:
        try:
            self._cursor.execute(sql, params)
        except apsw.Error as error:
            raise translated(error) from error
        return self.connection.changes()

    def add(self, table: str, columns: Sequence[str], row: Sequence[object]) -> bool:
        places = ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places}) ON CONFLICT DO NOTHING"
        return self.run(sql, row) > 0

    def many(self, sql: str, params: Iterable[Sequence[object]]) -> None:
        try:
            self._cursor.executemany(sql, params)
        except apsw.Error as error:
            raise translated(error) from error

    def among(self, column: str) -> str:
        return f"{column} IN (SELECT value FROM json_each(?))"

    def listed(self, numbers: Iterable[int]) -> str:
        return f"[{','.join(map(str, numbers))}]"

    def insert_messages(self, rows: Sequence[Row]) -> None:
        self.many(_INSERT, rows)

    def next_seqs(self, count: int) -> range:
        """They are given back if the unit is lost."""
        last = self.last_seq()
        self._seq = last + count
        self._given += count
        return range(last + 1, last + 1 + count)

    def last_seq(self) -> int:
        if self._seq is None:
            [(seq,)] = self.rows("SELECT arrived FROM tally WHERE queue = 0")
            self._seq = int(seq)
        return self._seq

    def add_to_tallies(self, changes: Mapping[int, Sequence[int]], stirring: bool) -> None:
        rows = [(queue, arrived, departed) for queue, (arrived, departed) in changes.items()]
        if self._given:
            rows.append((0, self._given, 0))
            self._given = 0
        self.many(_ADD_TO_TALLY, rows)

    def has_table(self, name: str) -> bool:
        return bool(self.rows("SELECT 1 FROM sqlite_schema WHERE name = ?", (name,)))

    def enter_ledger(self) -> None:
        """Nobody else is writing."""

    def prove_writable(self) -> None:
        """By a row that comes and goes: SQLite writes nothing for an update that changes nothing."""
        self.run("INSERT INTO store SELECT * FROM store")
        self.run("DELETE FROM store WHERE rowid > (SELECT min(rowid) FROM store)")

    def ledger_end(self) -> int:
        """One writer at a time writes the rows in their order."""
        return ids.SEQ_MAX


def translated(error: apsw.Error) -> PenstockError:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy("another process is writing to the store")
        case apsw.FullError():
            return StoreFull("the device of the store is full")
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreCorrupt(f"the store is damaged: {error}")
        # Our statements are fixed: one that SQLite does not understand has not found the tables it needs.
        case apsw.SQLError() if str(error).startswith("no such"):
            return StoreCorrupt(f"the store is damaged: {error}")
        case _:
            return StoreUnavailable(f"the store cannot be used: {error}")
