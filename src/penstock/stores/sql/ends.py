"""How a shipment ends: decided in one unit, by its state, and carried out in as many as it takes.

Settled messages are finished, released and lost ones ready again. Those of a shipment that is kept have left their
queue as well, but their rows stay for a while, with a queue that nobody looks into: the shipment's own id, below zero.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from penstock import limits
from penstock.model import Outcome, Queue, Shipment, ShipmentState
from penstock.stores.sql import runs
from penstock.stores.sql.engine import Row
from penstock.stores.sql.runs import Run
from penstock.stores.sql.session import Session

COLUMNS = "id, queue, consumer, number, state, messages, bytes, cleared, kept, claimed_at, until, ended_at"
NOT_ENDED = (ShipmentState.GATHERING, ShipmentState.OPEN)
# What `kept` says.
READABLE, BEING_FREED = 1, 2
# The sum keeps a database from reading the queue instead of the messages that another condition names.
SHIPPED = f"ready_at = {limits.SHIPPED} AND queue + 0"
AT_ONCE = 0
# Shipments that one sweep looks at.
_SWEEP_SHIPMENTS = 256


class ShipmentRow(Struct, frozen=True):
    id: int
    queue: int
    consumer: str
    number: int
    state: ShipmentState
    messages: int
    bytes: int
    cleared: int
    kept: int
    claimed_at: int
    until: int
    ended_at: int | None

    def shown(self, queue: Queue) -> Shipment:
        return Shipment(
            queue.name,
            self.consumer,
            self.number,
            self.state,
            self.messages,
            self.bytes,
            self.claimed_at,
            self.until,
            self.ended_at,
        )


def row_of(row: Row) -> ShipmentRow:
    shipment, queue, consumer, number, state, *others = row
    messages, size, cleared, kept, claimed_at, until, ended_at = others
    return ShipmentRow(
        shipment,
        queue,
        consumer,
        number,
        ShipmentState(state),
        messages,
        size,
        cleared,
        kept,
        claimed_at,
        until,
        ended_at,
    )


def runs_of(session: Session, row: ShipmentRow) -> list[Run]:
    return runs.decode(session.scalar("SELECT runs FROM shipment WHERE id = ?", (row.id,)))


def decide(session: Session, row: ShipmentRow, state: ShipmentState, now: int, kept: int = 0) -> ShipmentRow:
    session.engine.run(
        "UPDATE shipment SET state = ?, ended_at = ?, kept = ?, due_at = ? WHERE id = ?",
        (state.value, now, kept, AT_ONCE, row.id),
    )
    return replace(row, state=state, ended_at=now, kept=kept)


def free_former(session: Session, row: ShipmentRow, now: int, limit: int) -> None:
    """Of a consumer's shipments only the last one that was settled is kept."""
    engine = session.engine
    former = engine.rows(
        f"""SELECT {COLUMNS} FROM shipment WHERE queue = ? AND consumer = ? AND number < ? AND state = ?
            ORDER BY number DESC LIMIT 1 {engine.lock}""",
        (row.queue, row.consumer, row.number, ShipmentState.SETTLED.value),
    )
    for kept in map(row_of, former):
        if kept.kept:
            _free(session, kept, now, limit)


def go_on_ending(session: Session, row: ShipmentRow, now: int, limit: int) -> int:
    """Deal with up to `limit` messages of a shipment that has ended, and say how many there were. Some of them may have
    left by a purge, so a step may find none where another one does."""
    if row.cleared >= row.messages or limit <= 0:
        return 0
    which = runs_of(session, row)
    cleared, done = row.cleared, 0
    while cleared < row.messages and not done:
        step = min(limit, row.messages - cleared)
        done = _end_some(session, row, runs.part(which, cleared, step), now)
        cleared += step
    session.engine.run("UPDATE shipment SET cleared = ? WHERE id = ?", (cleared, row.id))
    if cleared >= row.messages:
        _is_finished(session, row, now)
    return done


def _is_finished(session: Session, row: ShipmentRow, now: int) -> None:
    ended_at = now if row.ended_at is None else row.ended_at
    if row.kept == READABLE:
        session.engine.run("UPDATE shipment SET due_at = ? WHERE id = ?", (ended_at + limits.SHIPMENT_KEPT_MS, row.id))
    elif not row.kept:
        session.engine.run(
            "UPDATE shipment SET kept = 0, due_at = ?, runs = '[]' WHERE id = ?",
            (ended_at + limits.SHIPMENT_REMEMBERED_MS, row.id),
        )


