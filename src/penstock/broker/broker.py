"""The broker in this process: every face speaks to it, and no face to the store. Only `server/committer.py` uses the
store itself, before the first request comes and after the last was answered.

It is a door to three rooms: group commit (`commit.py`), long polls (`polls.py`) and what is done unasked
(`chores.py`). They are put together here. The contract of its verbs is in `protocol.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.broker import protocol
from penstock.broker.actions import Actions
from penstock.broker.arrivals import Arrivals
from penstock.broker.aside import Aside
from penstock.broker.chores import Chores
from penstock.broker.commit import Commit, Units
from penstock.broker.counting import Counting
from penstock.broker.express import Express
from penstock.broker.health import Health
from penstock.broker.keeping import Keeping
from penstock.broker.keys import Keys
from penstock.broker.lanes import Lanes
from penstock.broker.leases import Leases
from penstock.broker.ledger import Exports, Ledger
from penstock.broker.messages import (
    AckPermitted,
    CountMessages,
    DeleteMessages,
    FindMessage,
    Locate,
    MoveMessages,
    Peek,
    Purge,
    PurgeOlder,
    Release,
    ReleaseAll,
    ReleaseMessages,
    Renew,
    Resend,
    ScanMessages,
)
from penstock.broker.moves import Moves
from penstock.broker.operations import Claim
from penstock.broker.polls import Polls
from penstock.broker.queues import (
    CountQueues,
    CreateQueue,
    DeadLetterSources,
    DeleteQueue,
    DescribeQueue,
    EnsureQueue,
    FindQueues,
    ListQueues,
    PageQueues,
    PauseQueue,
    ResumeQueue,
    UpdateQueue,
)
from penstock.broker.shipments import Shipments
from penstock.broker.shrinking import Shrinking
from penstock.clock import Clock
from penstock.model import (
    ALL_QUEUES,
    ANY_AGE,
    Actor,
    Ages,
    ConsumerReport,
    Count,
    CountedPage,
    Dealing,
    Draft,
    Found,
    History,
    LedgerSize,
    Message,
    Overview,
    OverviewQuery,
    PeekAfter,
    Queue,
    QueueChange,
    QueuePage,
    QueueReport,
    Receipt,
    Resent,
    Scan,
    Selection,
    Settings,
    Shipment,
    Shrunk,
    Sizes,
    Span,
    StoreFigures,
    Workers,
)
from penstock.pending import Pending
from penstock.stores.protocol import ExpressStore, Store
from penstock.timings import Timings

T = TypeVar("T")

# So long before the end of a grace those who wait are told, so that the answer still reaches them.
_LAST_WORD_S = 0.5


class LocalBroker:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        timings: Timings = Timings(),
        stopwatch: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._store = store
        self._counting = Counting()
        units = Units(store, clock, self._counting, stopwatch)
        # Where operations wait for a unit. The lanes look for those that have waited too long.
        arrived = Arrivals(store.limits)
        express = Express(store, units.now, loop, self._counting) if isinstance(store, ExpressStore) else None
        lanes = None if store.inline else Lanes(loop, store.lanes, timings.store_timeout_s, arrived, express)
        self._loop = loop
        self._polls = Polls(store, lanes, units.now, self._serve_first, loop, timings)
        self._commit = Commit(units, lanes, arrived, self._polls, loop, timings)
        # Bound once: these are called for every request.
        self.send = self._commit.send
        self.send_once = self._commit.send_once
        self.claim = self._commit.claim
        self.ack = self._commit.ack
        self._health = Health(self._commit, units, loop, timings.prove_s)
        self._shrinking = Shrinking(store, self._commit, loop, timings)
        self._chores = Chores(self._commit, self._shrinking, loop, timings)
        self._keeping = Keeping(self._commit, self._counting, units.now, loop, timings)
        self.moves = Moves(self._commit, self._chores.carry_on)
        self.shipments = Shipments(self._commit, Aside(store, units, self._commit, loop))
        self.leases = Leases(self._commit)
        self.ledger = Ledger(self._commit)
        self.exports = Exports(self._commit, timings.ledger_retention_ms)
        self.keys: protocol.Keys = Keys(self._commit)
        self.actions = Actions(self._commit)

    # Its life

    def start(self) -> None:
        self._chores.start()
        self._keeping.start()

    def stop(self, grace_s: float | None = None) -> None:
        """Waiting claims end without a message, and chores with the step that they are at; everything else that was
        accepted is still served. Just before the grace is over, those who still wait are told that it is in vain: a
        purge of many steps, say, has then done part of its work."""
        if grace_s is not None:
            last_word_s = min(_LAST_WORD_S, grace_s / 4)
            self._loop.call_later(grace_s - last_word_s, self._commit.refuse)
            self._loop.call_later(grace_s - last_word_s / 2, self._commit.refuse_all)
        self._commit.stop()
        self._chores.stop()
        self._keeping.stop()
        self._polls.stop()

    async def finish(self, grace_s: float) -> int:
        """After `stop`: serve what was accepted, begin no more units then, and wait until none is open; but not longer
        than this. How many still are: a store that does not answer must not keep the process from ending."""
        until = self._loop.time() + grace_s
        await self._commit.rest(grace_s / 2)
        await self._keeping.finish(max(0.0, until - self._loop.time()) / 2)
        return await self._commit.finish(max(0.0, until - self._loop.time()))

    def check(self) -> Pending[None]:
        return self._health.check()

    def check_room(self) -> Pending[bool]:
        return self._health.check_room()

    def waiting_claims(self) -> list[str]:
        """The queues of claims that wait for a message here, one entry each. Of this process alone, so it is not one of
        the verbs of `Broker`."""
        return [claim.queue for claim in self._polls.waiters]

    # What it has done, in this process

    def units(self) -> int:
        return self._commit.units

    def operations(self) -> int:
        return self._commit.operations

    def unit_sizes(self) -> list[int]:
        """How many units had so many operations: by `UNIT_SIZES`, and more."""
        return self._commit.unit_sizes

    def unit_seconds(self) -> float:
        return self._counting.unit_seconds

    def commit_seconds(self) -> float:
        return self._counting.commit_seconds

    def sync_seconds(self) -> float:
        return self._store.sync_seconds

    def units_written(self) -> int:
        return self._counting.units_written

    def store_errors(self) -> dict[str, int]:
        return self._counting.errors()

    def returned_bytes(self) -> int:
        return self._shrinking.returned_bytes

    def waiting(self) -> int:
        return self._polls.waiters.count

    def _serve_first(self, claims: list[Claim]) -> None:
        """The way back from the polls, which are made before the commit that parks claims there."""
        self._commit.submit_first(claims)

    # Figures

    def overview(self, query: OverviewQuery = ALL_QUEUES, rules: Sequence[str] | None = None) -> Pending[Overview]:
        return self._keeping.overview(query, rules)

    def history(self, queue: str, span: Span) -> Pending[History]:
        return self._keeping.history(queue, span)

    def workers_of(self, queue: str) -> Pending[Workers]:
        def complete(found: tuple[list[ConsumerReport], list[Shipment]]) -> Workers:
            return Workers(self.waiting_claims().count(queue), *found)

        return self._keeping.workers_of(queue).map(complete)

    def figures(self) -> Pending[StoreFigures]:
        def complete(found: tuple[Sizes, int, LedgerSize | None, int]) -> StoreFigures:
            sizes, open_shipments, ledger, now = found
            oldest = None if ledger is None else ledger.oldest_finished_at
            counting = self._counting
            median, p99 = counting.commit_ms()
            return StoreFigures(
                store_bytes=sizes.store_bytes,
                log_bytes=sizes.log_bytes,
                free_bytes=sizes.free_bytes,
                unused_bytes=sizes.unused_bytes,
                returned_bytes=self.returned_bytes(),
                ledger_rows=None if ledger is None else ledger.rows,
                ledger_bytes=None if ledger is None else ledger.bytes,
                ledger_oldest_ms=None if oldest is None else max(0, now - oldest),
                units=self.units(),
                operations=self.operations(),
                unit_seconds=counting.unit_seconds,
                commit_seconds=counting.commit_seconds,
                sync_seconds=self._store.sync_seconds,
                units_written=counting.units_written,
                commit_median_ms=median,
                commit_p99_ms=p99,
                waiting_claims=self.waiting(),
                open_shipments=open_shipments,
                errors=counting.errors(),
            )

        return self._keeping.measure_store().map(complete)

    def shrink(self, by: Actor | None = None) -> Pending[Shrunk]:
        return self._shrinking.shrink(by)

    def _changing(self, name: str, change: Pending[T]) -> Pending[T]:
        """The next overview looks at this queue before it is shown."""

        def changed(value: T) -> T:
            self._keeping.note_change(name)
            return value

        return change.map(changed)

    # Messages; `send`, `send_once`, `claim` and `ack` are bound above

    def ack_permitted(self, receipts: Sequence[Receipt], rules: Sequence[str]) -> Pending[list[bool]]:
        return self._commit.work(AckPermitted(receipts, rules))

    def renew(self, receipts: Sequence[Receipt], hold_ms: int, shorten: bool = False) -> Pending[list[bool]]:
        return self._commit.work(Renew(receipts, hold_ms, shorten))

    def release(self, receipts: Sequence[Receipt], delay_ms: int | None = None) -> Pending[list[bool]]:
        return self._commit.work(Release(receipts, delay_ms))

    def locate(self, receipts: Sequence[Receipt]) -> Pending[list[str | None]]:
        return self._commit.work(Locate(receipts))

    def release_all(self, queue: str, by: Actor | None = None) -> Pending[int]:
        return self._commit.work(ReleaseAll(queue, by))

    def purge(self, queue: str, by: Actor | None = None) -> Pending[int]:
        return self._commit.work(Purge(queue, by))

    def purge_older(self, queue: str, older_than_ms: int, by: Actor | None = None) -> Pending[int]:
        return self._commit.work(PurgeOlder(queue, older_than_ms, by))

    def peek(self, queue: str, limit: int, after: PeekAfter | None = None) -> Pending[list[Message]]:
        return self._commit.work(Peek(queue, limit, after))

    def scan(
        self, queue: str, selection: Selection, limit: int, ages: Ages = ANY_AGE, after: PeekAfter | None = None
    ) -> Pending[Scan]:
        return self._commit.work(ScanMessages(queue, selection, limit, ages, Scan([], 0, after)))

    def find_message(self, queue: str, message_id: str) -> Pending[Found | None]:
        return self._commit.work(FindMessage(queue, message_id))

    def delete_messages(
        self, queue: str, message_ids: Sequence[str], by: Actor | None = None
    ) -> Pending[list[Dealing]]:
        return self._commit.work(DeleteMessages(queue, message_ids, by))

    def release_messages(
        self, queue: str, message_ids: Sequence[str], by: Actor | None = None
    ) -> Pending[list[Dealing]]:
        return self._commit.work(ReleaseMessages(queue, message_ids, by))

    def move_messages(
        self,
        queue: str,
        message_ids: Sequence[str],
        target: str | None = None,
        as_new: bool = False,
        by: Actor | None = None,
    ) -> Pending[list[Dealing]]:
        return self._commit.work(MoveMessages(queue, message_ids, target, as_new, by))

    def resend(
        self,
        queue: str,
        message_id: str,
        draft: Draft,
        target: str | None = None,
        rules: Sequence[str] | None = None,
        by: Actor | None = None,
    ) -> Pending[Resent]:
        return self._commit.work(Resend(queue, message_id, draft, target, rules, by))

    def count(self, queue: str) -> Pending[Count]:
        return self._commit.work(CountMessages(queue))

    # Queues

    def create_queue(self, name: str, settings: Settings, by: Actor | None = None) -> Pending[Queue]:
        return self._changing(name, self._commit.work(CreateQueue(name, settings, by)))

    def ensure_queue(self, name: str, settings: Settings, by: Actor | None = None) -> Pending[None]:
        return self._changing(name, self._commit.work(EnsureQueue(name, settings, by)))

    def update_queue(
        self, name: str, change: QueueChange, rules: Sequence[str] | None = None, by: Actor | None = None
    ) -> Pending[Queue]:
        return self._changing(name, self._commit.work(UpdateQueue(name, change, rules, by)))

    def pause_queue(self, name: str, by: Actor | None = None) -> Pending[Queue]:
        return self._changing(name, self._commit.work(PauseQueue(name, by)))

    def resume_queue(self, name: str, by: Actor | None = None) -> Pending[Queue]:
        return self._changing(name, self._commit.work(ResumeQueue(name, by)))

    def delete_queue(self, name: str, by: Actor | None = None) -> Pending[Queue]:
        return self._changing(name, self._commit.work(DeleteQueue(name, by)))

    def find_queues(self, names: Sequence[str]) -> Pending[list[Queue | None]]:
        return self._commit.work(FindQueues(names))

    def describe_queue(self, name: str, tally: bool = False) -> Pending[QueueReport]:
        return self._commit.work(DescribeQueue(name, tally))

    def list_queues(self, offset: int, limit: int) -> Pending[QueuePage]:
        return self._commit.work(ListQueues(offset, limit))

    def page_queues(self, prefix: str, after: str, limit: int) -> Pending[list[Queue]]:
        return self._commit.work(PageQueues(prefix, after, limit))

    def dead_letter_sources(self, queue: str, after: str, limit: int) -> Pending[list[Queue]]:
        return self._commit.work(DeadLetterSources(queue, after, limit))

    def count_queues(self, offset: int, limit: int) -> Pending[CountedPage]:
        return self._commit.work(CountQueues(offset, limit))
