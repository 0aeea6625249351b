"""Streaming reads: every micro-batch is a shipment of each queue that has messages, and its offset tells their numbers.

`latestOffset`, `partitions` and `commit` run in one process on the driver, which also sends the heartbeats. A batch is
settled only after Spark has noted it as done. Spark says so (`commit`) when it builds the next batch, which for the
last one never happens, so `latestOffset` settles the batch it starts from as well.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from penstock.client import Client, Count, QueueNotFound, Shipment, Unauthorized
from penstock.spark.admission import Admission, Allowance, shares
from penstock.spark.columns import Columns
from penstock.spark.errors import ShipmentGone
from penstock.spark.feed import CHOICE, Bookmark, Feed
from penstock.spark.options import Options
from penstock.spark.progress import Backlog
from penstock.spark.queues import Queues
from penstock.spark.reader import read_slice, slices
from penstock.spark.server import counted

# By queue: its bookmark, as JSON.
Offset: TypeAlias = dict[str, dict[str, int]]

_HOLD_MS = 24 * 60 * 60 * 1000
# Spark asks again after ten milliseconds. Several queues that had nothing are left alone for so long.
_PAUSE_S = 0.1
# How old a backlog may be that is told of when nothing was claimed.
_BACKLOG_S = 1.0
logger = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options, schema: StructType) -> None:
        """Free of side effects: this runs in more processes than the one that plans."""
        options.check_stream()
        self._options = options
        self._columns = Columns(options, schema)
        self._hold_ms = options.hold_ms or _HOLD_MS
        self._queues = Queues(options.queues or (options.queue,))
        self._admission = Admission(options)
        self._feeds: dict[str, Feed] = {}
        self._open_client: Client | None = None
        # Of these no shipment is open that an earlier run has claimed.
        self._looked_at: set[str] = set()
        self._quiet_until = 0.0
        self._backlog: Backlog | None = None
        self._backlog_at: float | None = None
        self._may_count = True

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get a copy without connections and heartbeats."""
        return {**self.__dict__, "_open_client": None, "_feeds": {}}

    @property
    def _client(self) -> Client:
        if self._open_client is None:
            self._open_client = self._options.client()
        return self._open_client

    # Called on the driver

    def initialOffset(self) -> Offset:  # noqa: N802
        """Always the same: when Spark replays the first batch, it asks for its start again."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return self._admission.default_limit()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """As many as are in the queues now: what arrives later does not keep the query from ending."""
        counts = self._counts(self._queues.fix(self._client))
        self._admission.end_with({queue: count.total for queue, count in counts.items()})

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        bookmarks = _bookmarks(start)
        self._settle(bookmarks)
        allowance = self._admission.allow(limit)
        if allowance is None:
            return start
        claimed = self._claim(bookmarks, allowance)
        if not claimed:
            return start
        self._admission.note({queue: shipment.messages for queue, shipment in claimed.items()})
        self._backlog_at = None
        return self._offset(start, claimed)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Spark shows it in a query's progress, and does nothing else with it."""
        now = time.monotonic()
        if self._may_count and (self._backlog_at is None or now - self._backlog_at >= _BACKLOG_S):
            self._backlog_at = now
            try:
                self._backlog = self._look_back()
            except Unauthorized:
                self._may_count = False  # The key may read, and not count: so be it.
        return None if self._backlog is None else self._backlog.told()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        before = _bookmarks(start)
        found = [
            self._feed(queue).find(bookmark)
            for queue, bookmark in _bookmarks(end).items()
            if before.get(queue) != bookmark
        ]
        shipments = [shipment for shipment in found if shipment is not None]
        total = sum(shipment.messages for shipment in shipments)
        return [
            part
            for shipment in shipments
            for part in slices(shipment, max(1, round(self._options.partitions * shipment.messages / max(1, total))))
        ]

    def commit(self, end: Offset) -> None:
        self._settle(_bookmarks(end))

    def stop(self) -> None:
        for feed in self._feeds.values():
            feed.stop()
        if self._open_client is not None:
            self._open_client.close()

    # Called in tasks

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        try:
            yield from read_slice(self._options, self._columns, partition)
        except ShipmentGone as error:
            if self._options.after_loss == "fail":
                raise ShipmentGone(f"{error}; {CHOICE}", error.how) from None
            logger.warning("penstock: %s; the stream goes on without them", error)

    # What a batch is made of

    def _settle(self, bookmarks: Mapping[str, Bookmark]) -> None:
        for queue, bookmark in bookmarks.items():
            self._feed(queue).settle(bookmark)

    def _claim(self, bookmarks: Mapping[str, Bookmark], allowance: Allowance) -> dict[str, Shipment]:
        wanted = self._wanted(bookmarks, allowance)
        claimed: dict[str, Shipment] = {}
        room = allowance.max_bytes
        for index, (queue, messages) in enumerate(wanted.items()):
            bound = None if room is None else -(-room // (len(wanted) - index))
            if bound is not None and bound <= 0:
                break
            shipment = self._feed(queue).claim(bookmarks.get(queue), messages, bound)
            self._looked_at.add(queue)
            if shipment is not None:
                claimed[queue] = shipment
                room = None if room is None else room - shipment.bytes
        return claimed

    def _wanted(self, bookmarks: Mapping[str, Bookmark], allowance: Allowance) -> dict[str, int]:
        """How many messages of which queues to ask for. The only queue is asked for as many as there may be, and not
        looked at before; of several, each has its share."""
        only = self._queues.only
        if only is not None and not allowance.has_minimum:
            most = min(allowance.messages, self._admission.budget(only))
            return {only: most} if most else {}
        now = time.monotonic()
        if now < self._quiet_until:
            return {}
        queues = self._queues.list(self._client)
        counts = self._counts(queues)
        self._counts([queue for queue in bookmarks if queue not in queues])
        ready = {queue: min(count.ready, self._admission.budget(queue)) for queue, count in counts.items()}
        left = [queue for queue in counts if queue not in self._looked_at and self._is_left_open(queue)]
        self._looked_at.update(queue for queue in counts if queue not in left)
        if allowance.has_minimum and self._admission.hold_back(sum(ready.values())):
            ready = {}
        by_age = sorted((counts[queue].oldest_ready_sent_at or 0, queue) for queue in ready if ready[queue])
        if not by_age and not left and not self._admission.ends:
            self._quiet_until = now + _PAUSE_S
        # One that is open comes as it was claimed, whatever is asked for.
        return {**dict.fromkeys(left, 1), **shares({queue: ready[queue] for _, queue in by_age}, allowance.messages)}

    def _is_left_open(self, queue: str) -> bool:
        return self._admission.budget(queue) > 0 and self._feed(queue).is_open()

    def _offset(self, start: Offset, claimed: Mapping[str, Shipment]) -> Offset:
        """Where the stream is then, by the names of queues. One that is gone is forgotten."""
        bookmarks = {queue: bookmark for queue, bookmark in start.items() if not self._feed(queue).is_missing}
        bookmarks |= {queue: Bookmark.of(shipment).told() for queue, shipment in claimed.items()}
        return {queue: bookmarks[queue] for queue in sorted(bookmarks)}

    def _look_back(self) -> Backlog:
        now_ms = time.time_ns() // 1_000_000
        queues = {}
        for queue, count in self._counts(self._queues.list(self._client)).items():
            # Of many claimed messages not all are counted; those of this stream are known.
            messages = max(0, min(count.ready, count.total - self._feed(queue).held))
            sent_at = count.oldest_ready_sent_at if messages else None
            queues[queue] = Backlog(messages, 0 if sent_at is None else max(0, now_ms - sent_at))
        return Backlog.of(queues)

    def _counts(self, queues: Iterable[str]) -> dict[str, Count]:
        """Of those that are there."""
        counts = {}
        for queue in queues:
            try:
                counts[queue], _ = counted(self._client, queue)
            except QueueNotFound as error:
                self._feed(queue).miss(error)
        return counts

    def _feed(self, queue: str) -> Feed:
        if queue not in self._feeds:
            self._feeds[queue] = Feed(self._client, self._options.for_queue(queue), self._hold_ms)
        return self._feeds[queue]


def _bookmarks(offset: Offset) -> dict[str, Bookmark]:
    return {queue: Bookmark(**bookmark) for queue, bookmark in offset.items()}
