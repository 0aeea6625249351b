"""Twins: messages of one queue with the same dedup key.

A queue with `Dedup.SEND` stores no second one. One with `Dedup.CLAIM` stores them all, and they collapse: when one is
handed out, those behind it finish. A message may have a million twins. A unit finishes only so many of them, and what
is left is noted in a row of `collapse`: the twins with this key up to a sequence number, none of which is handed out
any more. Later claims of the queue and the sweep go on with them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from penstock import policy
from penstock.ids import body_hash, make_id
from penstock.model import Dedup, Draft, Outcome, Queue
from penstock.stores.sql.runs import at_once
from penstock.stores.sql.session import Session
from penstock.stores.sql.statements import ByRuns, by_runs

# Keys of a queue, and queues, that one unit goes on with.
_KEYS = 100
_QUEUES = 100


@dataclass(frozen=True, slots=True)
class TwinSql:
    # Not those that have collapsed and are only left to be finished, in a queue that had `Dedup.CLAIM` until now.
    with_key: str = """
        SELECT seq, sent_at FROM message WHERE queue = ? AND dedup_key = ? AND (
            receives > 0 OR seq > COALESCE((SELECT through FROM collapse WHERE queue = ? AND dedup_key = ?), 0))
        ORDER BY seq"""
    drop_key: str = "UPDATE message SET dedup_key = NULL WHERE seq = ?"
    keys: str = "SELECT seq, dedup_key, body_hash FROM message WHERE {among:seq} ORDER BY seq"
    own_keys: str = """
        SELECT seq, dedup_key, body_hash FROM message WHERE {among:seq} AND dedup_key IS NOT NULL ORDER BY seq"""
    set_key: str = "UPDATE message SET dedup_key = ? WHERE seq = ?"
    # Of messages that a claim has met; in a queue with notes, also how far the twins of each have collapsed.
    seen: ByRuns = by_runs("SELECT seq, dedup_key, receives, NULL FROM message WHERE {which} ORDER BY seq")
    seen_with_notes: str = """
        SELECT m.seq, m.dedup_key, m.receives, c.through FROM message AS m
        LEFT JOIN collapse AS c ON c.queue = m.queue AND c.dedup_key = m.dedup_key
        WHERE {among:m.seq} ORDER BY m.seq"""
    # The key of twins is what finds them. The plus sign keeps a planner from walking all ready messages for each, and
    # an order instead of equality keeps it from taking them for so few that it begins with them.
    behind: str = """
        SELECT t.seq FROM message AS m
        JOIN {by_key} ON t.queue = m.queue AND t.dedup_key = m.dedup_key AND t.seq > m.seq
        WHERE {among:m.seq} AND t.receives < 1 AND +t.ready_at < 1 LIMIT ?"""
    note: str = "INSERT INTO collapse (queue, dedup_key, through) VALUES (?, ?, ?) {unless_there}"
    note_again: str = "UPDATE collapse SET through = ? WHERE queue = ? AND dedup_key = ?"
    noted: str = "SELECT dedup_key, through FROM collapse WHERE queue = ? ORDER BY dedup_key LIMIT ?"
    left: str = """
        SELECT t.seq FROM {by_key} WHERE t.queue = ? AND t.dedup_key = ? AND t.seq <= ? AND t.receives = 0
        AND +t.ready_at = 0 LIMIT ?"""
    done: str = "DELETE FROM collapse WHERE queue = ? AND dedup_key = ?"
    queues: str = "SELECT DISTINCT queue FROM collapse ORDER BY queue LIMIT ?"
    spare: str = """
        UPDATE message SET dedup_key = NULL WHERE {among:seq} AND EXISTS (
            SELECT 1 FROM collapse AS c
            WHERE c.queue = message.queue AND c.dedup_key = message.dedup_key AND c.through >= message.seq)"""


class Twins:
    __slots__ = ("_session", "_sql")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.engine.statements.of(TwinSql)

    def find_of(self, queue: Queue, draft: Draft, now: int) -> str | None:
        """The id of the live message that has the same key as a draft."""
        return self.find(queue, policy.dedup_key(queue.settings, draft, body_hash(draft.body)), now)

    def find(self, queue: Queue, key: bytes | None, now: int) -> str | None:
        """The id of the live message with this key.

        One past its retention gives up its key instead of its life: its holder may still ack it.
        """
        if key is None:
            return None
        engine = self._session.engine
        for seq, sent_at in engine.rows(self._sql.with_key, (queue.number, key, queue.number, key)):
            if not policy.is_expired(queue.settings, now, sent_at):
                return make_id(self._session.origin, sent_at, seq)
            engine.run(self._sql.drop_key, (seq,))
        return None

    def leave_out(self, here: Queue, there: Queue, seqs: Sequence[int], outcome: Outcome, now: int) -> Sequence[int]:
        """Of messages that go from one queue to another, finish those whose key is there already, and give the others
        the key they need there."""
        session = self._session
        asks = policy.keeps_keys(there.settings)
        keys = session.engine.rows(self._sql.keys if asks else self._sql.own_keys, (session.engine.listed(seqs),))
        if there.settings.dedup is Dedup.CLAIM:
            # Such a queue holds twins until one of them is claimed.
            session.engine.many(
                self._sql.set_key,
                [(policy.dedup_key_on_arrival(there.settings, key, hashed), seq) for seq, key, hashed in keys],
            )
            return seqs
        if not keys:
            return seqs
        twins: set[int] = set()
        held: set[bytes] = set()
        for seq, own_key, hashed in keys:
            key = policy.dedup_key_on_arrival(there.settings, own_key, hashed)
            if key is None:
                continue
            if key in held or self.find(there, key, now) is not None:
                twins.add(seq)
                continue
            held.add(key)
            if key != own_key:
                session.engine.run(self._sql.set_key, (key, seq))
        session.finish(here.number, sorted(twins), outcome, now)
        return [seq for seq in seqs if seq not in twins]

    # How they collapse

    def collapse(
        self, queue: Queue, seen: Sequence[int], delivered: Collection[int], now: int, has_notes: bool
    ) -> set[int]:
        """Of messages with one key that were never received, only the oldest is handed out; returns what has collapsed,
        even if not all of it is finished yet.

        Twins of what is to be `delivered` are found by their key, wherever in the queue they are. A message that was
        handed out before keeps to itself: its holder may be working on it, and a later twin may carry news.
        """
        engine = self._session.engine
        if has_notes:
            rows = engine.rows(self._sql.seen_with_notes, (engine.listed(seen),))
        else:
            statement, which = at_once(engine, self._sql.seen, seen)
            rows = engine.rows(statement, which)
        oldest: dict[bytes, int] = {}
        twins: set[int] = set()
        for seq, key, receives, doomed_through in rows:
            if receives or key is None:
                continue
            if key in oldest or (doomed_through is not None and seq <= doomed_through):
                twins.add(seq)
            elif seq in delivered:
                oldest[key] = seq
        # Where each has a twin or two, none is left over: to note their keys costs as much as to finish them.
        most = max(self._session.limits.collapse_rows, 2 * len(oldest))
        behind = engine.rows(self._sql.behind, (engine.listed(oldest.values()), most))
        twins.update([seq for (seq,) in behind])
        if len(behind) == most or len(twins) > most:
            self._note(queue.number, oldest)
        self._finish(queue.number, sorted(twins)[:most], now)
        return twins

    def is_left_over(self, seq: int) -> bool:
        """Whether a message has collapsed, and is only left to be finished."""
        engine = self._session.engine
        for _, key, receives, doomed_through in engine.rows(self._sql.seen_with_notes, (engine.listed([seq]),)):
            return key is not None and not receives and doomed_through is not None and seq <= doomed_through
        return False

    def go_on(self, queue: int, now: int, limit: int) -> tuple[int, bool]:
        """Finish up to `limit` of the twins that earlier units have left. How many, and whether some may still be left.
        The queue is locked."""
        engine = self._session.engine
        finished = done = 0
        noted = engine.rows(self._sql.noted, (queue, _KEYS))
        for key, through in noted:
            room = limit - finished
            if room <= 0:
                break
            twins = engine.rows(self._sql.left, (queue, key, through, room))
            finished += len(self._finish(queue, sorted(seq for (seq,) in twins), now))
            if len(twins) < room:
                engine.run(self._sql.done, (queue, key))
                done += 1
        return finished, done < len(noted) or len(noted) == _KEYS

    def sweep(self, now: int, limit: int) -> int:
        finished = 0
        for (queue,) in self._session.engine.rows(self._sql.queues, (_QUEUES,)):
            if finished < limit:
                self._session.lock_queue(queue)
                more, _ = self.go_on(queue, now, limit - finished)
                finished += more
        return finished

    def spare(self, seqs: Sequence[int]) -> None:
        """What has come into a queue after its twins were handed out is not one of those that still have to
        collapse."""
        self._session.engine.run(self._sql.spare, (self._session.engine.listed(seqs),))

    def _note(self, queue: int, keys: Collection[bytes]) -> None:
        engine = self._session.engine
        through = engine.last_seq()
        for key in sorted(keys):
            if not engine.add(self._sql.note, (queue, key, through)):
                engine.run(self._sql.note_again, (through, queue, key))

    def _finish(self, queue: int, seqs: Sequence[int], now: int) -> list[int]:
        collapsed = self._session.lock_ready(seqs)
        self._session.finish(queue, collapsed, Outcome.COLLAPSED, now)
        return collapsed
