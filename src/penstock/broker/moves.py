"""Moves between queues: in the background, in steps, and across restarts.

How far a move is stands in the store, written by the very unit that moved the messages. So a step may be lost or done
by another process at any time: the next one finds what is left. Two processes that step the same move share the work,
and each looks again and again for moves that nobody carries on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import uuid4

from penstock import limits, policy
from penstock.complaint import Complaint
from penstock.errors import FeatureMissing, MoveNotFound, QueueNotFound
from penstock.model import Move, MoveStatus, MoveTerms, Settings
from penstock.pending import Pending
from penstock.stores.ensuring import ensure_queue
from penstock.stores.protocol import Unit

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger(__name__)

_LOOK_S = 1.0

# What a move is to do, told when it starts.
Terms = Callable[[int], MoveTerms]


class Moves:
    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self._under_way: set[str] = set()
        # Of those that their pace keeps waiting.
        self._pauses: dict[str, asyncio.TimerHandle] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._trouble = Complaint(log)

    def start(
        self, source: str, target: str | None, create_as: Settings | None, claimed: bool, terms: Terms
    ) -> Pending[Move]:
        def start(unit: Unit, now: int) -> Move:
            if create_as is None:
                for name in (source, target):
                    if name is not None and unit.find_queue(name) is None:
                        raise QueueNotFound(name)
            elif target is not None:
                ensure_queue(unit, target, create_as, now)
            return unit.start_move(str(uuid4()), source, target, now, claimed, terms(now))

        def started(move: Move) -> Move:
            self._carry_on(move.id)
            return move

        return self._broker.work(start).map(started)

    def resume(self) -> None:
        """Go on with what an earlier process, or one that has died, has left unfinished."""

        def resume(moves: list[str]) -> None:
            self._trouble.end("unfinished moves can be read again")
            for move_id in moves:
                self._carry_on(move_id)
            self._look_later()

        def failed(error: Exception) -> None:
            if isinstance(error, FeatureMissing):
                return  # such a store never has any
            if not self._stopping:
                self._trouble.say(f"unfinished moves cannot be read yet: {error}")
            self._look_later()

        self._broker.work(lambda unit, _now: unit.unfinished_moves(), writes=False, patient=True).listen(resume, failed)

    def stop(self) -> None:
        self._stopping = True
        for timer in (self._timer, *self._pauses.values()):
            if timer is not None:
                timer.cancel()

    def _look_later(self) -> None:
        if not self._stopping:
            self._timer = self._loop.call_later(_LOOK_S, self.resume)

    def _carry_on(self, move_id: str) -> None:
        if move_id not in self._under_way and not self._stopping:
            self._under_way.add(move_id)
            self._step(move_id)

    def _step(self, move_id: str) -> None:
        def stepped(done: tuple[Move, int]) -> None:
            move, now = done
            if move.status is not MoveStatus.IN_PROGRESS or self._stopping:
                self._under_way.discard(move_id)
            elif wait_ms := policy.move_wait_ms(move, now):
                self._pauses[move_id] = self._loop.call_later(wait_ms / 1_000, self._go_on, move_id)
            else:
                self._step(move_id)

        def step(unit: Unit, now: int) -> tuple[Move, int]:
            return unit.step_move(move_id, now, limits.STEP_ROWS), now

        def failed(error: Exception) -> None:
            """The next look finds it again. At a stop the store may already be closed: the next start goes on."""
            self._under_way.discard(move_id)
            if not isinstance(error, MoveNotFound) and not self._stopping:
                log.warning("the move %s goes on later: %s", move_id, error)

        self._broker.work(step, patient=True).listen(stepped, failed)

    def _go_on(self, move_id: str) -> None:
        del self._pauses[move_id]
        self._step(move_id)
