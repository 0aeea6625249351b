"""Shipments. The messages of one that is kept stand with it, where no other verb looks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from penstock import limits, policy
from penstock.errors import ShipmentConflict, ShipmentEnded, ShipmentNotFound
from penstock.model import Claimed, Message, Outcome, Shipment, ShipmentRef, ShipmentState
from penstock.stores.memory.claims import ClaimTerms, claim
from penstock.stores.memory.session import Session
from penstock.stores.memory.tables import ShipmentRow

_NOT_ENDED = (ShipmentState.GATHERING, ShipmentState.OPEN)


class MemoryShipments:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._tables = session.tables

    def claim(
        self,
        ref: ShipmentRef,
        limit: int,
        now: int,
        hold_ms: int,
        step: int | None = None,
        max_bytes: int | None = None,
    ) -> Shipment | None:
        consumer, number = ref.consumer, ref.number
        found = self._session.queue(ref.queue)
        row = self._known(found.number, ref, now)
        if row is None:
            own = self._of_consumer(found.number, consumer)
            last = own[-1].shipment if own else None
            policy.check_number(ref, last.number if last else 0, last is not None and last.state in _NOT_ENDED)
            row = ShipmentRow(
                found.number, Shipment(ref.queue, consumer, number, ShipmentState.GATHERING, 0, 0, now, now + hold_ms)
            )
        shipment = row.shipment
        if shipment.state not in _NOT_ENDED:
            raise ShipmentEnded(ref, shipment.state)
        if shipment.state is ShipmentState.OPEN:
            return self._put(row, replace(shipment, until=max(shipment.until, now + hold_ms)))
        budget = (limits.SHIPMENT_BYTES if max_bytes is None else max_bytes) - shipment.bytes
        most = max(0, min(step or self._session.limits.claim_rows, limit - len(row.seqs)) if budget > 0 else 0)
        # A shipment is not read by its claim, so what may be read at once does not limit it.
        terms = ClaimTerms(limits.SHIPPED, 2 * limits.SHIPMENT_BYTES, budget=budget, has_some=bool(row.seqs))
        claimed = claim(self._session, found, most, now, terms) if most else Claimed([])
        messages = claimed.messages
        taken = sum(len(message.body) for message in messages)
        row = replace(row, seqs=tuple(sorted((*row.seqs, *(message.seq for message in messages)))))
        is_whole = (len(messages) < most and not claimed.more) or len(row.seqs) >= limit or taken >= budget
        if is_whole and not row.seqs:
            self._forget(row)
            return None
        return self._put(
            row,
            replace(
                shipment,
                state=ShipmentState.OPEN if is_whole else ShipmentState.GATHERING,
                messages=len(row.seqs),
                bytes=shipment.bytes + taken,
                until=now + hold_ms,
            ),
        )

    def find(self, ref: ShipmentRef, now: int) -> Shipment | None:
        row = self._known(self._session.queue(ref.queue).number, ref, now)
        return None if row is None else row.shipment

    def list(
        self, queue: str, consumer: str | None, after: int, limit: int, now: int, after_consumer: str = ""
    ) -> Sequence[Shipment]:
        number = self._session.queue(queue).number
        rows = [row for key, row in sorted(self._tables.shipments.items()) if key[0] == number]
        rows = [row for row in rows if not self._is_old(row, now)]
        shipments = [row.shipment for row in rows if consumer in (None, row.shipment.consumer)]
        wanted = [it for it in shipments if it.number > after and (consumer or it.consumer > after_consumer)]
        return wanted[:limit]

    def list_open(self, queue: str, limit: int) -> Sequence[Shipment]:
        number = self._session.queue(queue).number
        shipments = [row.shipment for key, row in sorted(self._tables.shipments.items()) if key[0] == number]
        return [shipment for shipment in shipments if shipment.state in _NOT_ENDED][:limit]

    def count_open(self, limit: int) -> int:
        states = [row.shipment.state for row in self._tables.shipments.values()]
        return min(limit, sum(state in _NOT_ENDED for state in states))

    def read(self, ref: ShipmentRef, start: int, limit: int, now: int) -> Sequence[Message]:
        found = self._session.queue(ref.queue)
        row = self._found(ref, now)
        state = row.shipment.state
        if state is ShipmentState.GATHERING:
            raise ShipmentConflict(ref)
        if row.shipment.ended_at is not None and not (row.readable and self._is_kept(row, now)):
            raise ShipmentEnded(ref, state)
        kept = {message.seq: message for message in row.kept}
        messages: list[Message] = []
        room = self._session.limits.page_bytes
        for seq in row.seqs[start : start + limit]:
            message = kept.get(seq) or self._tables.messages.get(seq)
            if message is None:
                raise ShipmentEnded(ref, "purged" if state is ShipmentState.OPEN else state)
            messages.append(self._session.message(found, message))
            room -= message.size
            if room <= 0:
                break
        return messages

    def settle(self, ref: ShipmentRef, now: int, limit: int, keep: bool = False, stored_in: str | None = None) -> int:
        row = self._found(ref, now)
        state = row.shipment.state
        if state is ShipmentState.GATHERING:
            raise ShipmentConflict(ref)
        if state not in (ShipmentState.OPEN, ShipmentState.SETTLED):
            raise ShipmentEnded(ref, state)
        if state is ShipmentState.OPEN:
            said = replace(row.shipment, stored_in=stored_in)
            row = self._decide(replace(row, readable=keep, shipment=said), ShipmentState.SETTLED, now)
        former = [
            one for one in self._of_consumer(row.queue, ref.consumer) if one.shipment.state is ShipmentState.SETTLED
        ]
        for one in former:
            if one.shipment.number < ref.number:
                self._free(one, limit)
        return self._go_on_ending(row, now, limit)

    def release(self, ref: ShipmentRef, now: int, limit: int) -> int:
        row = self._found(ref, now)
        if row.shipment.state is ShipmentState.SETTLED:
            raise ShipmentEnded(ref, row.shipment.state)
        if row.shipment.state in _NOT_ENDED:
            row = self._decide(row, ShipmentState.RELEASED, now)
        return self._go_on_ending(row, now, limit)

    def beat(self, ref: ShipmentRef, now: int, hold_ms: int) -> Shipment:
        row = self._found(ref, now)
        if row.shipment.state not in _NOT_ENDED:
            raise ShipmentEnded(ref, row.shipment.state)
        return self._put(row, replace(row.shipment, until=now + hold_ms))

    def sweep(self, now: int, limit: int) -> int:
        freed = 0
        for row in [row for _, row in sorted(self._tables.shipments.items())]:
            if freed < limit:
                freed += self._tend(row, now, limit - freed)
        return freed

    def _tend(self, row: ShipmentRow, now: int, limit: int) -> int:
        if self._tables.queues[row.queue].deleted:
            freed = self._free(row, limit)
            return freed + self._forget(row) if freed < limit else freed
        if row.shipment.state in _NOT_ENDED and row.shipment.until < now:
            row = self._decide(row, ShipmentState.LOST, now)
        ended_at = row.shipment.ended_at
        if ended_at is None:
            return 0
        if row.cleared < len(row.seqs):
            return self._go_on_ending(row, now, limit)
        if row.kept and not (row.readable and self._is_kept(row, now)):
            return self._free(row, limit)
        return self._forget(row) if self._is_old(row, now) else 0

    def _is_kept(self, row: ShipmentRow, now: int) -> bool:
        ended_at = row.shipment.ended_at
        return ended_at is not None and ended_at >= now - self._session.limits.shipment_kept_ms

    def _is_old(self, row: ShipmentRow, now: int) -> bool:
        """The latest of a consumer says which number is next."""
        ended_at = row.shipment.ended_at
        if ended_at is None:
            return False
        is_latest = self._of_consumer(row.queue, row.shipment.consumer)[-1] is row
        return not is_latest and ended_at < now - self._session.limits.shipment_remembered_ms

    def _free(self, row: ShipmentRow, limit: int) -> int:
        kept = row.kept[limit:]
        self._put(replace(row, readable=False, kept=kept), row.shipment)
        return len(row.kept) - len(kept)

    def _forget(self, row: ShipmentRow) -> int:
        key = row.queue, row.shipment.consumer, row.shipment.number
        self._tables.replace("shipments", {k: v for k, v in self._tables.shipments.items() if k != key})
        return 1

    def _decide(self, row: ShipmentRow, state: ShipmentState, now: int) -> ShipmentRow:
        self._put(row, replace(row.shipment, state=state, ended_at=now))
        return self._tables.shipments[row.queue, row.shipment.consumer, row.shipment.number]

    def _go_on_ending(self, row: ShipmentRow, now: int, limit: int) -> int:
        done, cleared, kept = 0, row.cleared, row.kept
        while limit > 0 and not done and cleared < len(row.seqs):
            found = map(self._tables.messages.get, row.seqs[cleared : cleared + limit])
            for message in [message for message in found if message is not None]:
                done += 1
                if row.shipment.state is not ShipmentState.SETTLED:
                    self._session.make_ready(message)
                    continue
                self._tables.depart(message, Outcome.PROCESSED, now)
                kept = (*kept, message) if row.readable else kept
            cleared = min(cleared + limit, len(row.seqs))
        self._session.mend_lines(now)
        self._put(replace(row, cleared=cleared, kept=kept), row.shipment)
        return done

    def _of_consumer(self, queue: int, consumer: str) -> Sequence[ShipmentRow]:
        shipments = sorted(self._tables.shipments.items())
        return [row for (number, name, _), row in shipments if (number, name) == (queue, consumer)]

    def _known(self, queue: int, ref: ShipmentRef, now: int) -> ShipmentRow | None:
        row = self._tables.shipments.get((queue, ref.consumer, ref.number))
        return None if row is None or self._is_old(row, now) else row

    def _found(self, ref: ShipmentRef, now: int) -> ShipmentRow:
        row = self._known(self._session.queue(ref.queue).number, ref, now)
        if row is None:
            raise ShipmentNotFound(ref)
        return row

    def _put(self, row: ShipmentRow, shipment: Shipment) -> Shipment:
        key = row.queue, shipment.consumer, shipment.number
        self._tables.replace("shipments", {**self._tables.shipments, key: replace(row, shipment=shipment)})
        return shipment
