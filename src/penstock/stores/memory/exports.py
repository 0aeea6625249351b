"""Exports of the ledger, and sends with a key."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from penstock import limits
from penstock.errors import SendConflict, ShipmentEnded, ShipmentNotFound
from penstock.model import Draft, Export, LedgerRow, Queue, Sent, SentOnce
from penstock.stores.memory.state import SendingRow, State
from penstock.stores.turns import check_turn


class ExportVerbs:
    stirred: set[str]
    _state: State

    def ledger(self, after: int, limit: int) -> list[LedgerRow]:
        raise NotImplementedError

    def send(self, queue: str, drafts: Sequence[Draft], now: int) -> list[Sent]:
        raise NotImplementedError

    def _queue(self, name: str) -> Queue:
        raise NotImplementedError

    def claim_export(self, consumer: str, number: int, limit: int, now: int) -> Export | None:
        export = self._state.exports.get((consumer, number))
        if export is None:
            own = self.list_exports(consumer, 0, len(self._state.exports))
            check_turn(consumer, number, own[-1].number if own else 0, bool(own) and own[-1].settled_at is None)
            after = own[-1].through if own else 0
            rows = self.ledger(after, limit)
            if not rows:
                return None
            export = self._put_export(Export(consumer, number, after, rows[-1].number, len(rows), now))
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
        whole = [row for row in self.ledger(export.after, export.rows) if row.number <= export.through]
        if len(whole) < export.rows:
            raise ShipmentEnded(consumer, number, "purged")
        found: list[LedgerRow] = []
        room = limits.CLAIM_BYTES
        for row in [row for row in whole if row.number > after][:limit]:
            found.append(row)
            room -= len(row.body or b"")
            if room <= 0:
                break
        return found

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
