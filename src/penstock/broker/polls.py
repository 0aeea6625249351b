"""Long polls: claims that found nothing and wait for a message.

Waiting claims join the very unit that sends to their queue, a timer fires when a delay or another's claim runs out,
and a store shared with other processes is asked twenty times a second whether it has changed, as long as a claim
waits. Of all claims that wait for a queue, the first looks, and more where it has found something.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from itertools import islice
from typing import Any

from penstock.broker.lanes import Lanes
from penstock.broker.operations import UNSERVED, Claim, Operation, Send, tell
from penstock.errors import StoreUnavailable
from penstock.stores.protocol import EVERYWHERE, Store
from penstock.timings import Timings

# Of the claims that wait for a queue, one looks first. Where all that look find something, this many times as many look
# next.
_MORE_LOOKERS = 4
# A timer for something later than this only looks again: clocks are set, and event loops dislike decades.
_LONGEST_ALARM_S = 3600.0


class Polls:
    """`lanes` are those of a store that works in threads, `now` is the time of the store, and `serve_first` takes the
    claims that should look again."""

    def __init__(
        self,
        store: Store,
        lanes: Lanes | None,
        now: Callable[[], int],
        serve_first: Callable[[list[Claim]], None],
        loop: asyncio.AbstractEventLoop,
        timings: Timings,
    ) -> None:
        self.waiters = Waiters()
        self._store = store
        self._lanes = lanes
        self._serve_first = serve_first
        self._loop = loop
        self._timings = timings
        self._most = store.limits.waiters
        self._alarms = Alarms(loop, now, self._look)
        self._watch_timer: asyncio.TimerHandle | None = None
        self._looked_at = 0.0
        self._stopping = False

    # Waiting

    def can_wait(self, claim: Claim) -> bool:
        """Whether a claim found nothing and still has time."""
        return (
            (claim.result == [] or self._is_unreachable(claim))
            and not self._stopping
            and claim.wait_until > self._loop.time()
            and self.waiters.count < self._most
        )

    def park(self, claim: Claim) -> None:
        """Let a claim wait. It comes with what it has seen."""
        due = None if self._is_unreachable(claim) else claim.due
        self.waiters.add(claim)
        claim.has_waited = True
        claim.result = UNSERVED
        claim.busy_since = 0.0
        claim.lookers = 0
        if claim.timer is None:
            claim.timer = self._loop.call_at(claim.wait_until, self._give_up, claim)
            claim.on_cancel = partial(self._call_off, claim)
        if due is not None:
            self._alarms.set(claim.queue, due)
        if self._watch_timer is None:
            self._looked_at = self._loop.time()
            self._watch_timer = self._loop.call_later(self._timings.watch_s, self._watch)

    def stop(self) -> None:
        """Waiting claims end without a message, and none waits from now on."""
        self._stopping = True
        for claim in list(self.waiters):
            self._give_up(claim)

    def _is_unreachable(self, claim: Claim) -> bool:
        """A claim that waits already can wait for a database as well: it looks again before long."""
        return claim.has_waited and not self._store.inline and isinstance(claim.result, StoreUnavailable)

    def _give_up(self, claim: Claim) -> None:
        claim.wait_until = 0.0  # it may be on its way to the store, and must not wait again
        lanes = self._lanes
        seen = lanes.no_answer() if lanes is not None and lanes.hangs else self.waiters.last_seen(claim.queue)
        if self.waiters.remove(claim):
            claim.result = seen
            tell(claim)

    def _call_off(self, claim: Claim) -> bool:
        """The caller has gone; too late when the claim is already on its way to the store again."""
        claim.wait_until = 0.0
        if claim.timer is not None:
            claim.timer.cancel()
        return self.waiters.remove(claim)

    # Looking again

    def join(self, operations: list[Operation]) -> None:
        """Add waiting claims to a unit that sends to their queue: a message never serves more than one claim, so as
        many may try as there are messages."""
        for send in [operation for operation in operations if isinstance(operation, Send)]:
            for claim in self.waiters.take(send.queue, len(send.drafts)):
                claim.since = send.since
                operations.append(claim)
        # Claims that have waited go before those that have just come.
        operations.sort(key=lambda operation: not (isinstance(operation, Claim) and operation.has_waited))

    def go_on(self, operations: Sequence[Operation], stirred: Set[str], in_vain: Sequence[Claim]) -> None:
        """After a unit that stirred these queues, and in which these claims have looked in vain."""
        self.waiters.put_first(in_vain)
        self._pass_on(operations, {claim.queue for claim in in_vain})
        for queue in stirred:
            self._look(queue)

    def _pass_on(self, operations: Sequence[Operation], in_vain: Set[str]) -> None:
        """Should a claim just made run out, its messages are for those that still wait then. Where none has looked in
        vain, there may be more messages: the next ones look."""
        lookers: dict[str, int] = {}
        for operation in operations:
            if not isinstance(operation, Claim) or not self.waiters.has(operation.queue):
                continue
            result = operation.result
            if isinstance(result, list) and result:
                self._alarms.set(operation.queue, result[0].ready_at)
            if operation.lookers and result and result is not UNSERVED and operation.queue not in in_vain:
                lookers[operation.queue] = operation.lookers * _MORE_LOOKERS
        for queue, count in lookers.items():
            self._look(queue, count)

    def _look(self, queue: str, count: int = 1) -> None:
        """Let the first claims that wait for a queue look for a message. If all of them looked, however many they are,
        the store would be busy whenever there is nothing for them."""
        lookers = self.waiters.take(queue, count)
        for claim in lookers:
            claim.lookers = count
        self._serve_first(lookers)

    def _watch(self) -> None:
        """Other processes on the same store do not tell us; while claims wait, we look."""
        self._watch_timer = None
        if not self.waiters.count:
            return
        # An embedded store is used from one thread at a time; what it does not tell now, it tells next time.
        if self._lanes is None or self._lanes.is_free():
            changed = self._store.changed_elsewhere()
            if not self._store.inline and self._loop.time() - self._looked_at >= self._timings.look_anyway_s:
                self._looked_at = self._loop.time()
                changed = EVERYWHERE
            if changed:
                for queue in self.waiters.queues():
                    if queue in changed:
                        self._look(queue)
        self._watch_timer = self._loop.call_later(self._timings.watch_s, self._watch)


class Waiters:
    """The claims that wait: per queue, in the order of arrival."""

    def __init__(self) -> None:
        self._by_queue: dict[str, OrderedDict[Claim, None]] = {}
        self._last_seen: dict[str, Any] = {}
        self.count = 0

    def __iter__(self) -> Iterator[Claim]:
        return (claim for claims in self._by_queue.values() for claim in claims)

    def queues(self) -> list[str]:
        return list(self._by_queue)

    def add(self, claim: Claim) -> None:
        """It comes with what it has seen, which counts for all that wait for the queue."""
        self._by_queue.setdefault(claim.queue, OrderedDict())[claim] = None
        self._last_seen[claim.queue] = claim.result
        self.count += 1

    def last_seen(self, queue: str) -> Any:
        """What is told to those whose time is over: no messages, or why it is not known."""
        return self._last_seen.get(queue, [])

    def put_first(self, claims: Sequence[Claim]) -> None:
        """Give claims that wait, in their order of arrival, back the place they had before they were taken."""
        for claim in reversed(claims):
            waiting = self._by_queue.get(claim.queue)
            if waiting is not None and claim in waiting:  # it may have been called off meanwhile
                waiting.move_to_end(claim, last=False)

    def has(self, queue: str) -> bool:
        return queue in self._by_queue

    def remove(self, claim: Claim) -> bool:
        """False when it was not waiting any more."""
        claims = self._by_queue.get(claim.queue)
        if claims is None or claim not in claims:
            return False
        del claims[claim]
        self.count -= 1
        if not claims:
            del self._by_queue[claim.queue]
            del self._last_seen[claim.queue]
        return True

    def take(self, queue: str, count: int | None = None) -> list[Claim]:
        """The first `count` that wait for a queue, or all of them; they wait no more."""
        claims = list(islice(self._by_queue.get(queue, ()), count))
        for claim in claims:
            self.remove(claim)
        return claims


class Alarms:
    """One alarm for a queue: when its next message becomes ready, as far as it is known."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, now: Callable[[], int], on_due: Callable[[str], object]
    ) -> None:
        self._loop = loop
        self._now = now
        self._on_due = on_due
        self._timers: dict[str, tuple[int, asyncio.TimerHandle]] = {}

    def set(self, queue: str, due: int) -> None:
        """Of several instants, the earliest counts."""
        known = self._timers.get(queue)
        if known is not None:
            known_due, timer = known
            if known_due <= due:
                return
            timer.cancel()
        delay_s = min(max(0, due - self._now()) / 1000, _LONGEST_ALARM_S)
        self._timers[queue] = (due, self._loop.call_later(delay_s, self._ring, queue))

    def _ring(self, queue: str) -> None:
        del self._timers[queue]
        self._on_due(queue)
