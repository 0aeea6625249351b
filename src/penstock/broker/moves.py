"""Moves between queues: what can be asked about them. `chores.py` carries them on, in steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar
from uuid import uuid4

from msgspec import Struct, structs

from penstock import policy
from penstock.broker.commit import Commit
from penstock.broker.entries import end_detail, start_detail, write_down
from penstock.broker.queues import note_creation
from penstock.errors import InvalidRequest, NotPermitted, QueueNotFound
from penstock.keys import needed_rule, permits
from penstock.limits import Limits
from penstock.model import ANY_AGE, WHOLE, ActionKind, Actor, Ages, Move, MoveAction, MoveStatus, MoveTerms, Settings
from penstock.pending import Pending
from penstock.stores.protocol import Unit, ensure_queue, needed


class Moves:
    """`carry_on` is told the id of every move that has started."""

    def __init__(self, commit: Commit, carry_on: Callable[[str], object]) -> None:
        self._commit = commit
        self._carry_on = carry_on

    def start(
        self,
        source: str,
        target: str | None,
        terms: MoveTerms = WHOLE,
        ages: Ages = ANY_AGE,
        create_as: Settings | None = None,
        claimed: bool = False,
        by: Actor | None = None,
    ) -> Pending[Move]:
        def started(move: Move) -> Move:
            self._carry_on(move.id)
            return move

        task = StartMove(str(uuid4()), source, target, terms, ages, create_as, claimed, by)
        return self._commit.work(task).map(started)

    def cancel(self, move_id: str, rules: Sequence[str] | None = None, by: Actor | None = None) -> Pending[Move]:
        return self._commit.work(CancelMove(move_id, rules, by))

    def find(self, move_id: str) -> Pending[Move | None]:
        return self._commit.work(FindMove(move_id))

    def list(self, limit: int) -> Pending[Sequence[Move]]:
        return self._commit.work(ListMoves(limit))


class StartMove(Struct, frozen=True):
    move_id: str
    source: str
    target: str | None
    terms: MoveTerms
    ages: Ages
    create_as: Settings | None
    claimed: bool
    by: Actor | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Move:
        if self.terms.action is not MoveAction.MOVE and self.target is not None:
            raise InvalidRequest(f"{self.terms.action.value} has no target")
        if self.create_as is None:
            for name in (self.source, self.target):
                if name is not None and unit.find_queue(name) is None:
                    raise QueueNotFound(name)
        moves = needed(unit.moves, "moves")
        terms = structs.replace(self.terms, selection=policy.aged(self.terms.selection, self.ages, now))
        move = moves.start(self.move_id, self.source, self.target, now, self.claimed, terms, self.by)
        # After the start, which may be refused: then nothing is to be done or written down.
        target, settings = self.target, self.create_as
        if target is not None and settings is not None and ensure_queue(unit, target, settings, now):
            note_creation(unit, self.by, target, settings, now)
        write_down(unit, self.by, ActionKind.MOVE_START, now, self.source, detail=start_detail(move))
        return move


class StepMove(Struct, frozen=True):
    """The move as it is now, and the time."""

    move_id: str
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, limits: Limits) -> tuple[Move, int]:
        moves = needed(unit.moves, "moves")
        # Held, because another server may be about to end it.
        was_under_way = moves.hold(self.move_id, now).status is MoveStatus.IN_PROGRESS
        move = moves.step(self.move_id, now, limits.step_rows)
        if was_under_way and move.status is not MoveStatus.IN_PROGRESS:
            write_down(unit, move.by, ActionKind.MOVE_END, now, move.source, move.moved, end_detail(move))
        return move, now


class CancelMove(Struct, frozen=True):
    move_id: str
    rules: Sequence[str] | None
    by: Actor | None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Move:
        moves = needed(unit.moves, "moves")
        former = moves.hold(self.move_id, now)
        if not permits(self.rules, "poll", former.source):
            raise NotPermitted(needed_rule("poll", former.source))
        move = moves.cancel(self.move_id, now)
        if former.status is MoveStatus.IN_PROGRESS:
            write_down(unit, self.by, ActionKind.MOVE_CANCEL, now, move.source, move.moved, end_detail(move))
        return move


class FindMove(Struct, frozen=True):
    move_id: str
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Move | None:
        return needed(unit.moves, "moves").find(self.move_id, now)


class ListMoves(Struct, frozen=True):
    limit: int
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Sequence[Move]:
        return needed(unit.moves, "moves").list(self.limit, now)


class ListUnfinishedMoves(Struct, frozen=True):
    """Their ids."""

    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> Sequence[str]:
        return needed(unit.moves, "moves").unfinished()
