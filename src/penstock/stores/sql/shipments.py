"""Shipments: messages that one named consumer claims, reads as often as it likes, and ends together.

Its row says which messages they are; theirs only say that they are in one. Whoever changes a shipment has locked its
row first, messages after that.
"""

from __future__ import annotations

from penstock import limits
from penstock.errors import ShipmentConflict, ShipmentEnded, ShipmentNotFound
from penstock.model import Message, Queue, Shipment, ShipmentState
from penstock.stores.sql import runs
from penstock.stores.sql.claims import ClaimVerbs, Manner
from penstock.stores.sql.ends import (
    COLUMNS,
    NOT_ENDED,
    READABLE,
    SHIPPED,
    ShipmentRow,
    decide,
    free_former,
    go_on_ending,
    row_of,
    runs_of,
)
from penstock.stores.sql.session import MESSAGE_COLUMNS
from penstock.stores.turns import check_turn


class ShipmentVerbs(ClaimVerbs):
    def claim_shipment(
        self, queue: str, consumer: str, number: int, limit: int, now: int, hold_ms: int
    ) -> Shipment | None:
        found = self.session.queue(queue)
        # Else two servers make the same shipment at once.
        self.session.take_turn(found.number)
        row = self._find(found, consumer, number, self.session.engine.lock)
        if row is None:
            last = self._latest(found, consumer)
            check_turn(consumer, number, last.number if last else 0, last is not None and last.state in NOT_ENDED)
        elif row.state not in NOT_ENDED:
            raise ShipmentEnded(consumer, number, row.state)
        until = now + hold_ms
        if row is not None and row.state is ShipmentState.OPEN:
            self._last_until(row, max(row.until, until))
        elif not self._gather(found, consumer, number, row, limit, now, until):
            return None
        return self._demand(found, consumer, number).shown(found)

    def _gather(
        self, queue: Queue, consumer: str, number: int, row: ShipmentRow | None, limit: int, now: int, until: int
    ) -> bool:
        """Claim one unit's worth of messages. False, and no shipment, where nothing at all is ready."""
        engine = self.session.engine
        messages, size = (row.messages, row.bytes) if row else (0, 0)
        step = max(0, min(limits.CLAIM_ROWS, limit - messages))
        taken, more = self.take(queue, step, now, Manner(limits.SHIPPED, reads=False)) if step else ([], False)
        messages += len(taken)
        size += sum([message[1] for message in taken])
        is_whole = messages >= limit or (len(taken) < step and not more)
        if is_whole and not messages:
            if row is not None:
                engine.run("DELETE FROM shipment WHERE id = ?", (row.id,))
            return False
        state = ShipmentState.OPEN if is_whole else ShipmentState.GATHERING
        found = runs.runs_of(sorted([message[0] for message in taken]))
        if row is None:
            engine.run(
                """INSERT INTO shipment (queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at,
                                         until, due_at, runs)
                   VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?, ?)""",
                (queue.number, consumer, number, state.value, messages, size, now, until, until, runs.encode(found)),
            )
            return True
        engine.run(
            "UPDATE shipment SET state = ?, messages = ?, bytes = ?, until = ?, due_at = ?, runs = ? WHERE id = ?",
            (
                state.value,
                messages,
                size,
                until,
                until,
                runs.encode(runs.merged(runs_of(self.session, row), found)),
                row.id,
            ),
        )
        return True

    def find_shipment(self, queue: str, consumer: str, number: int) -> Shipment | None:
        found = self.session.queue(queue)
        row = self._find(found, consumer, number)
        return None if row is None else row.shown(found)

    def list_shipments(self, queue: str, consumer: str | None, after: int, limit: int) -> list[Shipment]:
        found = self.session.queue(queue)
        whose, params = ("", ()) if consumer is None else (" AND consumer = ?", (consumer,))
        rows = self.session.engine.rows(
            f"""SELECT {COLUMNS} FROM shipment WHERE queue = ?{whose} AND number > ?
                ORDER BY queue, consumer, number LIMIT ?""",
            (found.number, *params, after, limit),
        )
        return [row_of(row).shown(found) for row in rows]

    def read_shipment(self, queue: str, consumer: str, number: int, start: int, limit: int) -> list[Message]:
        found = self.session.queue(queue)
        row = self._demand(found, consumer, number)
        if row.state is ShipmentState.GATHERING:
            raise ShipmentConflict(consumer, number, number)
        if row.state is not ShipmentState.OPEN and row.kept != READABLE:
            raise ShipmentEnded(consumer, number, row.state)
        engine = self.session.engine
        room = limits.CLAIM_BYTES
        messages: list[Message] = []
        for which, where, params in runs.conditions(engine, runs.part(runs_of(self.session, row), start, limit)):
            rows = engine.rows_within(
                f"SELECT {MESSAGE_COLUMNS} FROM message WHERE {where} AND {SHIPPED} IN (?, ?) ORDER BY seq",
                (*params, row.queue, -row.id),
                room,
            )
            messages += self.session.messages(found.name, rows)
            room -= sum([len(message[1]) for message in rows])
            expected = runs.numbers_of(which)
            # Of these numbers and in their order: if the last one stands where it should, none is missing before it.
            if not rows or rows[-1][0] != expected[len(rows) - 1] or (len(rows) < len(expected) and room > 0):
                raise ShipmentEnded(consumer, number, "purged" if row.state is ShipmentState.OPEN else row.state)
            if room <= 0:
                break
        return messages

    def settle_shipment(self, queue: str, consumer: str, number: int, now: int, limit: int, keep: bool = False) -> int:
        found = self.session.queue(queue)
        row = self._demand(found, consumer, number, self.session.engine.lock)
        if row.state is ShipmentState.GATHERING:
            raise ShipmentConflict(consumer, number, number)
        if row.state not in (ShipmentState.OPEN, ShipmentState.SETTLED):
            raise ShipmentEnded(consumer, number, row.state)
        if row.state is ShipmentState.OPEN:
            row = decide(self.session, row, ShipmentState.SETTLED, now, READABLE if keep else 0)
        free_former(self.session, row, now, limit)
        return go_on_ending(self.session, row, now, limit)

    def release_shipment(self, queue: str, consumer: str, number: int, now: int, limit: int) -> int:
        found = self.session.queue(queue)
        row = self._demand(found, consumer, number, self.session.engine.lock)
        if row.state is ShipmentState.SETTLED:
            raise ShipmentEnded(consumer, number, row.state)
        if row.state in NOT_ENDED:
            row = decide(self.session, row, ShipmentState.RELEASED, now)
        return go_on_ending(self.session, row, now, limit)

    def beat_shipment(self, queue: str, consumer: str, number: int, now: int, hold_ms: int) -> Shipment:
        found = self.session.queue(queue)
        row = self._demand(found, consumer, number, self.session.engine.lock)
        if row.state not in NOT_ENDED:
            raise ShipmentEnded(consumer, number, row.state)
        self._last_until(row, now + hold_ms)
        return self._demand(found, consumer, number).shown(found)

    def _find(self, queue: Queue, consumer: str, number: int, lock: str = "") -> ShipmentRow | None:
        rows = self.session.engine.rows(
            f"SELECT {COLUMNS} FROM shipment WHERE queue = ? AND consumer = ? AND number = ? {lock}",
            (queue.number, consumer, number),
        )
        return row_of(rows[0]) if rows else None

    def _demand(self, queue: Queue, consumer: str, number: int, lock: str = "") -> ShipmentRow:
        row = self._find(queue, consumer, number, lock)
        if row is None:
            raise ShipmentNotFound(consumer, number)
        return row

    def _latest(self, queue: Queue, consumer: str) -> ShipmentRow | None:
        rows = self.session.engine.rows(
            f"SELECT {COLUMNS} FROM shipment WHERE queue = ? AND consumer = ? ORDER BY number DESC LIMIT 1",
            (queue.number, consumer),
        )
        return row_of(rows[0]) if rows else None

    def _last_until(self, row: ShipmentRow, until: int) -> None:
        self.session.engine.run("UPDATE shipment SET until = ?, due_at = ? WHERE id = ?", (until, until, row.id))
