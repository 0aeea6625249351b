"""Moves, remembered from step to step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from penstock import limits, policy
from penstock.errors import MoveNotFound
from penstock.model import WHOLE, Move, MoveStatus, MoveTerms, Outcome, PeekAfter, Queue
from penstock.stores import moving
from penstock.stores.moving import Candidate
from penstock.stores.sql.arrivals import ArrivalVerbs
from penstock.stores.sql.engine import Row
from penstock.stores.sql.session import IS_CLAIMED, IS_DELAYED, MESSAGE_COLUMNS

_FIXED = "id, source, target, through, started_at, claimed, terms"
_CHANGING = "moved, status, error, finished_at, examined, matched, homeless, place_ready_at, place_seq, next_at"
_COLUMNS = f"{_FIXED}, {_CHANGING}"
_CHANGES = ", ".join(f"{column} = ?" for column in _CHANGING.split(", "))
_CANDIDATE = f"seq, ready_at, CASE WHEN {IS_CLAIMED} THEN 1 ELSE 0 END, sent_at, receives, content_type, came_from"
# An empty name: no queue has it.
_HOME = ""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(MoveTerms).decode


def _move_of(row: Row) -> Move:
    move_id, source, target, through, started_at, claimed, terms, *changing = row
    moved, status, error, finished_at, examined, matched, homeless, place_ready_at, place_seq, next_at = changing
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


class MoveVerbs(ArrivalVerbs):
    def start_move(
        self, move_id: str, source: str, target: str | None, now: int, claimed: bool = False, terms: MoveTerms = WHOLE
    ) -> Move:
        engine = self.session.engine
        self.session.change_queues()  # two servers must not start two moves at once
        if not terms.dry_run:
            unfinished = engine.rows(f"SELECT {_COLUMNS} FROM move WHERE finished_at IS NULL")
            policy.refuse_conflict(source, target, map(_move_of, unfinished))
        move = Move(move_id, source, target, engine.last_seq(), now, claimed=claimed, terms=terms)
        written = None if terms == WHOLE else _encode(terms).decode()
        row = (move.id, source, _HOME if target is None else target, move.through, now, int(claimed), written)
        values = (*row, *_changing_of(move))
        engine.run(f"INSERT INTO move ({_COLUMNS}) VALUES ({', '.join('?' * len(values))})", values)
        return move

    def step_move(self, move_id: str, now: int, limit: int) -> Move:
        move = self._locked(move_id)
        if move.status is not MoveStatus.IN_PROGRESS:
            return move
        return self._put(move, moving.step(self, move, now, limit, self.session.limits))

    def cancel_move(self, move_id: str, now: int) -> Move:
        move = self._locked(move_id)
        if move.status is not MoveStatus.IN_PROGRESS:
            return move
        return self._put(move, replace(move, status=MoveStatus.CANCELLED, finished_at=now))

    def _locked(self, move_id: str) -> Move:
        move = self._find_move(move_id, self.session.engine.lock)
        if move is None:
            raise MoveNotFound(move_id)
        return move

    def _put(self, former: Move, move: Move) -> Move:
        if move != former:
            self.session.engine.run(f"UPDATE move SET {_CHANGES} WHERE id = ?", (*_changing_of(move), move.id))
        return move

    def find_move(self, move_id: str) -> Move | None:
        return self._find_move(move_id)

    def _find_move(self, move_id: str, lock: str = "") -> Move | None:
        rows = self.session.engine.rows(f"SELECT {_COLUMNS} FROM move WHERE id = ? {lock}", (move_id,))
        return _move_of(rows[0]) if rows else None

    def list_moves(self, limit: int) -> list[Move]:
        rows = self.session.engine.rows(
            f"SELECT {_COLUMNS} FROM move ORDER BY started_at DESC, id DESC LIMIT ?", (limit,)
        )
        return [_move_of(row) for row in rows]

    def unfinished_moves(self) -> list[str]:
        rows = self.session.engine.rows("SELECT id FROM move WHERE finished_at IS NULL ORDER BY started_at, id")
        return [move_id for (move_id,) in rows]

    # What a step needs

    def find_queue(self, name: str) -> Queue | None:
        return self.session.find_queue(name)

    def look(self, queue: Queue, after: PeekAfter, through: int, now: int, limit: int) -> list[Candidate]:
        age = self.session.engine.age
        number = queue.number
        if not after.ready_at:
            rows = self._candidates(f"ready_at = 0 AND {age} > ? AND {age} <= ?", (number, after.seq, through, limit))
        else:
            # Not one condition on the pair: a database may then read the queue from its beginning for every page.
            rows = self._candidates(f"ready_at = ? AND {age} > ?", (number, after.ready_at, after.seq, limit))
            if len(rows) < limit:
                later = (number, after.ready_at, limits.SHIPPED, limit - len(rows))
                rows += self._candidates("ready_at > ? AND ready_at < ?", later)
        return [Candidate(seq, at, bool(claimed) and at > now, *others) for seq, at, claimed, *others in rows]

    def _candidates(self, where: str, params: Sequence[int]) -> list[Row]:
        engine = self.session.engine
        return engine.rows(
            f"""SELECT {_CANDIDATE} FROM {engine.walk}
                WHERE queue = ? AND {where} ORDER BY ready_at, {engine.age} LIMIT ?""",
            params,
        )

    def bodies(self, queue: Queue, seqs: Sequence[int], budget: int) -> Mapping[int, bytes]:
        engine = self.session.engine
        # The sum keeps a database from reading the queue instead of these messages.
        rows = engine.rows_within(
            f"""SELECT {MESSAGE_COLUMNS} FROM message WHERE {engine.among("seq")} AND queue + 0 = ?
                ORDER BY ready_at, seq""",
            (engine.listed(seqs), queue.number),
            budget,
        )
        return {row[0]: row[1] for row in rows}

    def carry(self, here: Queue, there: Queue, seqs: Sequence[int], now: int, claimed: bool) -> int:
        engine = self.session.engine
        free_from = limits.SHIPPED if claimed else now
        rows = engine.rows(
            f"""SELECT seq FROM message
                WHERE {engine.among("seq")} AND queue + 0 = ? AND ready_at < ? AND (ready_at <= ? OR {IS_DELAYED})
                ORDER BY seq {engine.lock}""",
            (engine.listed(seqs), here.number, limits.SHIPPED, free_from),
        )
        self.carry_over(here, there, [seq for (seq,) in rows], Outcome.MOVED, now)
        return len(rows)
