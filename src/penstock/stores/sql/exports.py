"""Exports: which rows of the ledger a named consumer has got, and which it is to get next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock import policy
from penstock.errors import ShipmentEnded, ShipmentNotFound
from penstock.model import Counted, Export, ExportRef, LedgerRow
from penstock.stores.sql.ledger import Ledger
from penstock.stores.sql.session import Session

# As `model.Export` has them.
_COLUMNS = "consumer, number, after_number, through_number, amount, claimed_at, settled_at"

# Of an export `e`; the parameter is the instant since which it must have been settled. The latest of a consumer always
# is.
_REMEMBERED = """(e.settled_at IS NULL OR e.settled_at >= ? OR NOT EXISTS (
            SELECT 1 FROM export AS l WHERE l.consumer = e.consumer AND l.number > e.number))"""


@dataclass(frozen=True, slots=True)
class ExportSql:
    find: str = f"SELECT {_COLUMNS} FROM export WHERE consumer = ? AND number = ?"
    latest: str = f"SELECT {_COLUMNS} FROM export WHERE consumer = ? ORDER BY number DESC LIMIT 1"
    page: str = f"""
        SELECT {_COLUMNS} FROM export AS e WHERE number > ? AND {_REMEMBERED} ORDER BY consumer, number LIMIT ?"""
    page_of_consumer: str = f"""
        SELECT {_COLUMNS} FROM export AS e WHERE consumer = ? AND number > ? AND {_REMEMBERED}
        ORDER BY consumer, number LIMIT ?"""
    later: str = "SELECT 1 FROM export WHERE consumer = ? AND number > ? LIMIT 1"
    count: str = """
        SELECT count(*), min(number), max(number) FROM
        (SELECT number FROM ledger WHERE number > ? AND number <= ? ORDER BY number LIMIT ?) AS found"""
    add: str = """
        INSERT INTO export (consumer, number, after_number, through_number, amount, claimed_at, first_number)
        VALUES (?, ?, ?, ?, ?, ?, ?) {unless_there}"""
    first_row: str = """
        SELECT l.finished_at FROM export AS e JOIN ledger AS l ON l.number = e.first_number
        WHERE e.consumer = ? AND e.number = ?"""
    settle: str = "UPDATE export SET settled_at = ? WHERE consumer = ? AND number = ? AND settled_at IS NULL"
    # The last one of a consumer says which rows come next.
    old: str = """
        SELECT id FROM export AS e WHERE settled_at < ?
        AND EXISTS (SELECT 1 FROM export AS l WHERE l.consumer = e.consumer AND l.number > e.number) LIMIT ?"""
    forget: str = "DELETE FROM export WHERE {among:id}"


class Exports:
    __slots__ = ("_ledger", "_session", "_sql")

    def __init__(self, session: Session, ledger: Ledger) -> None:
        self._session = session
        self._ledger = ledger
        self._sql = session.engine.statements.of(ExportSql)

    def claim(
        self, ref: ExportRef, limit: int, now: int, counted: Counted | None = None, step: int | None = None
    ) -> Export | Counted | None:
        engine = self._session.engine
        export = self._find(ref, now)
        if export is None:
            end = engine.ledger_end()
            last = self._latest(ref.consumer)
            is_open = last is not None and last.settled_at is None
            policy.check_number(ref, last.number if last else 0, is_open)
            after = last.through if last else 0
            if counted is None or counted.after != after:
                counted = Counted(after, 0, after, 0)
            most = min(limit - counted.rows, step or self._session.limits.export_count_rows)
            [(found, first, through)] = engine.rows(self._sql.count, (counted.through, end, most))
            if found:
                counted = Counted(after, counted.first or first, through, counted.rows + found)
            if found == most and counted.rows < limit:
                return counted
            if not counted.rows:
                return None
            # Another server may have been quicker, and its rows are then the ones.
            whose = ref.consumer, ref.number
            engine.add(self._sql.add, (*whose, after, counted.through, counted.rows, now, counted.first))
            export = self._demand(ref, now)
        if export.settled_at is not None:
            raise ShipmentEnded(ref, "settled")
        return export

    def list(self, consumer: str | None, after: int, limit: int, now: int) -> Sequence[Export]:
        engine, settled_since = self._session.engine, self._settled_since(now)
        if consumer is None:
            rows = engine.rows(self._sql.page, (after, settled_since, limit))
        else:
            rows = engine.rows(self._sql.page_of_consumer, (consumer, after, settled_since, limit))
        return [Export(*row) for row in rows]

    def read(self, ref: ExportRef, after: int, limit: int, now: int, ledger_before: int = 0) -> Sequence[LedgerRow]:
        export = self._demand(ref, now)
        if export.settled_at is not None:
            raise ShipmentEnded(ref, "settled")
        # The sweep takes the oldest rows first.
        first = self._session.engine.rows(self._sql.first_row, (ref.consumer, ref.number))
        if not first or first[0][0] < ledger_before:
            raise ShipmentEnded(ref, "purged")
        return self._ledger.between(max(after, export.after), export.through, limit)

    def settle(self, ref: ExportRef, now: int) -> Export:
        self._session.engine.run(self._sql.settle, (now, ref.consumer, ref.number))
        return self._demand(ref, now)

    def _find(self, ref: ExportRef, now: int) -> Export | None:
        engine = self._session.engine
        for row in engine.rows(self._sql.find, (ref.consumer, ref.number)):
            export = Export(*row)
            is_old = export.settled_at is not None and export.settled_at < self._settled_since(now)
            if not (is_old and engine.rows(self._sql.later, (ref.consumer, ref.number))):
                return export
        return None

    def _settled_since(self, now: int) -> int:
        """What was settled before is not remembered, but for the latest of a consumer."""
        return now - self._session.limits.shipment_remembered_ms

    def _demand(self, ref: ExportRef, now: int) -> Export:
        export = self._find(ref, now)
        if export is None:
            raise ShipmentNotFound(ref)
        return export

    def _latest(self, consumer: str) -> Export | None:
        rows = self._session.engine.rows(self._sql.latest, (consumer,))
        return Export(*rows[0]) if rows else None

    def sweep(self, now: int, limit: int) -> int:
        engine = self._session.engine
        old = engine.rows(self._sql.old, (self._settled_since(now), max(0, limit)))
        if old:
            engine.run(self._sql.forget, (engine.listed(number for (number,) in old),))
        return len(old)
