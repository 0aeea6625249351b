"""What the memory store keeps beside queues and messages: moves in progress, and API keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, takewhile

from msgspec.structs import replace

from penstock import limits, policy
from penstock.errors import KeyExists, KeyNotFound, MoveNotFound, TooLarge
from penstock.model import WHOLE, Key, Move, MoveStatus, MoveTerms, Outcome, PeekAfter, Queue
from penstock.stores import moving
from penstock.stores.memory.state import MessageRow, State
from penstock.stores.moving import Candidate


class RecordVerbs:
    _state: State

    def find_queue(self, name: str) -> Queue | None:
        raise NotImplementedError

    def move(self, source: str, target: str, now: int, limit: int, through: int, claimed: bool = False) -> int:
        raise NotImplementedError

    def _carry_over(self, row: MessageRow, there: Queue, outcome: Outcome, now: int) -> None:
        raise NotImplementedError

    def start_move(
        self, move_id: str, source: str, target: str | None, now: int, claimed: bool = False, terms: MoveTerms = WHOLE
    ) -> Move:
        if not terms.dry_run:
            unfinished = [move for move in map(self.find_move, self.unfinished_moves()) if move is not None]
            policy.refuse_conflict(source, target, unfinished)
        return self._put_move(Move(move_id, source, target, self._state.last_seq, now, claimed=claimed, terms=terms))

    def step_move(self, move_id: str, now: int, limit: int) -> Move:
        move = self._move(move_id)
        if move.status is not MoveStatus.IN_PROGRESS:
            return move
        return self._put_move(moving.step(self, move, now, limit))

    def cancel_move(self, move_id: str, now: int) -> Move:
        move = self._move(move_id)
        if move.status is not MoveStatus.IN_PROGRESS:
            return move
        return self._put_move(replace(move, status=MoveStatus.CANCELLED, finished_at=now))

    def list_moves(self, limit: int) -> list[Move]:
        latest = sorted(self._state.moves.values(), key=lambda move: (move.started_at, move.id), reverse=True)
        return latest[:limit]

    def _move(self, move_id: str) -> Move:
        move = self.find_move(move_id)
        if move is None:
            raise MoveNotFound(move_id)
        return move

    def look(self, queue: Queue, after: PeekAfter, through: int, now: int, limit: int) -> list[Candidate]:
        rows = self._state.in_order(queue.number, after.ready_at, after.seq)
        if after.ready_at:
            found = takewhile(lambda row: row.ready_at < limits.SHIPPED, rows)
        else:
            found = takewhile(lambda row: row.ready_at == 0 and row.seq <= through, rows)
        return [
            Candidate(
                row.seq,
                row.ready_at,
                row.ready_at > now and not row.is_delayed,
                row.sent_at,
                row.receives,
                row.draft.content_type,
                row.came_from,
            )
            for row in islice(found, limit)
        ]

    def bodies(self, _queue: Queue, seqs: Sequence[int], budget: int) -> Mapping[int, bytes]:
        found: dict[int, bytes] = {}
        for row in sorted((self._state.messages[seq] for seq in seqs), key=lambda row: (row.ready_at, row.seq)):
            if budget <= 0:
                break
            found[row.seq] = row.draft.body
            budget -= len(row.draft.body)
        return found

    def carry(self, _here: Queue, there: Queue, seqs: Sequence[int], now: int, _claimed: bool) -> int:
        # By age, so that of twins among them the oldest is the one to arrive.
        for seq in sorted(seqs):
            self._carry_over(self._state.messages[seq], there, Outcome.MOVED, now)
        return len(seqs)

    def find_move(self, move_id: str) -> Move | None:
        return self._state.moves.get(move_id)

    def unfinished_moves(self) -> list[str]:
        moves = [move for move in self._state.moves.values() if move.finished_at is None]
        return [move.id for move in sorted(moves, key=lambda move: (move.started_at, move.id))]

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
