"""Moves of whole queues, remembered from step to step."""

from __future__ import annotations

from penstock.errors import MoveNotFound, QueueNotFound
from penstock.model import Move, MoveStatus
from penstock.stores.sql.arrivals import ArrivalVerbs

_COLUMNS = "id, source, target, through, started_at, moved, status, error, finished_at"


class MoveVerbs(ArrivalVerbs):
    def start_move(self, move_id: str, source: str, target: str, now: int) -> Move:
        move = Move(move_id, source, target, self.session.last_seq(), now)
        self.session.engine.run(
            f"INSERT INTO move ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (move.id, source, target, move.through, now, 0, move.status.value, None, None),
        )
        return move

    def step_move(self, move_id: str, now: int, limit: int) -> Move:
        move = self.find_move(move_id)
        if move is None:
            raise MoveNotFound(move_id)
        if move.status is not MoveStatus.IN_PROGRESS:
            return move
        moved, status, error = 0, MoveStatus.IN_PROGRESS, None
        try:
            if self.session.find_queue(move.source) is not None:
                moved = self.move(move.source, move.target, now, limit, move.through)
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
        rows = self.session.engine.rows(f"SELECT {_COLUMNS} FROM move WHERE id = ?", (move_id,))
        if not rows:
            return None
        [(move_id, source, target, through, started_at, moved, status, error, finished_at)] = rows
        return Move(move_id, source, target, through, started_at, moved, MoveStatus(status), error, finished_at)

    def unfinished_moves(self) -> list[str]:
        rows = self.session.engine.rows("SELECT id FROM move WHERE finished_at IS NULL ORDER BY started_at")
        return [move_id for (move_id,) in rows]
