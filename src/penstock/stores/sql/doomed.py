"""Twins that have collapsed but are still in the table, by their numbers.

To finish a twin is to write to three places wherever it stands, and twins stand all over the table. So a claim that
finds many of them only notes their numbers, in one row of `doomed`. No claim hands them out any more; the sweep
finishes them, the oldest first, because those stand close together. A database that others share cleans up its indexes
later by itself, and its claims make no notes: there are only those that were copied from a file.

A note is never changed: a process that has read it knows it for good, and a unit only has to look which notes there
are. What is gone from the table may still be in a note. A message that comes back to the queue must not be: then a new
note takes the place of the old one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from penstock.model import Outcome
from penstock.stores.sql import runs
from penstock.stores.sql.known_doomed import KnownDoomed
from penstock.stores.sql.session import Session


@dataclass(frozen=True, slots=True)
class DoomedSql:
    notes: str = "SELECT id FROM doomed WHERE queue = ? ORDER BY id"
    read: str = "SELECT id, runs FROM doomed WHERE {among:id} ORDER BY id"
    add: str = "INSERT INTO doomed (queue, runs) VALUES (?, ?)"
    last: str = "SELECT max(id) FROM doomed WHERE queue = ?"
    delete: str = "DELETE FROM doomed WHERE {among:id}"
    queues: str = "SELECT DISTINCT queue FROM doomed ORDER BY queue LIMIT ?"
    oldest_ready: str = "SELECT seq FROM {walk} WHERE queue = ? AND ready_at = 0 ORDER BY {age} LIMIT 1"
    # One that was renewed by its id keeps to itself. The sum keeps a database from reading the queue instead.
    still_ready: str = """
        SELECT seq FROM message WHERE {among:seq} AND queue + 0 = ? AND receives = 0 AND ready_at = 0
        ORDER BY seq {lock}"""


class Doomed:
    __slots__ = ("_session", "_sql")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.engine.statements.of(DoomedSql)

    def queues(self, limit: int) -> list[int]:
        return [queue for (queue,) in self._session.engine.rows(self._sql.queues, (limit,))]

    def look(self, queue: int) -> KnownDoomed | None:
        """The doomed of a queue, if any. The queue is locked, or they may be more soon."""
        engine = self._session.engine
        notes = [note for (note,) in engine.rows(self._sql.notes, (queue,))]
        if not notes:
            self._session.doomed.pop(queue, None)
            return None
        known = self._session.doomed.setdefault(queue, KnownDoomed())
        known.keep_only(notes)
        unread = [note for note in notes if note not in known.left]
        if unread:
            self._make_room(queue)
            self._read(queue, known, unread)
        return known

    def known(self, queue: int) -> KnownDoomed | None:
        """The same once this unit has looked."""
        return self._session.doomed.get(queue)

    def add(self, queue: int, seqs: Collection[int]) -> None:
        """The queue is locked, and none of these is among the doomed yet."""
        if not seqs:
            return
        self._make_room(queue)
        engine = self._session.engine
        ascending = sorted(seqs)
        engine.run(self._sql.add, (queue, runs.encode(runs.runs_of(ascending))))
        note = int(self._session.scalar(self._sql.last, (queue,)))
        self._session.doomed.setdefault(queue, KnownDoomed()).add(note, ascending)

    def finish(self, queue: int, seqs: Sequence[int], now: int) -> list[int]:
        """Of these doomed messages, finish those that still are; returns them."""
        engine = self._session.engine
        rows = engine.rows(self._sql.still_ready, (engine.listed(seqs), queue))
        finished = [seq for (seq,) in rows]
        self._session.finish(queue, finished, Outcome.COLLAPSED, now)
        self.strike(queue, seqs)
        if len(finished) < len(seqs):
            self._session.pass_over_nothing()  # one that was renewed may be ready again
        return finished

    def strike(self, queue: int, seqs: Iterable[int]) -> None:
        """These are gone, or were never doomed."""
        known = self._session.doomed.get(queue)
        if known is not None:
            self._delete(known.strike(seqs))

    def spare(self, queue: int, seqs: Collection[int]) -> None:
        """These have left the queue and come back. The queue is locked."""
        known = self.look(queue)
        if known is None:
            return
        for note in {known.seqs[seq] for seq in seqs if seq in known.seqs}:
            rest = {seq for seq, its_note in known.seqs.items() if its_note == note}.difference(seqs)
            self._delete([note])
            known.keep_only([other for other in known.left if other != note])
            self.add(queue, rest)

    def sweep(self, queue: int, now: int, limit: int) -> int:
        """Finish some of the doomed in a queue, and say how many. The queue is locked."""
        known = self.look(queue)
        while limit > 0 and known is not None and known.seqs:
            finished = self.finish(queue, known.oldest(limit), now)
            if finished:
                return len(finished)
            self._forget_gone(queue, known)
        return 0

    def _read(self, queue: int, known: KnownDoomed, notes: Sequence[int]) -> None:
        engine = self._session.engine
        for note, text in engine.rows(self._sql.read, (engine.listed(notes),)):
            known.add(note, runs.numbers_of(runs.decode(text)))
        self._forget_gone(queue, known)

    def _forget_gone(self, queue: int, known: KnownDoomed) -> None:
        """What stood before the oldest ready message is gone. A purge may have taken all of them."""
        oldest = self._session.engine.rows(self._sql.oldest_ready, (queue,))
        gone = [seq for seq in known.seqs if not oldest or seq < oldest[0][0]]
        self._delete(known.strike(gone))

    def _make_room(self, queue: int) -> None:
        """What many queues hold must not fill the memory: their notes are read again when they are claimed from."""
        doomed = self._session.doomed
        if sum(len(known.seqs) for known in doomed.values()) > self._session.limits.doomed_rows:
            for other in [number for number in doomed if number != queue]:
                del doomed[other]

    def _delete(self, notes: Collection[int]) -> None:
        if notes:
            self._session.engine.run(self._sql.delete, (self._session.engine.listed(notes),))
