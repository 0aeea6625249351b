"""What one consumer says to the store: what became of its messages, that it wants more, and that it is alive.

Used by the thread that runs the callbacks and by the one that beats. All that is said in one go happens in one unit,
and what a lost unit was to say is said again by the next. Whether a unit whose end is unknown has happened is read from
the consumer's own row: messages that stand there and were never received here go back, and decisions about messages
that no longer stand there have arrived.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping

from msgspec import Struct

from penstock.gq.access import Access, consumers_of, settings_of
from penstock.model import Attendance, Ending, Held, Message, Outcome, Registration
from penstock.stores.protocol import Consumers, Unit, ensure_queue

log = logging.getLogger("penstock.gq")


class Decision(Struct, frozen=True, gc=False):
    """Without an outcome the message goes back, to be delivered again after `delay_ms`. `begun` says that the callback
    has seen it."""

    message: Message
    outcome: Outcome | None
    begun: bool
    delay_ms: int


class Membership:
    def __init__(self, access: Access, consumer: Registration) -> None:
        self._access = access
        self._timings = access.timings
        self._consumer = consumer
        self._dead_after_s = consumer.dead_after_ms / 1000
        self._lock = threading.Lock()
        self._held: set[Held] = set()
        # What we held when we were declared dead, and may still be at work on.
        self._orphans: set[Held] = set()
        # Only ever appended to without the lock.
        self._decisions: list[Decision] = []
        self._decided_at = 0.0
        self._registered = False
        self._left = False
        self._confirmed_at = 0.0
        self._clocks: tuple[int, float] | None = None
        self._reaps_from = 0.0
        # Rises when this consumer is declared dead: claims of an earlier generation are void.
        self.generation = 0
        # The ids of messages whose claims were lost, until the consumer has been told.
        self.lost: list[str] = []

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    @property
    def is_surely_alive(self) -> bool:
        """Whether it is too early for anyone to have declared us dead."""
        return time.monotonic() - self._confirmed_at < self._dead_after_s / 2

    @property
    def is_report_due(self) -> bool:
        return bool(self._decisions) and time.monotonic() - self._decided_at >= self._timings.report_s

    def decide(self, message: Message, outcome: Outcome | None, begun: bool = True, delay_ms: int = 0) -> None:
        if not self._decisions:
            self._decided_at = time.monotonic()
        self._decisions.append(Decision(message, outcome, begun, delay_ms))

    def exchange(self, limit: int = 0, beat: bool = False) -> list[Message]:
        """Report what was decided and claim up to `limit` more. A `beat` also looks for consumers that have died."""
        with self._lock:
            if self._left:
                return []
            began = time.monotonic()
            decisions = [*self._decisions]
            alike = _alike(decisions)
            endings = [Ending(wanted.keys(), *how) for how, wanted in alike.items()]
            decided: set[Held] = set().union(*alike.values())
            with self._access.unit() as (unit, now):
                consumers = consumers_of(unit)
                attendance = consumers.report(self._consumer, endings, now)
                recorded = attendance.held
                living: list[str] | None = attendance.living
                died = self._registered and recorded is None
                lost = self._lost(consumers, alike.values(), attendance, now)
                unknown = (recorded or set()) - self._held
                if unknown:
                    consumers.end_claims(self._consumer.queue, unknown, None, now)
                held = set() if recorded is None else self._held - decided
                registered = recorded is not None
                if recorded is None:
                    registered, living = self._register(unit, consumers, limit > 0, died, now), None
                claimed = consumers.claim(self._consumer, limit, now, living).messages if limit else []
                held.update(map(_held, claimed))
                if registered:
                    if beat or held != recorded:
                        consumers.hold(self._consumer.id, held, now)
                    if beat or recorded is None:
                        self._watch_clock(now, began)
                        if began >= self._reaps_from:
                            consumers.reap(now)
            self._note_kept(len(decisions), decided, lost, held, died, began)
            self._registered = registered
            return claimed

    def leave(self) -> None:
        """Report what was decided and be gone. Whatever else is held goes back."""
        # In a unit before the last: as long as our row is there, it tells what has arrived.
        self.exchange()
        with self._lock:
            self._registered = False
            with self._access.unit() as (unit, now):
                consumers = consumers_of(unit)
                held = consumers.attend(self._consumer.id)
                consumers.end_claims(self._consumer.queue, held or set(), None, now)
                consumers.leave(self._consumer.id)
            self._held, self._left = set(), True

    def _register(self, unit: Unit, consumers: Consumers, wants_messages: bool, died: bool, now: int) -> bool:
        """To claim, and at once when we find that we were declared dead: the others count on us again. But a sign of
        life does not bring back a queue that was deleted."""
        queue = self._consumer.queue
        if wants_messages:
            ensure_queue(unit, queue, settings_of(queue), now)
        elif not died or unit.find_queue(queue) is None:
            return False
        consumers.register(self._consumer, now)
        return True

    def _lost(
        self, consumers: Consumers, decisions: Iterable[Mapping[Held, Decision]], attendance: Attendance, now: int
    ) -> list[str]:
        """The ids of those whose claims are lost."""
        lost = []
        recorded = attendance.held
        for wanted, ended in zip(decisions, attendance.ended, strict=True):
            for held in wanted.keys() - ended:
                decision = wanted[held]
                # Our own row no longer names it: an earlier unit has said it, though we never learned of its end.
                arrived = recorded is not None and held not in recorded and held not in self._orphans
                if decision.begun and not self._has_happened(consumers, decision, arrived, now):
                    lost.append(decision.message.id)
        return lost

    def _has_happened(self, consumers: Consumers, decision: Decision, arrived: bool, now: int) -> bool:
        if decision.outcome is None:
            return arrived
        trace = consumers.trace(decision.message.id, now)
        said = trace is not None and trace.outcome is decision.outcome
        return said and (arrived or decision.outcome is Outcome.FAILED)

    def _watch_clock(self, now: int, began: float) -> None:
        """After a jump of the clock all others look dead; give them time for a sign of life by the new one."""
        if self._clocks is not None:
            seen_at, then = self._clocks
            if abs(now - seen_at - (began - then) * 1000) > self._timings.jump_ms:
                log.warning("the clock has jumped; no consumer is declared dead for %s s", self._dead_after_s)
                self._reaps_from = began + self._dead_after_s
        self._clocks = now, began

    def _note_kept(
        self, count: int, decided: set[Held], lost: list[str], held: set[Held], died: bool, began: float
    ) -> None:
        """The unit, with the first `count` decisions, is on stable media."""
        del self._decisions[:count]
        self._decided_at = time.monotonic()
        self._orphans -= decided
        if died:
            self._orphans |= self._held - decided
        self._held = held
        self._confirmed_at = began
        self.lost += lost
        if died:
            self.generation += 1
            log.warning(
                "consumer %s of %s was declared dead by others, or its queue was deleted",
                self._consumer.id,
                self._consumer.queue,
            )


def _alike(decisions: Iterable[Decision]) -> dict[tuple[Outcome | None, int], dict[Held, Decision]]:
    """By outcome and delay."""
    alike: dict[tuple[Outcome | None, int], dict[Held, Decision]] = {}
    for decision in decisions:
        alike.setdefault((decision.outcome, decision.delay_ms), {})[_held(decision.message)] = decision
    return alike


def _held(message: Message) -> Held:
    return message.seq, message.claim
