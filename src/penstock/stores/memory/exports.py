"""Exports of the ledger, and sends with a key."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from penstock import limits
from penstock.errors import SendConflict, ShipmentEnded, ShipmentNotFound
from penstock.model import Counted, Draft, Export, LedgerRow, Queue, Sent, SentOnce
from penstock.stores.memory.state import SendingRow, State
from penstock.stores.memory.views import within_budget
from penstock.stores.turns import check_turn


class ExportVerbs:
    stirred: set[str]
    _state: State

    def send(self, queue: str, drafts: Sequence[Draft], now: int) -> list[Sent]:
        raise NotImplementedError

    def _queue(self, name: str) -> Queue:
        raise NotImplementedError

    def claim_export(
        self, consumer: str, number: int, limit: int, now: int, counted: Counted | None = None
    ) -> Export | Counted | None:
        export = self._state.exports.get((consumer, number))
        if export is None:
            own = self.list_exports(consumer, 0, len(self._state.exports))
            check_turn(consumer, number, own[-1].number if own else 0, bool(own) and own[-1].settled_at is None)
            after = own[-1].through if own else 0
            if counted is None or counted.after != after:
                counted = Counted(after, 0, after, 0)
            step = min(limit - counted.rows, limits.EXPORT_COUNT_ROWS)
            rows = self._rows(counted.through, step)
            if rows:
                counted = Counted(after, counted.first or rows[0].number, rows[-1].number, counted.rows + len(rows))
            if len(rows) == step and counted.rows < limit:
                return counted
            if not counted.rows:
                return None
            export = self._put_export(Export(consumer, number, after, counted.through, counted.rows, now))
        if export.settled_at is not None:
            raise ShipmentEnded(consumer, number, "settled")
        return export

    def list_exports(self, consumer: str | None, after: int, limit: int) -> list[Export]:
        exports = [export for _, export in sorted(self._state.exports.items())]
        return [e for e in exports if consumer in (None, e.consumer) and e.number > after][:limit]

    def read_export(self, consumer: str, number: int, after: int, limit: int) -> list[LedgerRow]:
        export = self._export(consumer, number)
        if export.settled_at is not None:
            raise ShipmentEnded(consumer, number, "settled")
        whole = [row for row in self._rows(export.after, export.rows) if row.number <= export.through]
        if len(whole) < export.rows:
            raise ShipmentEnded(consumer, number, "purged")
        return within_budget(islice((row for row in whole if row.number > after), limit))

    def _rows(self, after: int, limit: int) -> list[LedgerRow]:
        rows = self._state.ledger
        start = bisect_right(rows, after, key=lambda row: row.number)
        return rows[start : start + limit]

    def settle_export(self, consumer: str, number: int, now: int) -> Export:
        export = self._export(consumer, number)
        return export if export.settled_at is not None else self._put_export(replace(export, settled_at=now))

    def sweep_exports(self, now: int) -> int:
        exports = self._state.exports
        last = dict(sorted(exports))
        kept = {
            key: export
            for key, export in exports.items()
            if export.settled_at is None
            or export.settled_at >= now - limits.SHIPMENT_REMEMBERED_MS
            or last[export.consumer] == export.number
        }
        if len(kept) < len(exports):
            self._state.replace("exports", kept)
        return len(exports) - len(kept)

    def _export(self, consumer: str, number: int) -> Export:
        export = self._state.exports.get((consumer, number))
        if export is None:
            raise ShipmentNotFound(consumer, number)
        return export

    def _put_export(self, export: Export) -> Export:
        self._state.replace("exports", {**self._state.exports, (export.consumer, export.number): export})
        return export

    def send_once(self, queue: str, key: str, digest: bytes, drafts: Sequence[Draft], now: int) -> SentOnce:
        place = (self._queue(queue).number, key)
        known = self._state.sendings.get(place)
        if known is not None and known.sent_at >= now - limits.IDEMPOTENCY_MS:
            if known.digest != digest:
                raise SendConflict(key)
            return SentOnce(known.count, known.stored, repeated=True)
        stored = sum(sent.stored for sent in self.send(queue, drafts, now))
        row = SendingRow(digest, len(drafts), stored, now)
        self._state.replace("sendings", {**self._state.sendings, place: row})
        if stored:
            self.stirred.add(queue)
        return SentOnce(len(drafts), stored)

    def sweep_sends(self, now: int) -> int:
        sendings = self._state.sendings
        kept = {place: row for place, row in sendings.items() if row.sent_at >= now - limits.IDEMPOTENCY_MS}
        if len(kept) < len(sendings):
            self._state.replace("sendings", kept)
        return len(sendings) - len(kept)