def _end_some(session: Session, row: ShipmentRow, which: list[Run], now: int) -> int:
    engine = session.engine
    done = 0
    for _, where, params in runs.conditions(engine, which):
        mine, params = f"{where} AND {SHIPPED} = ?", (*params, row.queue)
        if engine.shared:
            engine.rows(f"SELECT seq FROM message WHERE {mine} ORDER BY seq {engine.lock}", params)
        if row.state is not ShipmentState.SETTLED:
            done += engine.run(f"UPDATE message SET ready_at = 0 WHERE {mine}", params)
            continue
        session.record_where(mine, params, Outcome.PROCESSED, now)
        if row.kept == READABLE:
            done += engine.run(f"UPDATE message SET queue = ? WHERE {mine}", (-row.id, *params))
        else:
            done += engine.run(f"DELETE FROM message WHERE {mine}", params)
    if row.state is ShipmentState.SETTLED:
        session.departed(row.queue, done)
    elif done:
        session.look_everywhere()
        name = session.queue_name(row.queue)
        if name is not None:
            session.stirred.add(name)
    return done


def sweep_shipments(session: Session, now: int, limit: int) -> int:
    """Whatever is due: those without a sign of life are lost, ends go on, and what is old is forgotten."""
    engine = session.engine
    # Mostly there is none, and a look takes no locks.
    due = engine.rows("SELECT id FROM shipment WHERE due_at < ? ORDER BY due_at LIMIT ?", (now, _SWEEP_SHIPMENTS))
    freed = 0
    for (shipment,) in due:
        if freed >= limit:
            break
        rows = engine.rows(
            f"SELECT {COLUMNS} FROM shipment WHERE id = ? AND due_at < ? {engine.lock_free}", (shipment, now)
        )
        for row in map(row_of, rows):
            freed += _tend(session, row, now, limit - freed)
    return freed


def _tend(session: Session, row: ShipmentRow, now: int, limit: int) -> int:
    if session.queue_name(row.queue) is None:
        return _go_with_queue(session, row, limit)
    if row.state in NOT_ENDED:
        row = decide(session, row, ShipmentState.LOST, now)
    if row.cleared < row.messages:
        return go_on_ending(session, row, now, limit)
    return _free(session, row, now, limit) if row.kept else _forget(session, row, now)


def _go_with_queue(session: Session, row: ShipmentRow, limit: int) -> int:
    freed = _delete_kept(session, row, limit)
    if freed < limit:
        freed += session.engine.run("DELETE FROM shipment WHERE id = ?", (row.id,))
    return freed


def _free(session: Session, row: ShipmentRow, now: int, limit: int) -> int:
    """The messages of a shipment that can no longer be read."""
    freed = _delete_kept(session, row, limit)
    if freed < limit and row.cleared >= row.messages:
        _is_finished(session, replace(row, kept=0), now)
    else:
        session.engine.run("UPDATE shipment SET kept = ?, due_at = ? WHERE id = ?", (BEING_FREED, AT_ONCE, row.id))
    return freed


def _delete_kept(session: Session, row: ShipmentRow, limit: int) -> int:
    engine = session.engine
    kept = engine.rows(f"SELECT seq FROM {engine.walk} WHERE queue = ? LIMIT ?", (-row.id, limit))
    if kept:
        engine.run(f"DELETE FROM message WHERE {engine.among('seq')}", (engine.listed(seq for (seq,) in kept),))
    return len(kept)


def _forget(session: Session, row: ShipmentRow, now: int) -> int:
    """The latest of a consumer says which number is next."""
    engine = session.engine
    is_latest = not engine.rows(
        "SELECT 1 FROM shipment WHERE queue = ? AND consumer = ? AND number > ? LIMIT 1",
        (row.queue, row.consumer, row.number),
    )
    if is_latest:
        engine.run("UPDATE shipment SET due_at = ? WHERE id = ?", (now + limits.SHIPMENT_REMEMBERED_MS, row.id))
        return 0
    return engine.run("DELETE FROM shipment WHERE id = ?", (row.id,))
