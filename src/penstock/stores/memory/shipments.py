"""Shipments. The messages of one that is kept stand with it, where no other verb looks."""

from __future__ import annotations

from msgspec.structs import replace

from penstock import limits
from penstock.errors import ShipmentConflict, ShipmentEnded, ShipmentNotFound
from penstock.model import Claimed, Message, Outcome, Queue, Shipment, ShipmentState
from penstock.stores.memory.state import MessageRow, ShipmentRow, State
from penstock.stores.turns import check_turn

_NOT_ENDED = (ShipmentState.GATHERING, ShipmentState.OPEN)


class ShipmentVerbs:
    _state: State

    def _queue(self, name: str) -> Queue:
        raise NotImplementedError

    def _claim(self, found: Queue, limit: int, now: int, until: int, room: int) -> Claimed:
        raise NotImplementedError

    def _make_ready(self, row: MessageRow) -> None:
        raise NotImplementedError

    def _message(self, queue: Queue, row: MessageRow) -> Message:
        raise NotImplementedError

    def claim_shipment(
        self, queue: str, consumer: str, number: int, limit: int, now: int, hold_ms: int
    ) -> Shipment | None:
        found = self._queue(queue)
        row = self._state.shipments.get((found.number, consumer, number))
        if row is None:
            own = self._of_consumer(found.number, consumer)
            last = own[-1].shipment if own else None
            check_turn(consumer, number, last.number if last else 0, last is not None and last.state in _NOT_ENDED)
            row = ShipmentRow(
                found.number, Shipment(queue, consumer, number, ShipmentState.GATHERING, 0, 0, now, now + hold_ms)
            )
        shipment = row.shipment
        if shipment.state not in _NOT_ENDED:
            raise ShipmentEnded(consumer, number, shipment.state)
        if shipment.state is ShipmentState.OPEN:
            return self._put(row, replace(shipment, until=max(shipment.until, now + hold_ms)))
        step = max(0, min(limits.CLAIM_ROWS, limit - len(row.seqs)))
        # A shipment is not read by its claim, so the size of its messages is no limit.
        messages = self._claim(found, step, now, limits.SHIPPED, limits.SHIPMENT_ROWS * limits.BODY_BYTES).messages
        row = replace(row, seqs=tuple(sorted((*row.seqs, *(message.seq for message in messages)))))
        is_whole = len(messages) < step or len(row.seqs) >= limit
        if is_whole and not row.seqs:
            return None
        return self._put(
            row,
            replace(
                shipment,
                state=ShipmentState.OPEN if is_whole else ShipmentState.GATHERING,
                messages=len(row.seqs),
                bytes=shipment.bytes + sum(len(message.body) for message in messages),
                until=now + hold_ms,
            ),
        )

    def find_shipment(self, queue: str, consumer: str, number: int) -> Shipment | None:
        row = self._state.shipments.get((self._queue(queue).number, consumer, number))
        return None if row is None else row.shipment

    def list_shipments(self, queue: str, consumer: str | None, after: int, limit: int) -> list[Shipment]:
        number = self._queue(queue).number
        rows = [row for key, row in sorted(self._state.shipments.items()) if key[0] == number]
        shipments = [row.shipment for row in rows if consumer in (None, row.shipment.consumer)]
        return [shipment for shipment in shipments if shipment.number > after][:limit]

    def read_shipment(self, queue: str, consumer: str, number: int, start: int, limit: int) -> list[Message]:
        found = self._queue(queue)
        row = self._shipment(queue, consumer, number)
        state = row.shipment.state
        if state is ShipmentState.GATHERING:
            raise ShipmentConflict(consumer, number, number)
        if state is not ShipmentState.OPEN and not row.readable:
            raise ShipmentEnded(consumer, number, state)
        kept = {message.seq: message for message in row.kept}
        messages: list[Message] = []
        room = limits.CLAIM_BYTES
        for seq in row.seqs[start : start + limit]:
            message = kept.get(seq) or self._state.messages.get(seq)
            if message is None:
                raise ShipmentEnded(consumer, number, "purged" if state is ShipmentState.OPEN else state)
            messages.append(self._message(found, message))
            room -= len(message.draft.body)
            if room <= 0:
                break
        return messages

    def settle_shipment(self, queue: str, consumer: str, number: int, now: int, limit: int, keep: bool = False) -> int:
        row = self._shipment(queue, consumer, number)
        state = row.shipment.state
        if state is ShipmentState.GATHERING:
            raise ShipmentConflict(consumer, number, number)
        if state not in (ShipmentState.OPEN, ShipmentState.SETTLED):
            raise ShipmentEnded(consumer, number, state)
        if state is ShipmentState.OPEN:
            row = self._decide(replace(row, readable=keep), ShipmentState.SETTLED, now)
        former = [one for one in self._of_consumer(row.queue, consumer) if one.shipment.state is ShipmentState.SETTLED]
        for one in former:
            if one.shipment.number < number:
                self._free(one, limit)
        return self._go_on_ending(row, now, limit)

    def release_shipment(self, queue: str, consumer: str, number: int, now: int, limit: int) -> int:
        row = self._shipment(queue, consumer, number)
        if row.shipment.state is ShipmentState.SETTLED:
            raise ShipmentEnded(consumer, number, row.shipment.state)
        if row.shipment.state in _NOT_ENDED:
            row = self._decide(row, ShipmentState.RELEASED, now)
        return self._go_on_ending(row, now, limit)

    def beat_shipment(self, queue: str, consumer: str, number: int, now: int, hold_ms: int) -> Shipment:
        row = self._shipment(queue, consumer, number)
        if row.shipment.state not in _NOT_ENDED:
            raise ShipmentEnded(consumer, number, row.shipment.state)
        return self._put(row, replace(row.shipment, until=now + hold_ms))

    def sweep_shipments(self, now: int, limit: int) -> int:
        freed = 0
        for row in [row for _, row in sorted(self._state.shipments.items())]:
            if freed < limit:
                freed += self._tend(row, now, limit - freed)
        return freed

    def _tend(self, row: ShipmentRow, now: int, limit: int) -> int:
        if self._state.queues[row.queue].deleted:
            freed = self._free(row, limit)
            return freed + self._forget(row) if freed < limit else freed
        if row.shipment.state in _NOT_ENDED and row.shipment.until < now:
            row = self._decide(row, ShipmentState.LOST, now)
        ended_at = row.shipment.ended_at
        if ended_at is None:
            return 0
        if row.cleared < len(row.seqs):
            return self._go_on_ending(row, now, limit)
        if row.kept and (not row.readable or ended_at < now - limits.SHIPMENT_KEPT_MS):
            return self._free(row, limit)
        return self._forget(row) if self._is_old(row, ended_at, now) else 0

    def _is_old(self, row: ShipmentRow, ended_at: int, now: int) -> bool:
        """The latest of a consumer says which number is next."""
        is_latest = self._of_consumer(row.queue, row.shipment.consumer)[-1] is row
        return not is_latest and ended_at < now - limits.SHIPMENT_REMEMBERED_MS

    def _free(self, row: ShipmentRow, limit: int) -> int:
        kept = row.kept[limit:]
        self._put(replace(row, readable=False, kept=kept), row.shipment)
        return len(row.kept) - len(kept)

    def _forget(self, row: ShipmentRow) -> int:
        key = row.queue, row.shipment.consumer, row.shipment.number
        self._state.replace("shipments", {k: v for k, v in self._state.shipments.items() if k != key})
        return 1

    def _decide(self, row: ShipmentRow, state: ShipmentState, now: int) -> ShipmentRow:
        self._put(row, replace(row.shipment, state=state, ended_at=now))
        return self._state.shipments[row.queue, row.shipment.consumer, row.shipment.number]

    def _go_on_ending(self, row: ShipmentRow, now: int, limit: int) -> int:
        done, cleared, kept = 0, row.cleared, row.kept
        while limit > 0 and not done and cleared < len(row.seqs):
            found = map(self._state.messages.get, row.seqs[cleared : cleared + limit])
            for message in [message for message in found if message is not None]:
                done += 1
                if row.shipment.state is not ShipmentState.SETTLED:
                    self._make_ready(message)
                    continue
                self._state.depart(message, Outcome.PROCESSED, now)
                kept = (*kept, message) if row.readable else kept
            cleared = min(cleared + limit, len(row.seqs))
        self._put(replace(row, cleared=cleared, kept=kept), row.shipment)
        return done

    def _of_consumer(self, queue: int, consumer: str) -> list[ShipmentRow]:
        shipments = sorted(self._state.shipments.items())
        return [row for (number, name, _), row in shipments if (number, name) == (queue, consumer)]

    def _shipment(self, queue: str, consumer: str, number: int) -> ShipmentRow:
        row = self._state.shipments.get((self._queue(queue).number, consumer, number))
        if row is None:
            raise ShipmentNotFound(consumer, number)
        return row

    def _put(self, row: ShipmentRow, shipment: Shipment) -> Shipment:
        key = row.queue, shipment.consumer, shipment.number
        self._state.replace("shipments", {**self._state.shipments, key: replace(row, shipment=shipment)})
        return shipment
