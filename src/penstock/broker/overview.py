"""The snapshot of all queues, as a broker knows them: what is in them, what has happened lately, and pages of that.

It is in memory, so that a page of ten thousand queues in any order costs no look at the store. How it stays true is the
work of `keeping.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import astuple

from penstock.broker.counting import Counting
from penstock.broker.figures import Seen
from penstock.keys import EVERY_QUEUE, permits
from penstock.model import (
    Bucket,
    Count,
    Depths,
    Happened,
    Overview,
    OverviewQuery,
    OverviewRow,
    OverviewSort,
    OverviewSums,
    Queue,
    Totals,
)
from penstock.stores.figures import MINUTE_MS, PLACES

_SENT, _ACKED = 0, 3
_DEAD_LETTERED = 5
# A spark line has so many minutes.
SPARK_MINUTES = 60
# Totals at the latest looks, over which rates are told.
_SAMPLES = 4
_NOTHING = Count(0, 0, 0, 0, exact=True)


class Entry:
    """What is known of one queue. Instants are the event loop's, but for the minutes of the spark line."""

    __slots__ = (
        "_minutes",
        "_samples",
        "ack_rate",
        "count",
        "counted_at",
        "last_minute",
        "queue",
        "sampled",
        "sampled_at",
        "send_rate",
        "stored",
    )

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.count = _NOTHING
        self.counted_at = float("-inf")
        # The totals that the store is known to have; they never go back.
        self.stored = [0] * PLACES
        # Depths as they were last kept in the store, and in the bucket of which minute.
        self.sampled: Depths | None = None
        self.sampled_at = 0
        self.send_rate = 0.0
        self.ack_rate = 0.0
        self._samples: list[tuple[float, int, int]] = []
        # Sends, then acks, of the last minutes in turn; made when there is something to tell.
        self._minutes: array[int] | None = None
        self.last_minute = 0

    def know(self, totals: Totals, at: float) -> None:
        """The totals that the store has; at the instant `at` it had those that were known before, or more."""
        told = list(map(max, self.stored, astuple(totals)))
        if not self._samples and told != self.stored:
            self._samples = [(at, self.stored[_SENT], self.stored[_ACKED])]
        self.stored = told

    def rest(self) -> None:
        """Nothing happens any more. What happens next has a rate of its own."""
        self._samples = []

    def measure(self, at: float) -> None:
        """Tell rates, from totals at this instant and at the looks before it."""
        sent, acked = self.stored[_SENT], self.stored[_ACKED]
        samples = self._samples = [*self._samples[1 - _SAMPLES :], (at, sent, acked)]
        since, sent_then, acked_then = samples[0]
        seconds = at - since
        if seconds > 0:
            self.send_rate = (sent - sent_then) / seconds
            self.ack_rate = (acked - acked_then) / seconds

    def note_minute(self, minute: int, sent: int, acked: int) -> None:
        if self._minutes is None:
            self._minutes = array("q", bytes(8 * 2 * SPARK_MINUTES))
            self.last_minute = minute
        if minute > self.last_minute:
            for skipped in range(max(self.last_minute + 1, minute - SPARK_MINUTES + 1), minute + 1):
                self._set_minute(skipped, 0, 0)
            self.last_minute = minute
        if minute > self.last_minute - SPARK_MINUTES:
            self._set_minute(minute, sent, acked)

    def _set_minute(self, minute: int, sent: int, acked: int) -> None:
        if self._minutes is not None:
            place = minute % SPARK_MINUTES
            self._minutes[place] = sent
            self._minutes[place + SPARK_MINUTES] = acked

    def spark(self, minute: int, acks: bool) -> list[int]:
        """The last minutes, this one included, the oldest first."""
        minutes = self._minutes
        if minutes is None:
            return [0] * SPARK_MINUTES
        first, offset = self.last_minute - SPARK_MINUTES, SPARK_MINUTES if acks else 0
        return [
            minutes[one % SPARK_MINUTES + offset] if first < one <= self.last_minute else 0
            for one in range(minute - SPARK_MINUTES + 1, minute + 1)
        ]

    def depths(self) -> Depths:
        count = self.count
        return Depths(count.ready, count.delayed, count.claimed, count.oldest_ready_sent_at)


def _oldest(entry: Entry) -> int:
    """So that the oldest is the greatest, and a queue with none ready the least."""
    sent_at = entry.count.oldest_ready_sent_at
    return -(2**63) if sent_at is None else -sent_at


