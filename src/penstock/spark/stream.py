"""Streaming reads: every micro-batch is one shipment, and its offset is the shipment's number.

`latestOffset`, `partitions` and `commit` run in one process on the driver, which also sends the heartbeats. A batch is
settled only after Spark has noted it as done. Spark says so (`commit`) when it builds the next batch, which for the
last one never happens, so `latestOffset` settles the batch it starts from as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from penstock import limits
from penstock.client import Client, Shipment, ShipmentConflict, ShipmentEnded, ShipmentNotFound
from penstock.spark.columns import Columns
from penstock.spark.errors import ShipmentGone
from penstock.spark.heartbeat import Heartbeat
from penstock.spark.options import Options
from penstock.spark.reader import gone, read_slice, slices
from penstock.spark.server import counted

_HOLD_MS = 24 * 60 * 60 * 1000
_GIVEN_BACK = ("released", "lost")
_START_OVER = "stop the query and start it with a new consumer and a new checkpoint"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options, schema: StructType) -> None:
        """Free of side effects: this runs in more processes than the one that plans."""
        options.named_consumer()
        self._options = options
        self._columns = Columns(options, schema)
        self._hold_ms = options.hold_ms or _HOLD_MS
        self._settled = 0
        # With the trigger availableNow: how many messages this run may still take.
        self._budget: int | None = None
        self._open_client: Client | None = None
        self._heartbeat: Heartbeat | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get a copy without the connection and the heartbeat."""
        return {**self.__dict__, "_open_client": None, "_heartbeat": None}

    @property
    def _client(self) -> Client:
        if self._open_client is None:
            self._open_client = self._options.client()
        return self._open_client

    # Called on the driver

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Always the same: when Spark replays the first batch, it asks for its start again."""
        return _offset(0)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """As many as are in the queue now: what arrives later does not keep the query from ending."""
        _, tally = counted(self._client, self._options.queue)
        self._budget = max(0, tally.arrived - tally.departed)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        done = start["shipment"]
        self._settle(done)
        wanted = limit.max_rows if isinstance(limit, ReadMaxRows) else limits.SHIPMENT_ROWS
        if self._budget is not None:
            wanted = min(wanted, self._budget)
        if wanted == 0:
            return start
        shipment = self._claim(self._following(done), min(wanted, limits.SHIPMENT_ROWS))
        if shipment is None:
            return start
        if self._budget is not None:
            self._budget = max(0, self._budget - shipment.messages)
        return _offset(shipment.number)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        if start == end:
            return []
        # After a restart this batch comes from the checkpoint, with no `latestOffset` before it.
        number = end["shipment"]
        try:
            found = self._client.shipment(self._options.numbered(number))
        except ShipmentNotFound as error:
            error.args = (f"the server does not know shipment {number} of the checkpoint; {_START_OVER}",)
            raise
        if found.state in _GIVEN_BACK:
            raise ShipmentGone(f"{gone(self._options, number, found.state)}; {_START_OVER}", found.state)
        if found.state == "open":
            self._beat(number)
        return slices(found, self._options.partitions)

    def commit(self, end: dict[str, int]) -> None:
        self._settle(end["shipment"])

    def stop(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self._open_client is not None:
            self._open_client.close()

    # Called in tasks

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return read_slice(self._options, self._columns, partition)

    def _settle(self, number: int) -> None:
        """Kept readable until the next one is settled: a batch that Spark replays finds its messages."""
        if number <= self._settled:
            return
        if self._heartbeat is not None:
            self._heartbeat.stop()
        try:
            self._client.settle_shipment(self._options.numbered(number), keep=True)
        except ShipmentEnded as error:
            raise ShipmentGone(
                f"shipment {number} was processed, but {error.how} before it could be settled, so its messages are in "
                f"the queue once more and would come a second time; {_START_OVER} if that is acceptable",
                error.how,
            ) from None
        except ShipmentNotFound:
            pass  # It ended so long ago that it is forgotten.
        self._settled = number

    def _following(self, done: int) -> int:
        """A query that has read nothing yet begins where its consumer is."""
        if done:
            return done + 1
        return self._client.next_shipment(self._options.queue, self._options.named_consumer()).number

    def _claim(self, number: int, limit: int) -> Shipment | None:
        while True:
            try:
                shipment = self._client.claim_shipment(self._options.numbered(number), limit, self._hold_ms)
            except ShipmentEnded as error:
                if error.how not in _GIVEN_BACK:
                    raise ShipmentGone(self._taken(number), error.how) from None
                # Claimed by a run that ended before Spark noted it: its messages come with a later number.
                number += 1
            except ShipmentConflict as error:
                error.args = (self._taken(number, f" ({error})"),)
                raise
            else:
                if shipment is not None:
                    self._beat(shipment.number)
                return shipment

    def _taken(self, number: int, why: str = "") -> str:
        return (
            f"shipment {number} is not this query's to read{why}: another query uses the consumer "
            f"{self._options.consumer!r}, or the checkpoint is an old one; {_START_OVER}"
        )

    def _beat(self, number: int) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self._heartbeat = Heartbeat(self._client, self._options.numbered(number), self._hold_ms)
        self._heartbeat.start()


def _offset(number: int) -> dict[str, int]:
    # One key: offsets are compared as JSON text.
    return {"shipment": number}
