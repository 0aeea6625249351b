"""The messages of a send, however they are written: as one JSON object, as JSON lines, or as Arrow."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from penstock import limits
from penstock.edge.http import Request
from penstock.errors import InvalidRequest, TooLarge
from penstock.faces.answers import encode_json
from penstock.faces.counted import beginning, items_of
from penstock.faces.media import media_type
from penstock.faces.native.arrow import is_arrow, read_columns
from penstock.faces.native.requests import decoder, within
from penstock.model import Draft

LINES = b"application/x-ndjson"
_COLUMNS = ("body", "content_type", "attributes", "delay_ms")


class SendMessage(Struct, forbid_unknown_fields=True):
    body: str | None = None
    body_base64: str | None = None
    content_type: str | None = None
    attributes: dict[str, str] | None = None
    delay_ms: int | None = None


class SendRequest(Struct, forbid_unknown_fields=True):
    messages: list[SendMessage]


_read_send = decoder(SendRequest)
_decode_lines = msgspec.json.Decoder(SendMessage).decode_lines
_decode_line = msgspec.json.Decoder(SendMessage).decode


@cache
def _read_large_send() -> Callable[[bytes], Any]:
    messages = ("messages", beginning(SendMessage, limits.SEND_LIMIT))
    return decoder(msgspec.defstruct("LargeSendRequest", [messages], forbid_unknown_fields=True))


def is_bulk(request: Request) -> bool:
    """Whether the answer is a count: nobody wants ten thousand ids who did not ask for them."""
    return is_arrow(request) or _is_lines(request)


def read_drafts(request: Request) -> list[Draft]:
    if is_arrow(request):
        return _from_arrow(request.body)
    messages = _read_lines(request.body) if _is_lines(request) else _read_object(request.body)
    within("the number of messages", len(messages), 1, limits.SEND_LIMIT)
    return [_draft(message) for message in messages]


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
        raise InvalidRequest(f"the lines do not parse: {error}") from error


def _draft(message: SendMessage) -> Draft:
    if (message.body is None) == (message.body_base64 is None):
        raise InvalidRequest("a message has either a body or a body_base64")
    if message.body is not None:
        body = message.body.encode("utf-8", "surrogatepass")
    else:
        try:
            body = base64.b64decode(message.body_base64 or "", validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidRequest("body_base64 is not base64") from error
    _check_size(len(body))
    return Draft(
        body,
        _checked_type(message.content_type),
        _checked_attributes(message.attributes),
        _checked_delay(message.delay_ms),
    )


def _from_arrow(body: bytes) -> list[Draft]:
    columns = read_columns(body, _COLUMNS, limits.SEND_LIMIT)
    bodies = [_bytes_of(value) for value in columns["body"]]
    within("the number of messages", len(bodies), 1, limits.SEND_LIMIT)
    _check_size(max(map(len, bodies)))
    if len(columns) == 1:
        return [Draft(body) for body in bodies]
    missing = [None] * len(bodies)
    return [
        Draft(body, _checked_type(content_type), _checked_attributes(attributes), _checked_delay(delay_ms))
        for body, content_type, attributes, delay_ms in zip(
            bodies,
            columns.get("content_type", missing),
            columns.get("attributes", missing),
            columns.get("delay_ms", missing),
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


def _checked_delay(delay_ms: int | None) -> int | None:
    return None if delay_ms is None else within("delay_ms", delay_ms, 0, limits.DURATION_MS)
