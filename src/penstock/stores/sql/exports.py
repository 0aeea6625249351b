"""Exports: which rows of the ledger a named consumer has got, and which it is to get next."""

from __future__ import annotations

from penstock import limits
from penstock.errors import ShipmentEnded, ShipmentNotFound
from penstock.model import Counted, Export, LedgerRow
from penstock.stores.sql.engine import Row
from penstock.stores.sql.ledger import LedgerVerbs
from penstock.stores.sql.session import Session
from penstock.stores.turns import check_turn

_COLUMNS = "consumer, number, after_number, through_number, amount, claimed_at, settled_at"
_ALL_COLUMNS = ("consumer", "number", "after_number", "through_number", "amount", "claimed_at", "first_number")


def _export_of(row: Row) -> Export:
    return Export(*row)


class ExportVerbs(LedgerVerbs):
    def claim_export(
        self, consumer: str, number: int, limit: int, now: int, counted: Counted | None = None
    ) -> Export | Counted | None:
        engine = self.session.engine
        export = self._find_export(consumer, number)
        if export is None:
            end = engine.ledger_end()
            last = self._last_export(consumer)
            check_turn(consumer, number, last.number if last else 0, last is not None and last.settled_at is None)
            after = last.through if last else 0
            if counted is None or counted.after != after:
                counted = Counted(after, 0, after, 0)
            step = min(limit - counted.rows, limits.EXPORT_COUNT_ROWS)
            [(rows, first, through)] = engine.rows(
                """SELECT count(*), min(number), max(number) FROM
                   (SELECT number FROM ledger WHERE number > ? AND number <= ? ORDER BY number LIMIT ?) AS found""",
                (counted.through, end, step),
            )
            if rows:
                counted = Counted(after, counted.first or first, through, counted.rows + rows)
            if rows == step and counted.rows < limit:
                return counted
            if not counted.rows:
                return None
            # Another server may have been quicker, and its rows are then the ones.
            engine.add(
                "export",
                _ALL_COLUMNS,
                (consumer, number, after, counted.through, counted.rows, now, counted.first),
            )
            export = self._demand_export(consumer, number)
        if export.settled_at is not None:
            raise ShipmentEnded(consumer, number, "settled")
        return export

    def list_exports(self, consumer: str | None, after: int, limit: int) -> list[Export]:
        whose, params = ("", ()) if consumer is None else ("consumer = ? AND ", (consumer,))
        rows = self.session.engine.rows(
            f"SELECT {_COLUMNS} FROM export WHERE {whose} number > ? ORDER BY consumer, number LIMIT ?",
            (*params, after, limit),
        )
        return [_export_of(row) for row in rows]

    def read_export(self, consumer: str, number: int, after: int, limit: int) -> list[LedgerRow]:
        export = self._demand_export(consumer, number)
        if export.settled_at is not None:
            raise ShipmentEnded(consumer, number, "settled")
        engine = self.session.engine
        # The sweep takes the oldest rows first.
        if not engine.rows(
            """SELECT 1 FROM export AS e JOIN ledger AS l ON l.number = e.first_number
               WHERE e.consumer = ? AND e.number = ?""",
            (consumer, number),
        ):
            raise ShipmentEnded(consumer, number, "purged")
        return self.ledger_rows(max(after, export.after), export.through, limit)

    def settle_export(self, consumer: str, number: int, now: int) -> Export:
        self.session.engine.run(
            "UPDATE export SET settled_at = ? WHERE consumer = ? AND number = ? AND settled_at IS NULL",
            (now, consumer, number),
        )
        return self._demand_export(consumer, number)

    def _find_export(self, consumer: str, number: int) -> Export | None:
        rows = self.session.engine.rows(
            f"SELECT {_COLUMNS} FROM export WHERE consumer = ? AND number = ?", (consumer, number)
        )
        return _export_of(rows[0]) if rows else None

    def _demand_export(self, consumer: str, number: int) -> Export:
        export = self._find_export(consumer, number)
        if export is None:
            raise ShipmentNotFound(consumer, number)
        return export

    def _last_export(self, consumer: str) -> Export | None:
        rows = self.session.engine.rows(
            f"SELECT {_COLUMNS} FROM export WHERE consumer = ? ORDER BY number DESC LIMIT 1", (consumer,)
        )
        return _export_of(rows[0]) if rows else None


def sweep_exports(session: Session, now: int, limit: int) -> int:
    """The last one of a consumer says which rows come next."""
    engine = session.engine
    old = engine.rows(
        """SELECT id FROM export AS e WHERE settled_at < ?
           AND EXISTS (SELECT 1 FROM export AS l WHERE l.consumer = e.consumer AND l.number > e.number) LIMIT ?""",
        (now - limits.SHIPMENT_REMEMBERED_MS, max(0, limit)),
    )
    if old:
        engine.run(f"DELETE FROM export WHERE {engine.among('id')}", (engine.listed(number for (number,) in old),))
    return len(old)