class KnownQueues:
    def __init__(self, counting: Counting) -> None:
        self._counting = counting
        # As of the page that is being made.
        self._unkept: Happened = {}
        self.entries: dict[str, Entry] = {}
        self._by_number: dict[int, Entry] = {}
        self._keys: dict[OverviewSort, Callable[[Entry], Any]] = {
            OverviewSort.NAME: lambda entry: entry.queue.name,
            OverviewSort.READY: lambda entry: entry.count.ready,
            OverviewSort.DELAYED: lambda entry: entry.count.delayed,
            OverviewSort.CLAIMED: lambda entry: entry.count.claimed,
            OverviewSort.TOTAL: lambda entry: entry.count.total,
            OverviewSort.OLDEST: _oldest,
            OverviewSort.SENDS: lambda entry: entry.send_rate,
            OverviewSort.ACKS: lambda entry: entry.ack_rate,
            OverviewSort.DEAD_LETTERS: lambda entry: self._totals(entry)[_DEAD_LETTERED],
            OverviewSort.PAUSED: lambda entry: -(entry.queue.paused_at or 2**63),
        }

    # What was found

    def take_in(self, seen: Iterable[Seen], at: float) -> None:
        for one in seen:
            if one.queue is None:
                self.forget(one.name)
                continue
            entry = self.entries.get(one.name)
            if entry is None or entry.queue.number != one.queue.number:
                self.forget(one.name)
                entry = self.entries[one.name] = self._by_number[one.queue.number] = Entry(one.queue)
                entry.stored = list(astuple(one.totals))
            entry.queue, entry.count, entry.counted_at = one.queue, one.count, at
            entry.know(one.totals, at)

    def forget(self, name: str) -> None:
        entry = self.entries.pop(name, None)
        if entry is not None:
            del self._by_number[entry.queue.number]

    def find(self, number: int) -> Entry | None:
        return self._by_number.get(number)

    def note_kept(self, totals: Mapping[int, Totals], at: float) -> None:
        """These are in the store, with what has happened since that instant. They are told whole, because a look at the
        store may have overtaken them: then what is added would count twice, and be gone with this process."""
        for number, known in totals.items():
            entry = self.find(number)
            if entry is not None:
                entry.know(known, at)

    def note_bucket(self, bucket: Bucket) -> Entry | None:
        entry = self.find(bucket.queue)
        if entry is not None:
            entry.note_minute(bucket.since // MINUTE_MS, bucket.totals.sent, bucket.totals.acked)
            if bucket.depths is not None and bucket.since >= entry.sampled_at:
                entry.sampled, entry.sampled_at = bucket.depths, bucket.since
        return entry

    def _totals(self, entry: Entry) -> list[int]:
        unkept = self._unkept.get(entry.queue.number)
        return entry.stored if unkept is None else [sum(pair) for pair in zip(entry.stored, unkept, strict=True)]

    # Pages

    def page(self, query: OverviewQuery, rules: Sequence[str] | None) -> list[Entry]:
        """The entries of the page alone."""
        self._unkept = self._counting.unkept()
        return self._sorted(query, self._found(query, rules))[query.offset : query.offset + query.limit]

    def overview(self, query: OverviewQuery, rules: Sequence[str] | None, now: int) -> Overview:
        self._unkept = {} if query.kept else self._counting.unkept()
        takers = self._takers()
        found = self._found(query, rules)
        shown = self._sorted(query, found)[query.offset : query.offset + query.limit]
        minute = now // MINUTE_MS
        rows = [self._row(entry, entry.queue.name in takers, minute if query.sparks else None, now) for entry in shown]
        return Overview(len(found), self._sums(found), now, rows)

    def _found(self, query: OverviewQuery, rules: Sequence[str] | None) -> list[Entry]:
        part = query.contains.casefold()
        entries: Iterable[Entry] = self.entries.values()
        if part:
            entries = [entry for entry in entries if part in entry.queue.name.casefold()]
        if query.dead_letter_queues:
            takers = self._takers()
            entries = [entry for entry in entries if entry.queue.name in takers]
        if not permits(rules, "get_status", EVERY_QUEUE):
            entries = [entry for entry in entries if permits(rules, "get_status", entry.queue.name)]
        return list(entries)

    def _takers(self) -> set[str]:
        """Those that take the dead letters of others."""
        redrives = [entry.queue.settings.redrive for entry in self.entries.values()]
        return {redrive.dead_letter_queue for redrive in redrives if redrive is not None}

    def _sorted(self, query: OverviewQuery, entries: list[Entry]) -> list[Entry]:
        by_name = query.sort is OverviewSort.NAME
        descending = not by_name if query.descending is None else query.descending
        if not by_name:
            entries.sort(key=self._keys[OverviewSort.NAME])
        # Sorting is stable, also the other way round: those that are alike stand by name.
        entries.sort(key=self._keys[query.sort], reverse=descending)
        return entries

    def _row(self, entry: Entry, takes_dead_letters: bool, minute: int | None, now: int) -> OverviewRow:
        count, oldest = entry.count, entry.count.oldest_ready_sent_at
        return OverviewRow(
            name=entry.queue.name,
            ready=count.ready,
            delayed=count.delayed,
            claimed=count.claimed,
            total=count.total,
            exact=count.exact,
            oldest_ready_sent_at=oldest,
            oldest_ready_ms=None if oldest is None else max(0, now - oldest),
            sends_per_second=round(entry.send_rate, 3),
            acks_per_second=round(entry.ack_rate, 3),
            totals=Totals(*self._totals(entry)),
            takes_dead_letters=takes_dead_letters,
            paused_at=entry.queue.paused_at,
            sent_by_minute=[] if minute is None else entry.spark(minute, acks=False),
            acked_by_minute=[] if minute is None else entry.spark(minute, acks=True),
        )

    def _sums(self, entries: Iterable[Entry]) -> OverviewSums:
        ready = delayed = claimed = total = dead_lettered = paused = 0
        sends = acks = 0.0
        for entry in entries:
            count = entry.count
            ready += count.ready
            delayed += count.delayed
            claimed += count.claimed
            total += count.total
            sends += entry.send_rate
            acks += entry.ack_rate
            dead_lettered += self._totals(entry)[_DEAD_LETTERED]
            paused += entry.queue.paused_at is not None
        return OverviewSums(ready, delayed, claimed, total, round(sends, 3), round(acks, 3), dead_lettered, paused)
