"""Puts a shipment or an export into the lake: what one Spark task does, with Arrow, from the server to the file.

Its rows come page by page, the next ones while this one is written, and leave as row groups: memory holds a few pages,
however large the shipment is. Doing it again, or twice at the same time, comes to the same file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType, StructType, _parse_datatype_string

from penstock import limits
from penstock.client import Client, ClientError, Export, Shipment, ShipmentEnded
from penstock.spark.codec import decoder_of
from penstock.spark.errors import JobFailed, ShipmentGone
from penstock.spark.lake import LEDGER_COLUMNS
from penstock.spark.manifest import Manifest, Place
from penstock.spark.server import Server
from penstock.spark.storage import Storage
from penstock.spark.tables import PARQUET, Table, table_of
from penstock.spark.tasks import in_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PAGES_AHEAD = 2
_INSTANT = pa.timestamp("us", "UTC")
_KEPT = ("id", "body", "content_type", "attributes", "sent_at", "receives", "claimed_at", "group")
_GIVEN_BACK = ("released", "lost")
_BYTES = BinaryType()

T = TypeVar("T")


@dataclass(frozen=True)
class Body:
    """What the lake's column `body` is: `binary`, `text`, or `json`, values of a schema (`a int, b string`)."""

    format: str = "binary"
    schema: str | None = None

    def kind(self) -> DataType:
        """On the driver: only Spark's Java side can parse a type."""
        if self.format == "json":
            if self.schema is None:
                raise ValueError("json needs a schema")
            return _type_of(self.schema)
        return StringType() if self.format == "text" else BinaryType()


class Landed(Struct, frozen=True):
    """What became of it: it is in the lake, or it had ended before (`ended` says how), or it cannot be (`error`)."""

    manifest: Manifest | None = None
    ended: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Landing:
    """What a task has to know. It can be pickled."""

    server: Server
    storage: Storage
    batch: Shipment | Export
    format: str = "binary"
    kind: DataType = _BYTES
    table_format: str = PARQUET

    @property
    def place(self) -> Place:
        batch = self.batch
        return Place(
            batch.consumer, batch.number, batch.claimed_at, batch.queue if isinstance(batch, Shipment) else None
        )

    @property
    def rows(self) -> int:
        return self.batch.messages if isinstance(self.batch, Shipment) else self.batch.rows

    def run(self, spark: SparkSession) -> Landed:
        return in_task(spark, self.land, Landed)

    @property
    def table(self) -> Table:
        return table_of(self.storage, self.place.root, self.table_format)

    def land(self) -> Landed:
        """In the task. What the server answers is told, not raised: requests were retried already, so that another
        attempt would not help."""
        try:
            return Landed(self.table.known(self.place) or self._write())
        except ShipmentEnded as error:
            return Landed(ended=error.how)
        except (ClientError, JobFailed) as error:
            return Landed(error=str(error))

    def _write(self) -> Manifest:
        with self.server.client() as client:
            batch = self.batch
            if isinstance(batch, Shipment):
                parts = (client.arrow.read_shipment(batch, *part) for part in _parts(0, batch.messages))
                shaped = partial(_messages, self)
            else:
                parts = (client.arrow.read_export(batch, *part) for part in _parts(batch.after, batch.through))
                shaped = partial(_ledger_rows, self)
            batches = map(shaped, ahead(parts, _PAGES_AHEAD))
            return self.table.write(self.place, batches, self.rows, partial(self._check, client))

    def _check(self, client: Client) -> None:
        """That it is still this consumer's. An export stays one, whatever happens."""
        if isinstance(self.batch, Shipment):
            shipment = client.shipment(self.batch)
            if shipment.state in _GIVEN_BACK:
                raise ShipmentGone("its messages are the queue's again", shipment.state)
            if shipment.claimed_at != self.batch.claimed_at:
                raise ShipmentGone("its number is another claim's by now", "lost")


def _parts(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Bounds of what the server hands out in one page, unless bodies are large."""
    return ((first, min(first + limits.BULK_LIMIT, stop)) for first in range(start, stop, limits.BULK_LIMIT))


def _messages(landing: Landing, page: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that the lake keeps of a message. A body that does not decode is null, and as it came beside it."""
    bodies = page["body"]
    decode = decoder_of(landing.format, landing.kind)
    columns = {name: page[name] for name in _KEPT if name in page.schema.names}
    columns["sent_at"] = page["sent_at"].cast(_INSTANT)
    columns["claimed_at"] = _repeated(landing.batch.claimed_at, page.num_rows)
    if decode is not None:
        columns["body"] = decode(bodies, to_arrow_type(landing.kind, timezone="UTC"))
        columns["bad_record"] = pc.if_else(columns["body"].is_null(), bodies, pa.scalar(None, bodies.type))
    return pa.RecordBatch.from_pydict({name: columns[name] for name in (*_KEPT, "bad_record") if name in columns})


def _ledger_rows(landing: Landing, page: pa.RecordBatch) -> pa.RecordBatch:
    columns = {name: page[name] for name in LEDGER_COLUMNS if name != "exported_at"}
    instants = {name: column.cast(_INSTANT) for name, column in columns.items() if pa.types.is_timestamp(column.type)}
    exported_at = _repeated(landing.batch.claimed_at, page.num_rows)
    return pa.RecordBatch.from_pydict({**columns, **instants, "exported_at": exported_at})


def _repeated(instant: int, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(instant * 1000, pa.int64()).cast(_INSTANT), rows)


def ahead(parts: Iterable[Iterator[T]], count: int) -> Iterator[T]:
    """All of each part, in their order. While one is looked at, the next `count` are begun, each by a thread."""
    begun: deque[Future[Iterator[T]]] = deque()
    with ThreadPoolExecutor(count, "pages ahead") as threads:
        try:
            for part in parts:
                begun.append(threads.submit(_begun, part))
                if len(begun) > count:
                    yield from begun.popleft().result()
            while begun:
                yield from begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()


def _begun(part: Iterator[T]) -> Iterator[T]:
    """The same, with its first item fetched."""
    return chain(list(islice(part, 1)), part)


def _type_of(schema: str) -> DataType:
    """`a int, b string` are the fields of a struct; `array<int>` is a type by itself."""
    kind = _parse_datatype_string(schema)
    if isinstance(kind, StructType) and len(kind) == 1 and kind[0].name == "value" and " " not in schema.strip():
        return kind[0].dataType
    return kind
