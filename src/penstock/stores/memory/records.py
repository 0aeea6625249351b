"""What the memory store keeps beside queues and messages: moves in progress, and API keys."""

from __future__ import annotations

from msgspec.structs import replace

from penstock import limits, policy
from penstock.errors import KeyExists, KeyNotFound, MoveNotFound, QueueNotFound, TooLarge
from penstock.model import Key, Move, MoveStatus, Queue
from penstock.stores.memory.state import State


class RecordVerbs:
    _state: State

    def find_queue(self, name: str) -> Queue | None:
        raise NotImplementedError

    def move(self, source: str, target: str, now: int, limit: int, through: int, claimed: bool = False) -> int:
        raise NotImplementedError

    def start_move(self, move_id: str, source: str, target: str, now: int, claimed: bool = False) -> Move:
        unfinished = [move for move in map(self.find_move, self.unfinished_moves()) if move is not None]
        policy.refuse_conflict(source, target, unfinished)
        return self._put_move(Move(move_id, source, target, self._state.last_seq, now, claimed=claimed))

    def step_move(self, move_id: str, now: int, limit: int) -> Move:
        move = self.find_move(move_id)
        if move is None:
            raise MoveNotFound(move_id)
        if move.status is not MoveStatus.IN_PROGRESS:
            return move
        try:
            known = self.find_queue(move.source) is not None
            moved = self.move(move.source, move.target, now, limit, move.through, move.claimed) if known else 0
        except QueueNotFound as missing:
            return self._put_move(replace(move, status=MoveStatus.ERROR, error=str(missing), finished_at=now))
        if not moved:
            return self._put_move(replace(move, status=MoveStatus.COMPLETE, finished_at=now))
        return self._put_move(replace(move, moved=move.moved + moved))

    def find_move(self, move_id: str) -> Move | None:
        return self._state.moves.get(move_id)

    def unfinished_moves(self) -> list[str]:
        moves = [move for move in self._state.moves.values() if move.finished_at is None]
        return [move.id for move in sorted(moves, key=lambda move: move.started_at)]

    def sweep_moves(self, now: int) -> int:
        kept = {
            move.id: move
            for move in self._state.moves.values()
            if move.finished_at is None or move.finished_at >= now - limits.MOVE_KEPT_MS
        }
        freed = len(self._state.moves) - len(kept)
        if freed:
            self._state.replace("moves", kept)
        return freed

    def _put_move(self, move: Move) -> Move:
        self._state.replace("moves", {**self._state.moves, move.id: move})
        return move

    def create_key(self, key: Key) -> None:
        if key.name in self._state.keys:
            raise KeyExists(key.name)
        if len(self._state.keys) >= limits.KEYS:
            raise TooLarge(f"a store holds at most {limits.KEYS} API keys, revoked ones included")
        self._state.replace("keys", {**self._state.keys, key.name: key})

    def revoke_key(self, name: str, now: int) -> None:
        key = self._state.keys.get(name)
        if key is None:
            raise KeyNotFound(name)
        if key.revoked_at is None:
            self._state.replace("keys", {**self._state.keys, name: replace(key, revoked_at=now)})

    def list_keys(self) -> list[Key]:
        return list(self._state.keys.values())
