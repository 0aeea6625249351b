"""Moves in the memory store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, takewhile

from msgspec.structs import replace

from penstock import limits, policy
from penstock.errors import MoveNotFound
from penstock.model import WHOLE, Actor, Dealing, Groups, Move, MoveStatus, MoveTerms, Outcome, PeekAfter, Queue
from penstock.stores import move_step
from penstock.stores.dealing import deal
from penstock.stores.memory.session import Session
from penstock.stores.memory.tables import MessageRow
from penstock.stores.move_step import Candidate, Content


class MemoryMoves:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._tables = session.tables

    def move(
        self,
        source: str,
        target: str,
        now: int,
        limit: int,
        through: int,
        claimed: bool = False,
        as_new: bool = False,
    ) -> int:
        here, there = self._session.queue(source), self._session.queue(target)
        if here == there:
            return 0
        if here.settings.groups is Groups.FIFO:
            self._session.promote(here, now)
            rows = chain(self._waiting(here, 1, 0), self._session.ready_or_behind(here))
        else:
            rows = chain(self._session.ready(here), self._waiting(here, 1, 0))
        free = (row for row in rows if claimed or not row.is_held(now))
        meant = islice((row for row in free if row.seq <= through), limit)
        return self.carry(here, there, [row.seq for row in meant], now, claimed, as_new)

    def start(
        self,
        move_id: str,
        source: str,
        target: str | None,
        now: int,
        claimed: bool = False,
        terms: MoveTerms = WHOLE,
        by: Actor | None = None,
    ) -> Move:
        if not terms.dry_run:
            policy.refuse_conflict(source, target, [self._tables.moves[one] for one in self.unfinished()])
        here = self._session.find_queue(source)
        total = 0 if here is None else len(self._tables.order[here.number])
        through = self._tables.last_seq
        return self._put(Move(move_id, source, target, through, now, claimed=claimed, terms=terms, total=total, by=by))

    def step(self, move_id: str, now: int, limit: int) -> Move:
        move = self.hold(move_id, now)
        if move.status is not MoveStatus.IN_PROGRESS:
            return move
        source = self.find_queue(move.source)
        if source is not None and source.settings.groups is Groups.FIFO:
            self._session.promote(source, now)  # what has run out has its place by age
        return self._put(move_step.step(self, move, now, limit, self._session.limits))

    def hold(self, move_id: str, now: int) -> Move:
        move = self.find(move_id, now)
        if move is None:
            raise MoveNotFound(move_id)
        return move

    def cancel(self, move_id: str, now: int) -> Move:
        move = self.hold(move_id, now)
        if move.status is not MoveStatus.IN_PROGRESS:
            return move
        return self._put(replace(move, status=MoveStatus.CANCELLED, finished_at=now))

    def list(self, limit: int, now: int) -> Sequence[Move]:
        remembered = [move for move in self._tables.moves.values() if self._is_remembered(move, now)]
        latest = sorted(remembered, key=lambda move: (move.started_at, move.id), reverse=True)
        return latest[:limit]

    # What a step needs

    def find_queue(self, name: str) -> Queue | None:
        return self._session.find_queue(name)

    def look(self, queue: Queue, after: PeekAfter, through: int, now: int, limit: int) -> Sequence[Candidate]:
        if after.ready_at:
            found = self._waiting(queue, after.ready_at, after.seq)
        else:
            ready = self._session.ready_or_behind(queue, after.seq)
            found = takewhile(lambda row: row.seq <= through, ready)
        looked_at = [self._session.candidate(queue, row, now) for row in islice(found, limit)]
        return looked_at if after.ready_at else [replace(one, ready_at=0) for one in looked_at]

    def _waiting(self, queue: Queue, ready_at: int, seq: int) -> Iterator[MessageRow]:
        rows = self._tables.in_order(queue.number, ready_at, seq)
        return takewhile(lambda row: row.ready_at < limits.SHIPPED, rows)

    def contents(self, _queue: Queue, seqs: Sequence[int], budget: int) -> Mapping[int, Content]:
        return {row.seq: (row.draft.body, row.draft.attributes) for row in self._session.within(seqs, budget)}

    def carry(self, _here: Queue, there: Queue, seqs: Sequence[int], now: int, _claimed: bool, as_new: bool) -> int:
        # By age, so that of twins among them the oldest is the one to arrive.
        for seq in sorted(seqs):
            self._session.carry_over(self._tables.messages[seq], there, Outcome.MOVED, now, as_new)
        self._session.mend_lines(now)
        return len(seqs)

    def purge(self, _queue: Queue, seqs: Sequence[int], now: int, _claimed: bool) -> int:
        for seq in seqs:
            self._tables.depart(self._tables.messages[seq], Outcome.PURGED, now)
        self._session.mend_lines(now)
        return len(seqs)

    def release(self, _queue: Queue, seqs: Sequence[int], now: int) -> int:
        for seq in seqs:
            self._session.make_ready(self._tables.messages[seq])
        self._session.mend_lines(now)
        return len(seqs)

    # Messages that a caller names

    def move_named(
        self, queue: str, message_ids: Sequence[str], target: str | None, now: int, as_new: bool = False
    ) -> Sequence[Dealing]:
        here = self._session.queue(queue)
        there = None if target is None else self._session.queue(target)

        def carry(rows: Sequence[MessageRow]) -> set[int]:
            going = [(row, there or self._home(here, row)) for row in rows]
            gone = [(row, to) for row, to in going if to is not None and to != here]
            for row, to in gone:
                self._session.carry_over(row, to, Outcome.MOVED, now, as_new)
            self._session.mend_lines(now)
            return {row.seq for row, _ in gone}

        return deal([self._session.named(here, one) for one in message_ids], carry)

    def _home(self, here: Queue, row: MessageRow) -> Queue | None:
        name = move_step.home(self, here, row.came_from)
        return None if name is None else self.find_queue(name)

    def find(self, move_id: str, now: int) -> Move | None:
        move = self._tables.moves.get(move_id)
        return move if move is not None and self._is_remembered(move, now) else None

    def _is_remembered(self, move: Move, now: int) -> bool:
        return move.finished_at is None or move.finished_at >= now - self._session.limits.move_kept_ms

    def unfinished(self) -> Sequence[str]:
        moves = [move for move in self._tables.moves.values() if move.finished_at is None]
        return [move.id for move in sorted(moves, key=lambda move: (move.started_at, move.id))]

    def sweep(self, now: int) -> int:
        kept = {move.id: move for move in self._tables.moves.values() if self._is_remembered(move, now)}
        freed = len(self._tables.moves) - len(kept)
        if freed:
            self._tables.replace("moves", kept)
        return freed

    def _put(self, move: Move) -> Move:
        self._tables.replace("moves", {**self._tables.moves, move.id: move})
        return move
