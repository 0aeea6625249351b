"""How figures are kept: what has happened goes into the store every few seconds, and the snapshot of queues follows.

One step after the other, each in a unit that also serves others. A step that fails is made again by the next round:
what was to be kept waits for it. Where nothing happens, nothing is written: depths that stay as they are go into the
history every ten minutes, and those of an empty queue once.

A round keeps what has happened in a bounded number of queues, reads what all servers have kept, counts the queues in
which something has happened, and looks at the next page of all queues. So a queue that is at work is known to within
seconds, and one that lies idle is looked at now and then, although nothing can have changed there but by a clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NoReturn

from penstock.broker.commit import Commit
from penstock.broker.counting import Counting
from penstock.broker.figures import (
    BucketPage,
    FindNumbers,
    KeepFigures,
    LookAtQueues,
    LookForWorkers,
    LookOn,
    MeasureStore,
    ReadBuckets,
    ReadHistory,
    SampleDepths,
    Seen,
    with_unkept,
)
from penstock.broker.overview import SPARK_MINUTES, Entry, KnownQueues
from penstock.complaint import Complaint
from penstock.errors import TryAgain
from penstock.model import (
    ConsumerReport,
    Depths,
    Happened,
    History,
    LedgerSize,
    Overview,
    OverviewQuery,
    Shipment,
    Sizes,
    Span,
    Totals,
)
from penstock.pending import Pending, chained, resolved
from penstock.stores.figures import DEPTHS_LAST_MS, MINUTE_MS, bucket_of
from penstock.timings import Timings

log = logging.getLogger(__name__)

# Queues of one round: whose counts are kept, that are counted, and whose depths are kept.
_KEPT = 1_000
_COUNTED = 200
_SAMPLED = 1_000
# Queues of one unit that writes.
_KEPT_TOGETHER = 100
# A page of so many rows or fewer is counted once more when its rows are older than this.
_LIVE_ROWS = 100
_LIVE_S = 1.0
# A queue with claims or delays changes by the clock alone: it is counted this often.
_RUNNING_S = 15.0
_EMPTY = Depths(0, 0, 0, None)


class Keeping:
    """`now` is the time of the store."""

    def __init__(
        self,
        commit: Commit,
        counting: Counting,
        now: Callable[[], int],
        loop: asyncio.AbstractEventLoop,
        timings: Timings,
    ) -> None:
        self._commit = commit
        self._counting = counting
        self._now = now
        self._loop = loop
        self._pause_s = timings.figures_s
        self._snapshot = KnownQueues(counting)
        self._trouble = Complaint(log)
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        # Those who wait for the first look at all queues, while that is under way.
        self._loading: list[Pending[None]] | None = None
        self._is_loaded = False
        # Queues to look at, by name, the first to come first.
        self._due: dict[str, None] = {}
        # Queues that were made, changed or deleted here, each with the number of its latest change: no page is shown
        # before they were looked at.
        self._changed: dict[str, int] = {}
        self._changes = 0
        self._moving: set[Entry] = set()
        self._read_since = 0
        self._look_after = ""
        self._round: set[str] = set()
        # Numbers of queues in which something has happened: not known yet, and known to be of none any more.
        self._unknown: set[int] = set()
        self._gone: set[int] = set()
        self._sampled_at = 0

    # Its life

    def start(self) -> None:
        self._load().listen(lambda _none: self._rest(), lambda _error: self._rest())

    def stop(self) -> None:
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()

    async def finish(self, grace_s: float) -> None:
        """Keep what has happened until the end, if the store takes it in time."""
        kept = self._loop.create_future()

        def end(_result: object) -> None:
            if not kept.done():
                kept.set_result(None)

        self._keep(_KEPT * _KEPT).listen(end, end)
        with suppress(TimeoutError):
            await asyncio.wait_for(kept, grace_s)

    def note_change(self, name: str) -> None:
        """A queue was made, changed or deleted."""
        self._changes += 1
        self._changed[name] = self._changes

    # Verbs

    def overview(self, query: OverviewQuery, rules: Sequence[str] | None) -> Pending[Overview]:
        def show(_none: object) -> Overview:
            return self._snapshot.overview(query, rules, self._now())

        def refresh(_none: object) -> Pending[Overview]:
            if query.limit > _LIVE_ROWS:
                return resolved(show(None))
            old = self._loop.time() - _LIVE_S
            names = [entry.queue.name for entry in self._snapshot.page(query, rules) if entry.counted_at < old]
            return self._look(names).map(show) if names else resolved(show(None))

        def look_at_changed(_none: None) -> Pending[Overview]:
            return chained(self._look_at_changed(), refresh) if self._changed else refresh(None)

        return chained(self._load(), look_at_changed)

    def history(self, queue: str, span: Span) -> Pending[History]:
        def complete(found: tuple[int, History]) -> History:
            number, history = found
            return with_unkept(history, self._counting.unkept().get(number))

        return self._commit.work(ReadHistory(queue, span)).map(complete)

    def workers_of(self, queue: str) -> Pending[tuple[list[ConsumerReport], list[Shipment]]]:
        return self._commit.work(LookForWorkers(queue))

    def measure_store(self) -> Pending[tuple[Sizes, int, LedgerSize | None, int]]:
        return self._commit.work(MeasureStore())

    # The snapshot

    def _load(self) -> Pending[None]:
        """Look at all queues for the first time, or wait until that is done."""
        if self._is_loaded:
            return resolved(None)
        waiting: Pending[None] = Pending()
        if self._loading is not None:
            self._loading.append(waiting)
            return waiting
        self._loading = [waiting]

        def go_on(seen: Sequence[Seen]) -> None:
            self._snapshot.take_in(seen, self._loop.time())
            if seen:
                self._commit.work(LookOn(seen[-1].name), patient=True).listen(go_on, failed)
            else:
                since = bucket_of(self._now(), MINUTE_MS) - (SPARK_MINUTES - 1) * MINUTE_MS
                self._read_buckets(since).listen(loaded, failed)

        def loaded(_none: None) -> None:
            self._is_loaded = True
            waiters, self._loading = self._loading or [], None
            for waiter in waiters:
                waiter.resolve(None)

        def failed(error: Exception) -> None:
            waiters, self._loading = self._loading or [], None
            for waiter in waiters:
                waiter.reject(error)

        self._commit.work(LookOn(""), patient=True).listen(go_on, failed)
        return waiting

    def _look(self, names: Sequence[str], patient: bool = False) -> Pending[None]:
        def take_in(seen: Sequence[Seen]) -> None:
            self._snapshot.take_in(seen, self._loop.time())

        return self._commit.work(LookAtQueues(names), patient).map(take_in)

    def _look_at_changed(self, limit: int | None = None, patient: bool = False) -> Pending[None]:
        """One that changes meanwhile is to be looked at again."""
        changed = dict(islice(self._changed.items(), limit))

        def looked(_none: None) -> None:
            for name, change in changed.items():
                if self._changed.get(name) == change:
                    del self._changed[name]

        return self._look(list(changed), patient).map(looked) if changed else resolved(None)

    # Rounds

    def _rest(self) -> None:
        if not self._stopping:
            self._timer = self._loop.call_later(self._pause_s, self._begin)

    def _begin(self) -> None:
        if not self._is_loaded:
            self.start()
            return
        keep = self._keep(_KEPT)
        read = chained(keep, lambda _none: self._read())
        find = chained(read, lambda _none: self._find_unknown())
        change = chained(find, lambda _none: self._look_at_changed(_COUNTED, patient=True))
        count = chained(change, lambda _none: self._count_some())
        look = chained(count, lambda _none: self._look_on())
        chained(look, lambda _none: self._sample()).listen(self._ended, self._failed)

    def _ended(self, _none: None) -> None:
        self._trouble.end("figures of queues are kept again")
        self._rest()

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, TryAgain) and not self._stopping:
            self._trouble.say(f"figures of queues could not be kept: {error}")
        self._rest()

    def _keep(self, limit: int) -> Pending[None]:
        """In units of a few queues each."""
        if limit <= 0:
            return resolved(None)
        happened = self._counting.take(min(limit, _KEPT_TOGETHER))
        if not happened:
            return resolved(None)

        def arrived(totals: Mapping[int, Totals]) -> Pending[None]:
            self._counting.arrived(happened)
            self._snapshot.note_kept(totals, self._loop.time() - self._pause_s)
            self._make_due(happened)
            return self._keep(limit - len(happened))

        def failed(error: Exception) -> NoReturn:
            self._counting.failed(happened)
            raise error

        return chained(self._commit.work(KeepFigures(happened), patient=True).map(_unchanged, failed), arrived)

    def _make_due(self, happened: Happened) -> None:
        for number in happened:
            entry = self._snapshot.find(number)
            if entry is not None:
                self._due[entry.queue.name] = None
            elif number not in self._gone:
                self._unknown.add(number)

    def _read(self) -> Pending[None]:
        """What all servers have kept lately: in the minutes since the last look, and the one before."""
        return self._read_buckets(self._read_since - MINUTE_MS)

    def _read_buckets(self, since: int) -> Pending[None]:
        """Page by page, each of which is taken in at once: those of an hour may be very many."""
        done: Pending[None] = Pending()
        totals: dict[int, Totals] = {}

        def go_on(page: BucketPage) -> None:
            totals.update(page.totals)
            for bucket in page.buckets:
                self._snapshot.note_bucket(bucket)
            if page.after is None:
                self._take_in_totals(totals)
                done.resolve(None)
            else:
                read_on(page.after)

        def read_on(after: tuple[int, int]) -> None:
            task = ReadBuckets(since, after, totals.keys())
            self._commit.work(task, patient=True).listen(go_on, done.reject)

        read_on((0, 0))
        return done

    def _take_in_totals(self, totals: Mapping[int, Totals]) -> None:
        at = self._loop.time()
        for number, known in totals.items():
            entry = self._snapshot.find(number)
            if entry is None:
                if number not in self._gone:
                    self._unknown.add(number)
                continue
            before = entry.stored
            entry.know(known, at - self._pause_s)
            if entry.stored != before:
                self._due[entry.queue.name] = None
            self._moving.add(entry)
        # Of queues that are gone, those of which there is still a bucket.
        self._gone.intersection_update(totals)
        still = set()
        for entry in self._moving:
            entry.measure(at)
            if entry.queue.number not in totals and not (entry.send_rate or entry.ack_rate):
                entry.rest()
                still.add(entry)
        self._moving -= still
        self._read_since = bucket_of(self._now(), MINUTE_MS)

    def _find_unknown(self) -> Pending[None]:
        """Queues that others have made, or a send: all names are read, for there is no other way to learn theirs."""
        if not self._unknown:
            return resolved(None)
        sought, self._unknown = self._unknown, set()

        def found(queues: Mapping[int, str]) -> None:
            self._due.update(dict.fromkeys(queues.values()))
            self._gone |= sought.difference(queues)

        return self._commit.work(FindNumbers(frozenset(sought)), patient=True).map(found)

    def _count_some(self) -> Pending[None]:
        old = self._loop.time() - _RUNNING_S
        names = list(self._due)[:_COUNTED]
        for name in names:
            del self._due[name]
        for entry in self._snapshot.entries.values():
            if len(names) >= _COUNTED:
                break
            if entry.counted_at < old and (entry.count.delayed or entry.count.claimed):
                names.append(entry.queue.name)
        return self._look(names, patient=True) if names else resolved(None)

    def _look_on(self) -> Pending[None]:
        """The next page of all queues. Those that a whole round has not met are gone."""

        def take_in(seen: Sequence[Seen]) -> None:
            self._snapshot.take_in(seen, self._loop.time())
            self._round.update(one.name for one in seen)
            if seen:
                self._look_after = seen[-1].name
                return
            for name in [name for name in self._snapshot.entries if name not in self._round]:
                self._due[name] = None  # a look finds it gone, or made since
            self._look_after = ""
            self._round = set()

        return self._commit.work(LookOn(self._look_after), patient=True).map(take_in)

    def _sample(self) -> Pending[None]:
        """Once a minute, the depths that have changed, and from time to time those that have not."""
        minute = bucket_of(self._now(), MINUTE_MS)
        if minute == self._sampled_at:
            return resolved(None)
        wanted: list[Entry] = []
        for entry in self._snapshot.entries.values():
            depths = entry.depths()
            if entry.sampled_at == minute and entry.sampled is not None:
                continue  # another server has looked
            is_old = entry.sampled_at <= minute - DEPTHS_LAST_MS
            if depths != (entry.sampled or _EMPTY) or (is_old and depths != _EMPTY):
                wanted.append(entry)
        self._sampled_at = minute
        # Where they are too many for one minute, each has its turn.
        wanted.sort(key=lambda entry: entry.sampled_at)
        return self._keep_depths(wanted[:_SAMPLED], minute)

    def _keep_depths(self, entries: Sequence[Entry], minute: int) -> Pending[None]:
        if not entries:
            return resolved(None)
        some = {entry: entry.depths() for entry in entries[:_KEPT_TOGETHER]}

        def kept(_none: None) -> Pending[None]:
            for entry, depths in some.items():
                entry.sampled, entry.sampled_at = depths, minute
            return self._keep_depths(entries[_KEPT_TOGETHER:], minute)

        sample = SampleDepths({entry.queue.number: depths for entry, depths in some.items()})
        return chained(self._commit.work(sample, patient=True), kept)


def _unchanged(totals: Mapping[int, Totals]) -> Mapping[int, Totals]:
    return totals
