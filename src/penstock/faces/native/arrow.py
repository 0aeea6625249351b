"""Messages and ledger rows as Arrow, both ways. Arrow is loaded when somebody asks for it, and not before: a server
that nobody asks needs none.

What comes in is not trusted: only the columns and types named here are read, nothing compressed is unpacked, and every
buffer is checked before a value of it is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from penstock.edge.http import Request, Response
from penstock.errors import FeatureMissing, InvalidRequest, TooLarge
from penstock.extras import how_to_get
from penstock.faces.media import media_type, prefers
from penstock.faces.native.flatbuffer import check_batch
from penstock.faces.native.outcomes import outcome_word
from penstock.model import LedgerRow, Message

if TYPE_CHECKING:
    import pyarrow as pa

ARROW = b"application/vnd.apache.arrow.stream"
# Where a page of Arrow says what follows it: the stream itself holds only rows.
AFTER = b"Penstock-After"


@cache
def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise FeatureMissing(f"this server has no Arrow: ask for JSON, or {how_to_get('arrow')}") from error
    return pyarrow


def wants_arrow(request: Request) -> bool:
    """Asked before anything is done: a claim must not take messages that it cannot tell. Raises FeatureMissing."""
    accept = request.headers.get(b"accept", b"").lower()
    return ARROW in accept and prefers(accept, ARROW) and _arrow() is not None


def is_arrow(request: Request) -> bool:
    return media_type(request) == ARROW


# Out


def messages_response(messages: Sequence[Message], claimed: bool = False, *headers: tuple[bytes, bytes]) -> Response:
    """`claimed` adds what the holder of a claim needs."""
    pa = _arrow()
    columns = {
        "id": pa.array([message.id for message in messages], pa.string()),
        "body": pa.array([message.body for message in messages], pa.binary()),
        "content_type": pa.array([message.content_type for message in messages], pa.string()),
        "attributes": _attributes([message.attributes for message in messages]),
        "sent_at": _instants([message.sent_at for message in messages]),
        "receives": pa.array([message.receives for message in messages], pa.int32()),
        "queue": pa.array([message.queue for message in messages], pa.string()),
        "ready_at": _instants([message.ready_at for message in messages]),
    }
    if claimed:
        columns["receipt"] = pa.array([f"{message.id}.{message.claim}" for message in messages], pa.string())
    return _stream(columns, headers)


def ledger_response(rows: Sequence[LedgerRow], *headers: tuple[bytes, bytes]) -> Response:
    pa = _arrow()
    columns = {
        "number": pa.array([row.number for row in rows], pa.int64()),
        "queue": pa.array([row.queue for row in rows], pa.string()),
        "id": pa.array([row.id for row in rows], pa.string()),
        "sent_at": _instants([row.sent_at for row in rows]),
        "first_claimed_at": _instants([row.first_claimed_at for row in rows]),
        "last_claimed_at": _instants([row.last_claimed_at for row in rows]),
        "finished_at": _instants([row.finished_at for row in rows]),
        "receives": pa.array([row.receives for row in rows], pa.int32()),
        "outcome": pa.array([outcome_word(row.outcome) for row in rows], pa.string()),
        "size": pa.array([row.size for row in rows], pa.int64()),
        "body_hash": pa.array([row.body_hash for row in rows], pa.binary()),
        "content_type": pa.array([row.content_type for row in rows], pa.string()),
        "body": pa.array([row.body for row in rows], pa.binary()),
    }
    return _stream(columns, headers)


def _instants(values: list[Any]) -> pa.Array:
    pa = _arrow()
    return pa.array(values, pa.int64()).cast(pa.timestamp("ms", tz="UTC"))


def _attributes(values: list[dict[str, str] | None]) -> pa.Array:
    pa = _arrow()
    return pa.array(
        [() if value is None else list(value.items()) for value in values], pa.map_(pa.string(), pa.string())
    )


def _stream(columns: dict[str, Any], headers: tuple[tuple[bytes, bytes], ...]) -> Response:
    pa = _arrow()
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return Response(200, sink.getvalue().to_pybytes(), ((b"Content-Type", ARROW), *headers))


# In


def read_columns(body: bytes, known: Sequence[str], rows: int) -> dict[str, list[Any]]:
    """The columns of a stream as lists, at most `rows` long. The first of the known names must be there."""
    pa = _arrow()
    try:
        table = _table(body, known, rows)
        return {name: table.column(name).to_pylist() for name in table.column_names}
    except (pa.ArrowException, OSError, LookupError, ValueError) as error:
        raise InvalidRequest(f"the body is no Arrow stream that can be read: {str(error)[:200]}") from error


def _table(body: bytes, known: Sequence[str], rows: int) -> pa.Table:
    pa = _arrow()
    with pa.ipc.open_stream(body) as reader:
        schema = reader.schema
    _check_schema(schema, known)
    messages = pa.ipc.MessageReader.open_stream(body)
    messages.read_next_message()  # the schema, which was read above
    for message in messages:
        if message.type != "record batch":
            raise InvalidRequest(f"an Arrow stream holds record batches after its schema, not a {message.type}")
        check_batch(message.metadata.to_pybytes(), 0 if message.body is None else message.body.size)
    with pa.ipc.open_stream(body) as reader:
        batches = []
        count = 0
        for batch in reader:
            count += batch.num_rows
            if count > rows:
                raise TooLarge(f"at most {rows} rows may come at once")
            batch.validate(full=True)
            batches.append(batch)
    return pa.Table.from_batches(batches, schema)


def _check_schema(schema: pa.Schema, known: Sequence[str]) -> None:
    pa = _arrow()
    texts = {pa.string(), pa.large_string()}
    types = {
        "body": {pa.binary(), pa.large_binary(), *texts},
        "content_type": texts,
        "attributes": {pa.map_(pa.string(), pa.string())},
        "delay_ms": {pa.int64(), pa.int32()},
        "receipt": texts,
    }
    if known[0] not in schema.names:
        raise InvalidRequest(f"an Arrow stream needs a column {known[0]!r}")
    for field in schema:
        if field.name not in known or schema.names.count(field.name) > 1:
            raise InvalidRequest(
                f"an Arrow stream has the columns {', '.join(known)}, each once, not {field.name[:80]!r}"
            )
        if field.type not in types[field.name] and not (field.name == "attributes" and _is_text_map(field.type)):
            raise InvalidRequest(f"the column {field.name!r} must not be of type {field.type}")


def _is_text_map(kind: Any) -> bool:
    """Whatever it calls its parts, and whether or not it says that they may be missing."""
    pa = _arrow()
    return bool(pa.types.is_map(kind) and kind.key_type == pa.string() and kind.item_type == pa.string())
