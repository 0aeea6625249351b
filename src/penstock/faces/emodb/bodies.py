"""JSON as bytes: messages are stored and served as they came, and are never taken apart where that can be avoided."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from functools import cache
from itertools import accumulate
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from penstock import limits
from penstock.errors import InvalidRequest, TooLarge
from penstock.faces.answers import encode_json
from penstock.faces.bodies import beginning, items_of
from penstock.faces.emodb import surrogates
from penstock.faces.emodb.surrogates import restore
from penstock.ids import KEY_BYTES, body_hash
from penstock.model import Draft, Message

T = TypeVar("T")


class EmoDBMessage(Struct):
    """A message as a poll answers it, for the document of the API."""

    id: Annotated[str, Meta(description="for ack and renew")]
    payload: Annotated[Any, Meta(description="the message, any JSON value")]


CONTENT_TYPE = "application/json"
# Far below what the parser can do: whatever was accepted must still parse inside the answer to a poll.
DEEPEST = 500
# Whole numbers up to here are equal however they are written; beyond, 1e99 would become a long text.
_DIGITS = 64

_read_one = msgspec.json.Decoder(Raw).decode
_read_list = msgspec.json.Decoder(list[Raw]).decode
_read_lists = msgspec.json.Decoder(dict[str, list[Raw]]).decode
_read_raw_lists = msgspec.json.Decoder(dict[str, Raw]).decode
_read_ids = msgspec.json.Decoder(list[str]).decode
_read_any = msgspec.json.Decoder(float_hook=lambda text: _number(text)).decode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_NEITHER_BRACKET_NOR_QUOTE: Final = bytes(set(range(256)) - set(b'[]{}"'))
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def read_message(body: bytes) -> bytes:
    body, mark = surrogates.hide(body)
    return _limited(restore(bytes(_read(_read_one, body)), mark))


def read_messages(body: bytes) -> list[bytes]:
    body, mark = surrogates.hide(body)
    return _messages(_read(_list_reader(body), body), mark)


def read_messages_by_queue(body: bytes) -> dict[str, list[bytes]]:
    body, mark = surrogates.hide(body)
    if not _may_be_too_many(body):
        by_queue = {queue: _messages(raws, mark) for queue, raws in _read(_read_lists, body).items()}
        _check_count(sum(map(len, by_queue.values())))
        return by_queue
    _check_queues(body)
    by_queue, count = {}, 0
    for queue, raw in _read(_read_raw_lists, body).items():
        of_one = bytes(raw)
        by_queue[queue] = _messages(_read(_list_reader(of_one), of_one), mark)
        count += len(by_queue[queue])
        _check_count(count)
    return by_queue


def read_ids(body: bytes) -> list[str]:
    # Before they are built: no id has a comma.
    if body.count(b",") >= limits.ACK_LIMIT:
        raise TooLarge(f"a request names at most {limits.ACK_LIMIT} messages")
    return _read(_read_ids, surrogates.hide(body)[0])


def _may_be_too_many(body: bytes) -> bool:
    """Fewer commas than that, and the items of no list in it can be too many. More, and only counting tells."""
    return body.count(b",") >= limits.SEND_LIMIT


def _list_reader(body: bytes) -> Callable[[bytes], list[Raw]]:
    """Of a list that may be too long, only the beginning is read."""
    return _read_beginning if _may_be_too_many(body) else _read_list


def _read_beginning(body: bytes) -> list[Raw]:
    return items_of(_beginning_decoder().decode(body))


@cache
def _beginning_decoder() -> msgspec.json.Decoder[Struct]:
    return msgspec.json.Decoder(beginning(Raw, limits.SEND_LIMIT))


def _check_queues(body: bytes) -> None:
    """Count the lists of a batch by queue, without keeping anything of them."""
    count = 0

    class Passed(Struct, array_like=True):
        def __post_init__(self) -> None:
            nonlocal count
            count += 1
            _check_count(count)

    _read(msgspec.json.Decoder(dict[str, Passed]).decode, body)


def _read(decode: Callable[[bytes], T], body: bytes) -> T:
    try:
        # What is handed on unparsed must at least be text: a poll puts it into a JSON document.
        body.decode()
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"The request body does not parse: {error}") from error


def _messages(raws: list[Raw], mark: bytes) -> list[bytes]:
    _check_count(len(raws))
    return [_limited(restore(bytes(raw), mark)) for raw in raws]


def _check_count(count: int) -> None:
    if count > limits.SEND_LIMIT:
        raise TooLarge(f"a batch holds at most {limits.SEND_LIMIT} messages")


def _limited(message: bytes) -> bytes:
    if len(message) > limits.BODY_BYTES:
        raise TooLarge(f"a message is at most {limits.BODY_BYTES} bytes long")
    if len(message) > 2 * DEEPEST and _depth(message) > DEEPEST:
        raise InvalidRequest(f"a message is nested at most {DEEPEST} deep")
    return message


def _depth(message: bytes) -> int:
    """How deep a JSON value is nested; a rough answer where it is certainly not too deep."""
    most = message.count(b"[") + message.count(b"{")
    if most <= DEEPEST:
        return most
    signs = message.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NEITHER_BRACKET_NOR_QUOTE)
    outside_strings = b"".join(signs.split(b'"')[::2])
    return max(accumulate(map(_STEPS.__getitem__, outside_strings)), default=0)


def drafts(messages: Iterable[bytes], keyed: bool) -> list[Draft]:
    """`keyed` gives equal JSON values one key."""
    if keyed:
        return [Draft(message, CONTENT_TYPE, dedup_key=json_key(message)) for message in messages]
    return [Draft(message, CONTENT_TYPE) for message in messages]


def json_key(message: bytes) -> bytes:
    """Alike for equal JSON values, whatever the order of their keys, their spacing and the way numbers are written."""
    try:
        hidden, mark = surrogates.hide(message, fold=True)
        value = _encode_sorted(_read_any(hidden))
        # What is hidden must not be equal to a text that looks like it: no JSON value begins with a tilde.
        return body_hash(mark + value)[:KEY_BYTES]
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return body_hash(message)[:KEY_BYTES]  # a number of thousands of digits is equal only to itself


def _number(text: str) -> Raw:
    """One spelling for all of 1.0, 10e-1 and 1: exact, where a float would take neighbours for equal."""
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    sign, digits = ("-", whole[1:] + fraction) if whole[0] == "-" else ("", whole + fraction)
    digits = digits.lstrip("0")
    power = int(exponent or 0) - len(fraction) + len(digits)
    digits = digits.rstrip("0")
    if not digits:
        return Raw(b"0")
    power -= len(digits)
    if power >= 0 and len(digits) + power <= _DIGITS:
        return Raw(f"{sign}{digits}{'0' * power}".encode())
    return Raw(f"{sign}{digits}e{power}".encode())


def encode_messages(messages: Iterable[Message]) -> bytes:
    parts = [b'{"id":"%b","payload":%b}' % (message.id.encode(), payload(message)) for message in messages]
    return b"[" + b",".join(parts) + b"]"


def payload(message: Message) -> bytes:
    """The message itself where it is JSON; what other faces have sent, as a string: text as it is, else in base64."""
    body = message.body
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return encode_json(base64.b64encode(body).decode())
    if message.content_type is not None and "json" in message.content_type:
        try:
            _read_one(surrogates.hide(body)[0])
        except (msgspec.DecodeError, RecursionError):
            return encode_json(text)
        if len(body) <= 2 * DEEPEST or _depth(body) <= DEEPEST:
            return body
    return encode_json(text)
