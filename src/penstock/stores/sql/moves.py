"""Moves of whole queues, remembered from step to step."""

from __future__ import annotations

from penstock import policy
from penstock.errors import MoveNotFound, QueueNotFound
from penstock.model import Move, MoveStatus
from penstock.stores.sql.arrivals import ArrivalVerbs
from penstock.stores.sql.engine import Row

_COLUMNS = "id, source, target, through, started_at, moved, status, error, finished_at, claimed"


def _move_of(row: Row) -> Move:
    move_id, source, target, through, started_at, moved, status, error, finished_at, claimed = row
    return Move(
        move_id, source, target, through, started_at, moved, MoveStatus(status), error, finished_at, bool(claimed)
    )


class MoveVerbs(ArrivalVerbs):
    def start_move(self, move_id: str, source: str, target: str, now: int, claimed: bool = False) -> Move:
        self.session.change_queues()  # two servers must not start two moves at once
        unfinished = self.session.engine.rows(f"SELECT {_COLUMNS} FROM move WHERE finished_at IS NULL")
        policy.refuse_conflict(source, target, map(_move_of, unfinished))
        move = Move(move_id, source, target, self.session.engine.last_seq(), now, claimed=claimed)
        self.session.engine.run(
            f"INSERT INTO move ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (move.id, source, target, move.through, now, 0, move.status.value, None, None, int(claimed)),
        )
        return move

    def step_move(self, move_id: str, now: int, limit: int) -> Move:
        move = self._find_move(move_id, self.session.engine.lock)
        if move is None:
            raise MoveNotFound(move_id)
        if move.status is not MoveStatus.IN_PROGRESS:
            return move
        moved, status, error = 0, MoveStatus.IN_PROGRESS, None
        try:
            if self.session.find_queue(move.source) is not None:
                moved = self.move(move.source, move.target, now, limit, move.through, move.claimed)
            if not moved:
                status = MoveStatus.COMPLETE
        except QueueNotFound as missing:
            status, error = MoveStatus.ERROR, str(missing)
        self.session.engine.run(
            "UPDATE move SET moved = moved + ?, status = ?, error = ?, finished_at = ? WHERE id = ?",
            (moved, status.value, error, None if status is MoveStatus.IN_PROGRESS else now, move_id),
        )
        return self.find_move(move_id) or move

    def find_move(self, move_id: str) -> Move | None:
        return self._find_move(move_id)

    def _find_move(self, move_id: str, lock: str = "") -> Move | None:
        rows = self.session.engine.rows(f"SELECT {_COLUMNS} FROM move WHERE id = ? {lock}", (move_id,))
        return _move_of(rows[0]) if rows else None

    def unfinished_moves(self) -> list[str]:
        rows = self.session.engine.rows("SELECT id FROM move WHERE finished_at IS NULL ORDER BY started_at")
        return [move_id for (move_id,) in rows]
