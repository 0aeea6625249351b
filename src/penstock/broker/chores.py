"""What a broker does unasked: it frees space, gives it back, and carries on moves between queues.

How far a move is stands in the store, written by the very unit that moved the messages. So a step may be lost or done
by another process at any time: the next one finds what is left. Two processes that step the same move share the work,
and each looks again and again for moves that a stopped process has left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from penstock import policy
from penstock.broker.commit import Commit
from penstock.broker.moves import ListUnfinishedMoves, StepMove
from penstock.broker.operations import Again
from penstock.broker.shrinking import Shrinking
from penstock.complaint import Complaint
from penstock.errors import FeatureMissing, MoveNotFound, TryAgain
from penstock.limits import Limits
from penstock.model import Move, MoveStatus
from penstock.stores.protocol import Unit
from penstock.timings import Timings

log = logging.getLogger(__name__)


class Chores:
    def __init__(self, commit: Commit, shrinking: Shrinking, loop: asyncio.AbstractEventLoop, timings: Timings) -> None:
        self._sweeps = _Sweeps(commit, loop, timings)
        self._shrinking = shrinking
        self._moves = _MovesUnderWay(commit, loop, timings)

    def start(self) -> None:
        self._moves.resume()
        self._sweeps.start()
        self._shrinking.start()

    def stop(self) -> None:
        self._moves.stop()
        self._sweeps.stop()
        self._shrinking.stop()

    def carry_on(self, move_id: str) -> None:
        """Step a move until it has ended."""
        self._moves.carry_on(move_id)


class Sweep(Struct, frozen=True):
    """In steps, until nothing is left to free, and the ledger is counted."""

    ledger_retention_ms: int
    actions_retention_ms: int
    ledger_bytes: int | None = None
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, limits: Limits) -> Again | None:
        counted = 0 if unit.ledger is None else unit.ledger.measure(limits.ledger_count_rows)
        ledger_before, actions_before = now - self.ledger_retention_ms, now - self.actions_retention_ms
        freed = unit.sweep(now, limits.step_rows, ledger_before, actions_before, self.ledger_bytes)
        return Again(self) if freed or counted == limits.ledger_count_rows else None


class _Sweeps:
    """One after the other, with a pause in between; never two at the same time."""

    def __init__(self, commit: Commit, loop: asyncio.AbstractEventLoop, timings: Timings) -> None:
        self._commit = commit
        self._loop = loop
        self._pause_s = timings.sweep_s
        self._sweep = Sweep(timings.ledger_retention_ms, timings.actions_retention_ms, timings.ledger_bytes)
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._trouble = Complaint(log, logging.ERROR)

    def start(self) -> None:
        if not self._stopping:
            self._timer = self._loop.call_later(self._pause_s, self._begin)

    def stop(self) -> None:
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        self._commit.work(self._sweep, patient=True).listen(self._swept, self._failed)

    def _swept(self, _none: None) -> None:
        self._trouble.end("the sweep works again")
        self.start()

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, TryAgain) and not self._stopping:
            self._trouble.say(f"the sweep failed: {error}")
        self.start()


class _MovesUnderWay:
    """Each is stepped again and again until it has ended, with pauses where its pace asks for them."""

    def __init__(self, commit: Commit, loop: asyncio.AbstractEventLoop, timings: Timings) -> None:
        self._commit = commit
        self._loop = loop
        self._look_s = timings.moves_s
        self._under_way: set[str] = set()
        self._pauses: dict[str, asyncio.TimerHandle] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._trouble = Complaint(log)

    def resume(self) -> None:
        """Go on with what an earlier process, or one that has died, has left unfinished."""

        def resume(moves: Sequence[str]) -> None:
            self._trouble.end("unfinished moves can be read again")
            for move_id in moves:
                self.carry_on(move_id)
            self._look_later()

        def failed(error: Exception) -> None:
            if isinstance(error, FeatureMissing):
                return  # such a store never has any
            if not self._stopping:
                self._trouble.say(f"unfinished moves cannot be read yet: {error}")
            self._look_later()

        self._commit.work(ListUnfinishedMoves(), patient=True).listen(resume, failed)

    def stop(self) -> None:
        self._stopping = True
        for timer in (self._timer, *self._pauses.values()):
            if timer is not None:
                timer.cancel()

    def carry_on(self, move_id: str) -> None:
        if move_id not in self._under_way and not self._stopping:
            self._under_way.add(move_id)
            self._step(move_id)

    def _look_later(self) -> None:
        if not self._stopping:
            self._timer = self._loop.call_later(self._look_s, self.resume)

    def _step(self, move_id: str) -> None:
        def stepped(done: tuple[Move, int]) -> None:
            move, now = done
            if move.status is not MoveStatus.IN_PROGRESS or self._stopping:
                self._under_way.discard(move_id)
            elif wait_ms := policy.move_wait_ms(move, now):
                self._pauses[move_id] = self._loop.call_later(wait_ms / 1_000, self._go_on, move_id)
            else:
                self._step(move_id)

        def failed(error: Exception) -> None:
            """The next look finds it again. At a stop the store may already be closed: the next start goes on."""
            self._under_way.discard(move_id)
            if not isinstance(error, MoveNotFound) and not self._stopping:
                log.warning("the move %s goes on later: %s", move_id, error)

        self._commit.work(StepMove(move_id), patient=True).listen(stepped, failed)

    def _go_on(self, move_id: str) -> None:
        del self._pauses[move_id]
        self._step(move_id)
