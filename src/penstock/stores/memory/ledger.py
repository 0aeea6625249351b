"""The ledger of the memory store, and its exports."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from msgspec.structs import replace

from penstock import policy
from penstock.errors import ShipmentEnded, ShipmentNotFound
from penstock.model import Counted, Export, ExportRef, LedgerFilter, LedgerRow, LedgerScan, LedgerSize, Outcome, Tally
from penstock.stores.memory.session import Session
from penstock.stores.memory.tables import LedgerCounted


class MemoryLedger:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._tables = session.tables

    def rows(self, after: int, limit: int, wanted: LedgerFilter | None = None) -> list[LedgerRow]:
        rows = self._tables.ledger
        start = bisect_right(rows, after, key=lambda row: row.number)
        found = (row for row in islice(rows, start, None) if wanted is None or _is_wanted(row, wanted))
        return _within(islice(found, limit), self._session.limits.page_bytes)

    def latest(
        self,
        below: int | None,
        limit: int,
        rows: int,
        wanted: LedgerFilter,
        outcomes: Collection[Outcome] | None = None,
    ) -> LedgerScan:
        ledger = self._tables.ledger
        end = len(ledger) if below is None else bisect_left(ledger, below, key=lambda row: row.number)
        found: list[LedgerRow] = []
        examined, room = 0, self._session.limits.page_bytes
        of_queue = (row for row in reversed(ledger[:end]) if wanted.queue in (None, row.queue))
        for row in islice(of_queue, rows):
            examined, below = examined + 1, row.number
            if _is_wanted(row, wanted) and (outcomes is None or row.outcome in outcomes):
                found.append(row)
                room -= len(row.body or b"")
            if len(found) == limit or room <= 0:
                return LedgerScan(found, examined, below)
        return LedgerScan(found, examined, below if examined == rows else None)

    def tally(self, queue: str) -> Tally:
        row = self._tables.queues[self._session.queue(queue).number]
        return Tally(row.arrived, row.departed)

    def measure(self, limit: int) -> int:
        tables = self._tables
        start = bisect_right(tables.ledger, tables.ledger_counted.through, key=lambda row: row.number)
        rows = tables.ledger[start : start + limit]
        if rows:
            counted = tables.ledger_counted
            size = counted.bytes + sum(map(_size, rows))
            tables.replace("ledger_counted", LedgerCounted(rows[-1].number, counted.rows + len(rows), size))
        return len(rows)

    def size(self) -> LedgerSize:
        tables = self._tables
        oldest = tables.ledger[0].finished_at if tables.ledger else None
        return LedgerSize(tables.ledger_counted.rows, tables.ledger_counted.bytes, oldest)

    def sweep(self, before: int, limit: int, most_bytes: int | None = None) -> int:
        tables = self._tables
        ledger, counted = tables.ledger, tables.ledger_counted
        excess = 0 if most_bytes is None else counted.bytes - most_bytes
        old: list[LedgerRow] = []
        for row in islice(ledger, max(0, limit)):
            if row.finished_at < before or excess > 0:
                old.append(row)
                excess -= _size(row)
        if old:
            gone = {row.number for row in old}
            tables.replace("ledger", [row for row in ledger if row.number not in gone])
            sizes = [_size(row) for row in old if row.number <= counted.through]
            tables.replace(
                "ledger_counted", replace(counted, rows=counted.rows - len(sizes), bytes=counted.bytes - sum(sizes))
            )
        return len(old)


class MemoryExports:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._tables = session.tables

    def claim(
        self, ref: ExportRef, limit: int, now: int, counted: Counted | None = None, step: int | None = None
    ) -> Export | Counted | None:
        export = self._known(ref, now)
        if export is None:
            own = self.list(ref.consumer, 0, len(self._tables.exports), now)
            policy.check_number(ref, own[-1].number if own else 0, bool(own) and own[-1].settled_at is None)
            after = own[-1].through if own else 0
            if counted is None or counted.after != after:
                counted = Counted(after, 0, after, 0)
            most = min(limit - counted.rows, step or self._session.limits.export_count_rows)
            found = self._rows(counted.through, most)
            if found:
                counted = Counted(after, counted.first or found[0].number, found[-1].number, counted.rows + len(found))
            if len(found) == most and counted.rows < limit:
                return counted
            if not counted.rows:
                return None
            export = self._put(Export(ref.consumer, ref.number, after, counted.through, counted.rows, now))
        if export.settled_at is not None:
            raise ShipmentEnded(ref, "settled")
        return export

    def list(self, consumer: str | None, after: int, limit: int, now: int) -> Sequence[Export]:
        exports = [export for _, export in sorted(self._tables.exports.items()) if not self._is_old(export, now)]
        return [e for e in exports if consumer in (None, e.consumer) and e.number > after][:limit]

    def read(self, ref: ExportRef, after: int, limit: int, now: int, ledger_before: int = 0) -> Sequence[LedgerRow]:
        export = self._found(ref, now)
        if export.settled_at is not None:
            raise ShipmentEnded(ref, "settled")
        whole = [row for row in self._rows(export.after, export.rows) if row.number <= export.through]
        if len(whole) < export.rows or whole[0].finished_at < ledger_before:
            raise ShipmentEnded(ref, "purged")
        rest = islice((row for row in whole if row.number > after), limit)
        return _within(rest, self._session.limits.page_bytes)

    def _rows(self, after: int, limit: int) -> Sequence[LedgerRow]:
        rows = self._tables.ledger
        start = bisect_right(rows, after, key=lambda row: row.number)
        return rows[start : start + limit]

    def settle(self, ref: ExportRef, now: int) -> Export:
        export = self._found(ref, now)
        return export if export.settled_at is not None else self._put(replace(export, settled_at=now))

    def sweep(self, now: int) -> int:
        exports = self._tables.exports
        kept = {key: export for key, export in exports.items() if not self._is_old(export, now)}
        if len(kept) < len(exports):
            self._tables.replace("exports", kept)
        return len(exports) - len(kept)

    def _is_old(self, export: Export, now: int) -> bool:
        """The latest of a consumer says which rows come next."""
        settled_at = export.settled_at
        if settled_at is None or settled_at >= now - self._session.limits.shipment_remembered_ms:
            return False
        return any(consumer == export.consumer and number > export.number for consumer, number in self._tables.exports)

    def _known(self, ref: ExportRef, now: int) -> Export | None:
        export = self._tables.exports.get((ref.consumer, ref.number))
        return None if export is None or self._is_old(export, now) else export

    def _found(self, ref: ExportRef, now: int) -> Export:
        export = self._known(ref, now)
        if export is None:
            raise ShipmentNotFound(ref)
        return export

    def _put(self, export: Export) -> Export:
        self._tables.replace("exports", {**self._tables.exports, (export.consumer, export.number): export})
        return export


def _size(row: LedgerRow) -> int:
    return policy.LEDGER_ROW_BYTES + len(row.body or b"")


def _is_wanted(row: LedgerRow, wanted: LedgerFilter) -> bool:
    return (
        wanted.queue in (None, row.queue)
        and (wanted.id is None or wanted.id.lower() == row.id)
        and (wanted.since is None or row.finished_at >= wanted.since)
        and (wanted.before is None or row.finished_at < wanted.before)
    )


def _within(rows: Iterable[LedgerRow], room: int) -> list[LedgerRow]:
    """The first rows, until their bodies come to `room`."""
    found: list[LedgerRow] = []
    for row in rows:
        found.append(row)
        room -= len(row.body or b"")
        if room <= 0:
            break
    return found
