"""What the sweep does about deleted queues: their messages first, and their rows once nothing names them any more."""

from __future__ import annotations

from collections.abc import Callable

from penstock import limits
from penstock.stores.sql.session import Session

# When the sweep looks again at a queue that something still names. No unit lasts that long: whoever had found the
# queue before it was deleted has put its messages there by then.
_LOOK_AGAIN_MS = 60 * 60 * 1000
_NAMED_BY = ("ledger", "shipment", "consumer", "sending", "collapse")


def sweep(session: Session, now: int, limit: int, purge: Callable[[int, int], int]) -> int:
    """`purge` finishes messages of a queue by its number, up to a limit, and says how many."""
    due = session.engine.rows(
        "SELECT number, deleted_at FROM queue WHERE due_at <= ? ORDER BY due_at, number LIMIT ?",
        (now, limits.SWEEP_QUEUES),
    )
    freed = 0
    for number, deleted_at in due:
        room = limit - freed
        if room <= 0:
            break
        purged = purge(number, room)
        freed += purged
        if purged < room:
            _forget(session, number, deleted_at, now)
    return freed


def _forget(session: Session, number: int, deleted_at: int, now: int) -> None:
    """The number of the latest queue stays known, because the next one counts on from there."""
    engine = session.engine
    last = session.scalar("SELECT max(number) FROM queue")
    is_named = any(engine.rows(f"SELECT 1 FROM {table} WHERE queue = ? LIMIT 1", (number,)) for table in _NAMED_BY)
    if is_named or number == last or deleted_at > now - _LOOK_AGAIN_MS:
        engine.run("UPDATE queue SET due_at = ? WHERE number = ?", (now + _LOOK_AGAIN_MS, number))
        return
    engine.run("DELETE FROM tally WHERE queue = ?", (number,))
    engine.run("DELETE FROM queue WHERE number = ?", (number,))
