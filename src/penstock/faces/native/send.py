"""Sending, however the messages are written: as one JSON object, as JSON lines, or as Arrow."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import InvalidRequest, TooLarge
from penstock.faces.answers import Error, encode_json, json_response
from penstock.faces.bodies import beginning, check_count, decoder, items_of, unreadable, within
from penstock.faces.description import EXAMPLE_ID, Op, Param, Tag, also, answer, body, text
from penstock.faces.media import media_type
from penstock.faces.native.arrow import ARROW_MEDIA, ARROW_STREAM, is_arrow, read_columns
from penstock.faces.native.requests import DURATION_BOUNDS, QUEUE, Duration, checked_word, route
from penstock.faces.permission import Permission
from penstock.faces.refusals import NO_SUCH_QUEUE
from penstock.faces.traceparent import KEY as TRACE_KEY
from penstock.faces.traceparent import TRACE_PARAMS, trace_of, traced_drafts
from penstock.ids import dedup_key_of
from penstock.model import Draft, Sent, SentOnce
from penstock.pending import Pending

LINES = b"application/x-ndjson"
BULK = BodyRule(16 * 1024 * 1024)
_COLUMNS = ("body", "content_type", "attributes", "delay_ms", "group", "dedup_id")
_COUNT = Meta(min_length=1, max_length=limits.SEND_LIMIT)


class SendMessage(Struct, forbid_unknown_fields=True):
    body: Annotated[str | None, Meta(description="text, stored as UTF-8")] = None
    body_base64: Annotated[
        Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})] | None,
        Meta(description="bytes; a message has one of the two, up to 1 MiB"),
    ] = None
    # All that follow are checked below as well: in Arrow they come in columns.
    content_type: Annotated[
        Annotated[str, Meta(extra_json_schema={"maxLength": limits.CONTENT_TYPE_BYTES})] | None,
        Meta(description="printable characters"),
    ] = None
    attributes: Annotated[dict[str, str] | None, Meta(description="at most 1 MiB as JSON")] = None
    delay_ms: Annotated[
        Duration | None,
        Meta(description="instead of the queue's own delay; not for a message of a group, where `groups` is `fifo`"),
    ] = None
    group: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.GROUP_LENGTH)] | None,
        Meta(description="to which others it belongs, in printable characters; kept in order where `groups` is `fifo`"),
    ] = None
    dedup_id: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.DEDUP_ID_LENGTH)] | None,
        Meta(description="what makes it a twin of others, in printable characters; by default the hash of its body"),
    ] = None


class SendRequest(Struct, forbid_unknown_fields=True):
    messages: Annotated[list[SendMessage], _COUNT]


class SentEach(Struct):
    sent: list[Sent]


_read_send = decoder(SendRequest)
_decode_lines = msgspec.json.Decoder(SendMessage).decode_lines
_decode_line = msgspec.json.Decoder(SendMessage).decode

TAG = Tag(
    "native messages",
    "Send, claim, ack and what lies between, many at a time. In bulk messages travel as JSON lines or as an Arrow "
    "stream (`application/vnd.apache.arrow.stream`): ask for it with `Accept`, send it with `Content-Type`. A server "
    "that was installed without Arrow answers 501.",
)
_KEY = Param(
    "Idempotency-Key",
    text(minLength=1, maxLength=limits.IDEMPOTENCY_KEY_LENGTH, pattern="^[!-~]([ -~]*[!-~])?$"),
    "Printable ASCII, the sender's own name for this send.",
    where="header",
)
_OBJECT = body(
    SendRequest,
    {"messages": [{"body": "one"}, {"body": "two", "attributes": {"kind": "test"}}]},
    f"1 to {limits.SEND_LIMIT:,} messages: a JSON object, a line of JSON each, or an Arrow stream with a column `body` "
    "and perhaps `content_type`, `attributes`, `delay_ms`, `group` and `dedup_id`.",
)
_LINE = '{"body": "one"}\n{"body_base64": "/w=="}\n'
_SEND = Op(
    id="send",
    tag=TAG,
    summary="Send messages",
    description="In the order given: all of them, or none. With an `Idempotency-Key` the same request can be sent "
    "again for 30 days and stores nothing a second time.",
    parameters=(QUEUE, _KEY, *TRACE_PARAMS),
    body=also(also(_OBJECT, LINES.decode(), text(), _LINE), ARROW_MEDIA, ARROW_STREAM),
    answers={
        201: answer(
            "All are stored. A JSON object that came without an `Idempotency-Key` is answered with one result each, "
            "everything else with counts.",
            (SentEach, SentOnce),
            {"sent": [{"id": EXAMPLE_ID, "stored": True}]},
        ),
        200: answer(
            "The same send was stored before, and nothing now.",
            SentOnce,
            {"count": 2, "stored": 2, "repeated": True},
        ),
        404: NO_SUCH_QUEUE,
        409: answer(
            "The key was already used with different content.",
            Error,
            {"error": "the idempotency key 'a1' was already used with different content"},
        ),
    },
)


def send_route(broker: Broker) -> Route:
    def send(request: Request) -> Pending[Response]:
        [queue] = request.params
        key = request.headers.get(b"idempotency-key")
        drafts = read_drafts(request)
        if TRACE_KEY in request.headers:
            drafts = traced_drafts(drafts, trace_of(request.headers))
        if key is not None:
            return broker.send_once(queue, drafts, _checked_key(key), _digest(request.body)).map(_sent_once)
        return broker.send(queue, drafts).map(_counted if is_bulk(request) else _sent)

    return route("POST", "/v1/queues/{queue}/messages", send, _SEND, Permission("post"), BULK)


def _checked_key(key: bytes) -> str:
    text = key.decode("latin-1")
    if not (0 < len(text) <= limits.IDEMPOTENCY_KEY_LENGTH and text.isascii() and text.isprintable()):
        raise InvalidRequest(f"an Idempotency-Key is 1 to {limits.IDEMPOTENCY_KEY_LENGTH} printable ASCII characters")
    return text


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()


def _sent(sent: list[Sent]) -> Response:
    return json_response(201, SentEach(sent))


def _counted(sent: list[Sent]) -> Response:
    return json_response(201, SentOnce(len(sent), sum([one.stored for one in sent])))


def _sent_once(sent: SentOnce) -> Response:
    return json_response(200 if sent.repeated else 201, sent)


@cache
def _read_large_send() -> Callable[[bytes], Any]:
    messages = ("messages", beginning(SendMessage, limits.SEND_LIMIT))
    large = msgspec.defstruct("LargeSendRequest", [messages], forbid_unknown_fields=True)
    return decoder(large, meant=SendRequest)


def is_bulk(request: Request) -> bool:
    """Whether the answer is a count: a bulk sender has no use for ten thousand ids."""
    return is_arrow(request) or _is_lines(request)


def read_drafts(request: Request) -> list[Draft]:
    if is_arrow(request):
        return _from_arrow(request.body)
    messages = _read_lines(request.body) if _is_lines(request) else _read_object(request.body)
    check_count("messages", len(messages), _COUNT)
    return [draft_of(message) for message in messages]


def _is_lines(request: Request) -> bool:
    return media_type(request) == LINES


def _may_be_too_many(body: bytes) -> bool:
    """Every message opens a brace. So do others, for instance inside a body: then only counting tells."""
    return len(body) > limits.SEND_LIMIT and body.count(b"{") > limits.SEND_LIMIT


def _read_object(body: bytes) -> list[SendMessage]:
    return items_of(_read_large_send()(body).messages) if _may_be_too_many(body) else _read_send(body).messages


def _read_lines(body: bytes) -> list[SendMessage]:
    if body.count(b"\n") > limits.SEND_LIMIT * 2:
        raise TooLarge(f"at most {limits.SEND_LIMIT} messages may come at once")
    try:
        if _may_be_too_many(body):
            # One by one: the decoder of all lines would also take any number of messages from one line.
            return [_decode_line(line) for line in body.split(b"\n") if line.strip()]
        return _decode_lines(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # All lines together are a list to the decoder, and one line is not.
        shape = list[SendMessage] if " - at `$[" in str(error) else SendMessage
        raise unreadable("the lines do", shape, error) from error


def draft_of(message: SendMessage) -> Draft:
    """Raises InvalidRequest and TooLarge."""
    text, in_base64 = message.body, message.body_base64
    if (text is None) == (in_base64 is None):
        raise InvalidRequest("a message has either a body or a body_base64")
    if text is not None:
        body = text.encode("utf-8", "surrogatepass")
    else:
        try:
            body = base64.b64decode(in_base64 or "", validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidRequest("body_base64 is not base64") from error
    _check_size(len(body))
    content_type, attributes = message.content_type, message.attributes
    group, dedup_id = message.group, message.dedup_id
    return Draft(
        body,
        None if content_type is None else _checked_type(content_type),
        None if attributes is None else _checked_attributes(attributes),
        message.delay_ms,
        None,
        None if dedup_id is None else _dedup_key(dedup_id),
        None if group is None else _checked_group(group),
    )


def _from_arrow(body: bytes) -> list[Draft]:
    columns = read_columns(body, _COLUMNS, limits.SEND_LIMIT)
    bodies = [_bytes_of(value) for value in columns["body"]]
    check_count("messages", len(bodies), _COUNT)
    _check_size(max(map(len, bodies)))
    if len(columns) == 1:
        return [Draft(body) for body in bodies]
    missing = [None] * len(bodies)
    return [
        Draft(
            body,
            _checked_type(content_type),
            _checked_attributes(attributes),
            _checked_delay(delay_ms),
            None,
            None if dedup_id is None else _dedup_key(dedup_id),
            None if group is None else _checked_group(group),
        )
        for body, content_type, attributes, delay_ms, group, dedup_id in zip(
            bodies,
            columns.get("content_type", missing),
            columns.get("attributes", missing),
            columns.get("delay_ms", missing),
            columns.get("group", missing),
            columns.get("dedup_id", missing),
            strict=True,
        )
    ]


def _bytes_of(value: Any) -> bytes:
    if value is None:
        raise InvalidRequest("a message has a body: it must not be null")
    return value if isinstance(value, bytes) else value.encode()


def _check_size(size: int) -> None:
    if size > limits.BODY_BYTES:
        raise TooLarge(f"a message is at most {limits.BODY_BYTES} bytes long")


@lru_cache(256)
def _checked_type(content_type: str | None) -> str | None:
    """Cached: the messages of one send mostly share it."""
    if content_type is not None and not (len(content_type) <= limits.CONTENT_TYPE_BYTES and content_type.isprintable()):
        raise InvalidRequest(f"a content type is at most {limits.CONTENT_TYPE_BYTES} printable characters")
    return content_type


def _checked_attributes(attributes: dict[str, str] | Iterable[tuple[str, str | None]] | None) -> dict[str, str] | None:
    if not attributes:
        return None
    made = dict(attributes)
    if None in made.values():
        raise InvalidRequest("an attribute has a value: it must not be null")
    if len(encode_json(made)) > limits.ATTRIBUTES_BYTES:
        raise TooLarge(f"the attributes of a message are at most {limits.ATTRIBUTES_BYTES} bytes as JSON")
    return made  # type: ignore[return-value]


@lru_cache(256)
def _checked_group(group: str) -> str:
    """Cached: many messages share it."""
    return checked_word("group", group, limits.GROUP_LENGTH)


def _dedup_key(dedup_id: str) -> bytes:
    return dedup_key_of(checked_word("dedup_id", dedup_id, limits.DEDUP_ID_LENGTH))


def _checked_delay(delay_ms: int | None) -> int | None:
    return None if delay_ms is None else within("delay_ms", delay_ms, *DURATION_BOUNDS)
