"""Batch reads: a look at a queue that consumes nothing, and the messages of a shipment.

A shipment is claimed by number when a query is planned, so planning it again finds the same messages. Reading changes
nothing, and nothing is settled here: the caller does that with `penstock.spark.settle` once the rows are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.client import Shipment, ShipmentConflict, ShipmentEnded, ShipmentRef
from penstock.spark.columns import Columns
from penstock.spark.errors import ShipmentGone
from penstock.spark.options import Options

# Of a shipment, unless an option says otherwise.
MESSAGES = 100_000
_HOLD_MS = 60 * 60 * 1000


@dataclass
class Slice(InputPartition):
    """The messages of a shipment at positions `start` up to, not including, `stop`."""

    shipment: ShipmentRef
    start: int
    stop: int


class PeekReader(DataSourceReader):
    """Every message of the queue, claimed or not, page by page."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._columns = Columns(options, schema)

    def partitions(self) -> list[InputPartition]:
        with self._options.client() as client:
            client.queue(self._options.queue)
        return [InputPartition(0)]

    def read(self, _partition: InputPartition) -> Iterator[pa.RecordBatch]:
        after = None
        with self._options.client() as client:
            while True:
                peeked = client.arrow.peek(self._options.queue, after=after)
                if peeked.batch.num_rows:
                    yield self._columns.of(peeked.batch)
                after = peeked.after
                if after is None:
                    return


class ShipmentReader(DataSourceReader):
    """The consumer's open shipment, or the next one, or the one that the option names."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._columns = Columns(options, schema)

    def partitions(self) -> list[InputPartition]:
        options = self._options
        consumer = options.named_consumer()
        with options.client() as client:
            if options.shipment:
                wanted = options.numbered(options.shipment)
            else:
                wanted = client.next_shipment(options.queue, consumer)
            try:
                claimed = client.claim_shipment(wanted, options.limit or MESSAGES, options.hold_ms or _HOLD_MS)
            except ShipmentEnded as error:
                raise gone(wanted, error.how) from None
            except ShipmentConflict as error:
                advice = (
                    "leave out the option shipment to read the one whose turn it is"
                    if options.shipment
                    else f"another reader uses the consumer {consumer!r}: give each reader a consumer of its own"
                )
                error.args = (f"{error}; {advice}",)
                raise
        return [] if claimed is None else slices(claimed, options.partitions)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        # Of an empty list Spark makes one partition without a value.
        return read_slice(self._options, self._columns, partition) if isinstance(partition, Slice) else iter(())


def slices(shipment: Shipment, wanted: int) -> list[InputPartition]:
    """At most `wanted` of them, as even as possible."""
    count = max(1, min(wanted, shipment.messages))
    bounds = [shipment.messages * index // count for index in range(count + 1)]
    return [Slice(shipment.ref, start, stop) for start, stop in pairwise(bounds)]


def read_slice(options: Options, columns: Columns, part: Slice) -> Iterator[pa.RecordBatch]:
    rows = 0
    with options.client() as client:
        try:
            for batch in client.arrow.read_shipment(part.shipment, part.start, part.stop):
                rows += batch.num_rows
                yield columns.of(batch)
        except ShipmentEnded as error:
            raise gone(part.shipment, error.how) from None
    if rows != part.stop - part.start:
        raise gone(part.shipment, "purged")


def gone(shipment: ShipmentRef, how: str) -> ShipmentGone:
    """What happened to a shipment, and what its reader can do."""
    advice = {
        "settled": "its messages were stored before it was settled; there is nothing to read again",
        "released": "its messages are back in the queue and come with a later number",
        "lost": "no heartbeat came in time, so its messages are back in the queue and come with a later number; "
        "a longer holdMs prevents that",
        "purged": "messages of it were purged from the queue; release it to read the rest with a later number",
    }.get(how, "read the next one")
    return ShipmentGone(
        f"shipment {shipment.number} of {shipment.consumer!r} from {shipment.queue!r} can no longer be read, "
        f"it was {how}: {advice}",
        how,
    )
