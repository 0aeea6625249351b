"""How twins collapse: those of one claim in as many units as it takes.

A message may have a million twins. A unit finishes at most a step of them, and what is left is noted in a row of
`collapse`: the twins with this key up to a sequence number, none of which is handed out any more. Later claims of the
queue and the sweep go on with them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from penstock import limits
from penstock.model import Outcome, Queue
from penstock.stores.sql.session import Session

_COLUMNS = ("queue", "dedup_key", "through")
# Keys of a queue, and queues, that one unit goes on with.
_KEYS = 100
_QUEUES = 100


def collapse(session: Session, queue: Queue, seen: Sequence[int], delivered: Collection[int], now: int) -> set[int]:
    """Of messages with one key that nobody has received yet, only the oldest is handed out; returns what has collapsed.

    Twins of what is to be `delivered` are found by their key, wherever in the queue they are. A message that was
    handed out before keeps to itself: its holder may be working on it, and a later twin may carry news.
    """
    engine = session.engine
    rows = engine.rows(
        f"""SELECT m.seq, m.dedup_key, m.receives, c.through FROM message AS m
            LEFT JOIN collapse AS c ON c.queue = m.queue AND c.dedup_key = m.dedup_key
            WHERE {engine.among("m.seq")} ORDER BY m.seq""",
        (engine.listed(seen),),
    )
    oldest: dict[bytes, int] = {}
    twins: set[int] = set()
    for seq, key, receives, doomed_through in rows:
        if receives or key is None:
            continue
        if key in oldest or (doomed_through is not None and seq <= doomed_through):
            twins.add(seq)
        elif seq in delivered:
            oldest[key] = seq
    # The plus sign keeps the planner from walking all ready messages for each twin: their key is what finds them.
    behind = engine.rows(
        f"""SELECT t.seq FROM message AS m JOIN message AS t
                ON t.queue = m.queue AND t.dedup_key = m.dedup_key AND t.seq > m.seq
            WHERE {engine.among("m.seq")} AND t.receives = 0 AND +t.ready_at = 0 LIMIT ?""",
        (engine.listed(oldest.values()), limits.STEP_ROWS),
    )
    twins.update(seq for (seq,) in behind)
    if len(behind) == limits.STEP_ROWS:
        _note(session, queue.number, oldest)
    return set(_finish(session, queue.number, sorted(twins), now))


def go_on(session: Session, queue: int, now: int, limit: int) -> int:
    """Finish up to `limit` of the twins that earlier units have left, and say how many. The queue's turn is ours."""
    engine = session.engine
    finished = 0
    noted = engine.rows(
        "SELECT dedup_key, through FROM collapse WHERE queue = ? ORDER BY dedup_key LIMIT ?", (queue, _KEYS)
    )
    for key, through in noted:
        room = limit - finished
        if room <= 0:
            break
        twins = engine.rows(
            """SELECT seq FROM message WHERE queue = ? AND dedup_key = ? AND seq <= ? AND receives = 0
               AND +ready_at = 0 LIMIT ?""",
            (queue, key, through, room),
        )
        finished += len(_finish(session, queue, sorted(seq for (seq,) in twins), now))
        if len(twins) < room:
            engine.run("DELETE FROM collapse WHERE queue = ? AND dedup_key = ?", (queue, key))
    return finished


def sweep(session: Session, now: int, limit: int) -> int:
    engine = session.engine
    finished = 0
    for (queue,) in engine.rows("SELECT DISTINCT queue FROM collapse ORDER BY queue LIMIT ?", (_QUEUES,)):
        if finished < limit:
            session.take_turn(queue)
            finished += go_on(session, queue, now, limit - finished)
    return finished


def spare(session: Session, seqs: Sequence[int]) -> None:
    """What has come into a queue after its twins were handed out is not one of those that still have to collapse."""
    session.engine.run(
        f"""UPDATE message SET dedup_key = NULL WHERE {session.engine.among("seq")} AND EXISTS (
                SELECT 1 FROM collapse AS c
                WHERE c.queue = message.queue AND c.dedup_key = message.dedup_key AND c.through >= message.seq)""",
        (session.engine.listed(seqs),),
    )


def _note(session: Session, queue: int, keys: Collection[bytes]) -> None:
    through = session.engine.last_seq()
    for key in sorted(keys):
        if not session.engine.add("collapse", _COLUMNS, (queue, key, through)):
            session.engine.run(
                "UPDATE collapse SET through = ? WHERE queue = ? AND dedup_key = ?", (through, queue, key)
            )


def _finish(session: Session, queue: int, seqs: Sequence[int], now: int) -> list[int]:
    collapsed = session.lock_ready(seqs)
    session.finish(queue, collapsed, Outcome.COLLAPSED, now)
    return collapsed
