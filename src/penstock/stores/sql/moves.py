"""How messages go from one queue to another: by a move, remembered from step to step, and as dead letters.

One file because both carry messages over in the same way, and a step needs to see all that a move remembers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from penstock import limits, policy
from penstock.errors import MoveNotFound
from penstock.model import WHOLE, Actor, Dealing, Dedup, Move, MoveStatus, MoveTerms, Outcome, PeekAfter, Queue, Tally
from penstock.stores import move_step
from penstock.stores.dealing import deal
from penstock.stores.move_step import Candidate, Content
from penstock.stores.sql.candidates import CANDIDATE, candidates
from penstock.stores.sql.counts import Counts
from penstock.stores.sql.engine import Row
from penstock.stores.sql.lines import has_lines
from penstock.stores.sql.named import Named, NamedRow
from penstock.stores.sql.runs import at_once
from penstock.stores.sql.session import Session, attributes_of, body_in, seq_in
from penstock.stores.sql.statements import Bounded, ByRuns, by_runs
from penstock.stores.sql.twins import Twins

_COLUMNS = """id, source, target, through, started_at, claimed, terms,
        moved, status, error, finished_at, examined, matched, homeless, place_ready_at, place_seq, next_at, total,
        by_key, by_via"""
# `ready_at` first: MariaDB assigns one column after the other, and `receives` must still be what it was.
_ARRIVE = f"""
        UPDATE message SET ready_at = CASE WHEN ready_at > ? AND ready_at < {limits.BEHIND} AND {{is_delayed}}
                                           THEN ready_at ELSE 0 END,
                           queue = ?, receives = 0, first_claimed_at = NULL, last_claimed_at = NULL,"""
# An empty name: no queue has it.
_HOME = ""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(MoveTerms).decode


@dataclass(frozen=True, slots=True)
class MoveSql:
    # Ready ones by themselves: what was sent after the start may be a million, and is never looked at.
    ready: str = """
        SELECT seq FROM {walk} WHERE queue = ? AND ready_at = 0 AND {age} <= ? ORDER BY {age} LIMIT ? {lock}"""
    behind: str = f"""
        SELECT seq FROM {{walk}} WHERE queue = ? AND ready_at = {limits.BEHIND} AND {{age}} <= ?
        ORDER BY {{age}} LIMIT ? {{lock}}"""
    waiting: str = """
        SELECT seq FROM {walk}
        WHERE queue = ? AND ready_at > 0 AND ready_at < ? AND seq <= ? AND (ready_at <= ? OR {is_delayed})
        ORDER BY ready_at, {age} LIMIT ? {lock}"""
    # What has come home has come from nowhere.
    arrive: ByRuns = by_runs(
        f"{_ARRIVE} came_from = CASE WHEN came_from = ? THEN NULL ELSE came_from END WHERE {{which}}"
    )
    arrive_as_dead_letter: ByRuns = by_runs(f"{_ARRIVE} came_from = ? WHERE {{which}}")
    arrive_as_new: str = """
        UPDATE message SET seq = ?, queue = ?, sent_at = ?, ready_at = ?, receives = 0, claim = 0,
                           first_claimed_at = NULL, last_claimed_at = NULL, came_from = NULL
        WHERE seq = ?"""
    add: str = f"INSERT INTO move ({_COLUMNS}) VALUES ({', '.join('?' * 20)})"
    change: str = """
        UPDATE move SET moved = ?, status = ?, error = ?, finished_at = ?, examined = ?, matched = ?, homeless = ?,
                        place_ready_at = ?, place_seq = ?, next_at = ?
        WHERE id = ?"""
    find: str = f"SELECT {_COLUMNS} FROM move WHERE id = ?"
    find_locked: str = f"SELECT {_COLUMNS} FROM move WHERE id = ? {{lock}}"
    latest: str = f"""
        SELECT {_COLUMNS} FROM move WHERE finished_at IS NULL OR finished_at >= ?
        ORDER BY started_at DESC, id DESC LIMIT ?"""
    under_way: str = f"SELECT {_COLUMNS} FROM move WHERE finished_at IS NULL"
    unfinished: str = "SELECT id FROM move WHERE finished_at IS NULL ORDER BY started_at, id"
    forget: str = "DELETE FROM move WHERE finished_at < ?"
    # Not one condition on the pair: a database may then read the queue from its beginning for every page.
    look_at_ready: str = f"""
        SELECT {CANDIDATE} FROM {{walk}} WHERE queue = ? AND ready_at = 0 AND {{age}} > ? AND {{age}} <= ?
        ORDER BY ready_at, {{age}} LIMIT ?"""
    look_behind: str = f"""
        SELECT {CANDIDATE} FROM {{walk}}
        WHERE queue = ? AND ready_at = {limits.BEHIND} AND {{age}} > ? AND {{age}} <= ?
        ORDER BY ready_at, {{age}} LIMIT ?"""
    look_here: str = f"""
        SELECT {CANDIDATE} FROM {{walk}} WHERE queue = ? AND ready_at = ? AND {{age}} > ?
        ORDER BY ready_at, {{age}} LIMIT ?"""
    look_later: str = f"""
        SELECT {CANDIDATE} FROM {{walk}} WHERE queue = ? AND ready_at > ? AND ready_at < ?
        ORDER BY ready_at, {{age}} LIMIT ?"""
    # The sum keeps a database from reading the queue instead of these messages.
    bodies: str = Bounded("SELECT {message} FROM message WHERE {among:seq} AND queue + 0 = ? ORDER BY ready_at, seq")
    still_there: str = """
        SELECT seq FROM message
        WHERE {among:seq} AND queue + 0 = ? AND ready_at <> ? AND (ready_at <= ? OR ready_at = BEHIND OR {is_delayed})
        ORDER BY seq {lock}""".replace("BEHIND", str(limits.BEHIND))
    still_claimed: str = """
        SELECT seq FROM message
        WHERE {among:seq} AND queue + 0 = ? AND ready_at > ? AND ready_at < ? AND {is_claimed} ORDER BY seq {lock}"""


def _move_of(row: Row) -> Move:
    move_id, source, target, through, started_at, claimed, terms, *changing = row
    moved, status, error, finished_at, examined, matched, homeless, place_ready_at, place_seq, next_at, total, *by = (
        changing
    )
    return Move(
        id=move_id,
        source=source,
        target=None if target == _HOME else target,
        through=through,
        started_at=started_at,
        moved=moved,
        status=MoveStatus(status),
        error=error,
        finished_at=finished_at,
        claimed=bool(claimed),
        terms=WHOLE if terms is None else _decode(terms),
        examined=examined,
        matched=matched,
        homeless=homeless,
        place=PeekAfter(place_ready_at, place_seq),
        next_at=next_at,
        total=total,
        by=None if by[1] is None else Actor(*by),
    )


def _changing_of(move: Move) -> tuple[object, ...]:
    return (
        move.moved,
        move.status.value,
        move.error,
        move.finished_at,
        move.examined,
        move.matched,
        move.homeless,
        move.place.ready_at,
        move.place.seq,
        move.next_at,
    )


class Moves:
    __slots__ = ("_counts", "_named", "_session", "_sql", "_twins")

    def __init__(self, session: Session, twins: Twins, counts: Counts, named: Named) -> None:
        self._session = session
        self._named = named
        self._counts = counts
        self._twins = twins
        self._sql = session.engine.statements.of(MoveSql)

    def carry_over(
        self, here: Queue, there: Queue, seqs: Sequence[int], outcome: Outcome, now: int, as_new: bool = False
    ) -> None:
        """Messages leave one queue for another, where they have never been received."""
        if not seqs:
            return
        session = self._session
        lined = self._lock_lines(here, there)
        groups = session.lines.groups_of(seqs) if lined else []
        if here.number != there.number:  # a queue may be its own dead-letter queue
            if policy.keeps_keys(there.settings):
                session.lock_queue(there.number)
            seqs = self._twins.leave_out(here, there, seqs, outcome, now)
        seqs = sorted(seqs)
        session.record(seqs, outcome, now)
        session.look_everywhere()
        # Those that may no longer be the first ones of their lines.
        heads = [seq for seq, *_ in session.lines.firsts(there, groups).values()] if has_lines(there) else []
        arrive = self._arrive_as_new if as_new else self._arrive
        arrived = arrive(here, there, seqs, outcome, now)
        if there.settings.dedup is Dedup.CLAIM:
            self._twins.spare(arrived)
        session.departed(here.number, len(seqs), outcome)
        session.arrived(there.number, len(seqs))
        session.stirred.add(there.name)
        if has_lines(here):
            session.lift(here, groups, now)
        if has_lines(there):
            session.lines.return_behind(heads)
            session.lines.stand_behind(arrived)
            session.lift(there, groups, now)

    def _lock_lines(self, *queues: Queue) -> bool:
        """Those of these queues that have lines, in one order; whether there are any."""
        numbers = sorted(queue.number for queue in queues if has_lines(queue))
        for number in numbers:
            self._session.lock_queue(number)
        return bool(numbers)

    def _promote_lines(self, queue: Queue, now: int) -> bool:
        """Messages whose claim or delay has run out have their places in line by age, and move by it. Whether these are
        all: else older ones may be among the others."""
        session = self._session
        due = session.look_for_due(queue, now, session.limits.promote_rows).rows()
        session.promote(queue, due, now)
        return len(due) < session.limits.promote_rows

    def _arrive(self, here: Queue, there: Queue, seqs: Sequence[int], outcome: Outcome, now: int) -> Sequence[int]:
        arrive, name = self._sql.arrive, there.name
        if outcome is Outcome.DEAD_LETTERED and here.number != there.number:
            arrive, name = self._sql.arrive_as_dead_letter, here.name
        if seqs:
            statement, which = at_once(self._session.engine, arrive, seqs)
            self._session.engine.run(statement, (now, there.number, name, *which))
        return seqs

    def _arrive_as_new(
        self, _here: Queue, there: Queue, seqs: Sequence[int], _outcome: Outcome, now: int
    ) -> Sequence[int]:
        """With new numbers, in the order they had."""
        engine = self._session.engine
        numbers = engine.next_seqs(len(seqs))
        ready_at = policy.ready_at(there.settings, None, now)
        rows = [(new, there.number, now, ready_at, old) for old, new in zip(seqs, numbers, strict=True)]
        engine.many(self._sql.arrive_as_new, rows)
        return numbers

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
        session = self._session
        here, there = session.queue(source), session.queue(target)
        if here.number == there.number:
            return 0  # else a caller who moves until nothing is left would never end
        engine = session.engine
        # A claim that ends before an instant past all others keeps nothing back.
        waiting = (here.number, limits.SHIPPED, through, limits.SHIPPED if claimed else now)
        if has_lines(here):
            # What is hidden stands before those behind it, which follow by age: a line keeps its order on its way.
            self._lock_lines(here, there)
            self._promote_lines(here, now)
            rows = engine.rows(self._sql.waiting, (*waiting, limit))
            if room := limit - len(rows):
                ready = engine.rows(self._sql.ready, (here.number, through, room))
                rows += sorted(ready + engine.rows(self._sql.behind, (here.number, through, room)))[:room]
        else:
            rows = engine.rows(self._sql.ready, (here.number, through, limit))
            if len(rows) < limit:
                rows += engine.rows(self._sql.waiting, (*waiting, limit - len(rows)))
        seqs = [seq for (seq,) in rows]
        self.carry_over(here, there, seqs, Outcome.MOVED, now, as_new)
        return len(seqs)

    # Remembered from step to step

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
        engine = self._session.engine
        self._session.change_queues()  # two servers must not start two moves at once
        if not terms.dry_run:
            policy.refuse_conflict(source, target, map(_move_of, engine.rows(self._sql.under_way)))
        total = self._counts.tally(source) if self.find_queue(source) is not None else Tally(0, 0)
        move = Move(
            move_id,
            source,
            target,
            engine.last_seq(),
            now,
            claimed=claimed,
            terms=terms,
            total=total.arrived - total.departed,
            by=by,
        )
        written = None if terms == WHOLE else _encode(terms).decode()
        row = (move.id, source, _HOME if target is None else target, move.through, now, int(claimed), written)
        who = (None, None) if by is None else (by.key, by.via)
        engine.run(self._sql.add, (*row, *_changing_of(move), move.total, *who))
        return move

    def step(self, move_id: str, now: int, limit: int) -> Move:
        move = self.hold(move_id, now)
        if move.status is not MoveStatus.IN_PROGRESS:
            return move
        source = self.find_queue(move.source)
        if source is not None and has_lines(source):
            target = None if move.target is None else self.find_queue(move.target)
            self._lock_lines(source, *([] if target is None else [target]))
            if not self._promote_lines(source, now):
                return move  # the next step goes on
        return self._put(move, move_step.step(self, move, now, limit, self._session.limits))

    def cancel(self, move_id: str, now: int) -> Move:
        move = self.hold(move_id, now)
        if move.status is not MoveStatus.IN_PROGRESS:
            return move
        return self._put(move, replace(move, status=MoveStatus.CANCELLED, finished_at=now))

    def hold(self, move_id: str, now: int) -> Move:
        move = self._remembered(self._sql.find_locked, move_id, now)
        if move is None:
            raise MoveNotFound(move_id)
        return move

    def _put(self, former: Move, move: Move) -> Move:
        if move != former:
            self._session.engine.run(self._sql.change, (*_changing_of(move), move.id))
        return move

    def find(self, move_id: str, now: int) -> Move | None:
        return self._remembered(self._sql.find, move_id, now)

    def _remembered(self, statement: str, move_id: str, now: int) -> Move | None:
        moves = map(_move_of, self._session.engine.rows(statement, (move_id,)))
        since = self._ended_since(now)
        return next((move for move in moves if move.finished_at is None or move.finished_at >= since), None)

    def _ended_since(self, now: int) -> int:
        """What ended before is not remembered."""
        return now - self._session.limits.move_kept_ms

    def list(self, limit: int, now: int) -> Sequence[Move]:
        return [_move_of(row) for row in self._session.engine.rows(self._sql.latest, (self._ended_since(now), limit))]

    def unfinished(self) -> Sequence[str]:
        return [move_id for (move_id,) in self._session.engine.rows(self._sql.unfinished)]

    def sweep(self, now: int) -> int:
        return self._session.engine.run(self._sql.forget, (self._ended_since(now),))

    # What a step needs: see `move_step.Movable`

    def find_queue(self, name: str) -> Queue | None:
        return self._session.find_queue(name)

    def look(self, queue: Queue, after: PeekAfter, through: int, now: int, limit: int) -> Sequence[Candidate]:
        engine, sql, number = self._session.engine, self._sql, queue.number
        if not after.ready_at:
            rows = engine.rows(sql.look_at_ready, (number, after.seq, through, limit))
            if has_lines(queue):
                behind = engine.rows(sql.look_behind, (number, after.seq, through, limit))
                rows = sorted([*rows, *((seq, 0, 0, *others) for seq, _, _, *others in behind)])[:limit]
        else:
            rows = engine.rows(sql.look_here, (number, after.ready_at, after.seq, limit))
            if len(rows) < limit:
                rows += engine.rows(sql.look_later, (number, after.ready_at, limits.SHIPPED, limit - len(rows)))
        return candidates(queue, rows, now)

    def contents(self, queue: Queue, seqs: Sequence[int], budget: int) -> Mapping[int, Content]:
        engine = self._session.engine
        rows = engine.rows_within(self._sql.bodies, (engine.listed(seqs), queue.number), budget)
        return {seq_in(row): (body_in(row), attributes_of(row)) for row in rows}

    def carry(self, here: Queue, there: Queue, seqs: Sequence[int], now: int, claimed: bool, as_new: bool) -> int:
        engine = self._session.engine
        free_from = limits.SHIPPED if claimed else now
        rows = engine.rows(self._sql.still_there, (engine.listed(seqs), here.number, limits.SHIPPED, free_from))
        self.carry_over(here, there, [seq for (seq,) in rows], Outcome.MOVED, now, as_new)
        return len(rows)

    def purge(self, queue: Queue, seqs: Sequence[int], now: int, claimed: bool) -> int:
        engine = self._session.engine
        free_from = limits.SHIPPED if claimed else now
        rows = engine.rows(self._sql.still_there, (engine.listed(seqs), queue.number, limits.SHIPPED, free_from))
        self._session.finish(queue.number, [seq for (seq,) in rows], Outcome.PURGED, now)
        return len(rows)

    def release(self, queue: Queue, seqs: Sequence[int], now: int) -> int:
        session, engine = self._session, self._session.engine
        which = (engine.listed(seqs), queue.number, now, limits.SHIPPED)
        rows = engine.rows(self._sql.still_claimed, which)
        if rows:
            session.make_ready(queue.number, [seq for (seq,) in rows], now)
            session.stirred.add(queue.name)
        return len(rows)

    # Messages that a caller names

    def move_named(
        self, queue: str, message_ids: Sequence[str], target: str | None, now: int, as_new: bool = False
    ) -> Sequence[Dealing]:
        session = self._session
        here = session.queue(queue)
        there = None if target is None else session.queue(target)
        self._lock_lines(here, *([] if there is None else [there]))
        return deal(
            self._named.rows(here, message_ids),
            lambda rows: self._carry_named(here, there, rows, now, as_new),
        )

    def _carry_named(
        self, here: Queue, there: Queue | None, rows: Sequence[NamedRow], now: int, as_new: bool
    ) -> set[int]:
        """The numbers of those that have gone."""
        going: dict[str, list[int]] = {}
        for row in rows:
            name = move_step.home(self, here, row.came_from) if there is None else there.name
            if name is not None and name != here.name:
                going.setdefault(name, []).append(row.seq)
        queues = sorted((self._session.queue(name) for name in going), key=lambda one: one.number)
        for to in queues:
            self.carry_over(here, to, going[to.name], Outcome.MOVED, now, as_new)
        return {seq for seqs in going.values() for seq in seqs}
