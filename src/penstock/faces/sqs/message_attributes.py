"""Typed attributes of messages, in a store whose attributes are texts.

A `String` is kept as its text; of any other type the text of the value is kept, binary in base64, and one more
attribute names the types. The names that begin with `AWS.` are this API's own: no client of SQS may send them, and they
are never shown. What another API has sent comes out as `String`.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from penstock.faces.sqs import digests
from penstock.faces.sqs.checks import (
    ATTRIBUTE_NAME_LENGTH,
    ATTRIBUTES,
    check_attribute_name,
    check_value,
    is_number,
    is_plain,
)
from penstock.faces.sqs.errors import UNSUPPORTED, Rejection, wrong
from penstock.faces.sqs.requests import AttributeValue
from penstock.faces.sqs.results import ShownValue

OWN: Final = "AWS."
TYPES: Final = "AWS.types"
DEDUP_ID: Final = "AWS.dedup"
TRACE: Final = "AWS.trace"
SENDER: Final = "AWS.sender"
TRACE_HEADER: Final = "AWSTraceHeader"

# How a body that is not text is marked, and what its sender called it.
BODY_MARK: Final = "penstock.body"
CONTENT_TYPE: Final = "penstock.content_type"

_PREFIXES: Final = ("String", "Number", "Binary")
# How a receiver asks for all attributes.
_EVERY: Final = frozenset({"All", ".*", "*"})
_encode = msgspec.json.Encoder().encode
_read_types = msgspec.json.Decoder(dict[str, str]).decode


class Kept(Struct, frozen=True):
    """Attributes as they are stored, how many bytes SQS counts for them, and their MD5."""

    texts: dict[str, str]
    size: int
    md5: str | None


NONE: Final = Kept({}, 0, None)


def kept(given: Mapping[str, AttributeValue] | None) -> Kept:
    """Raises Rejection for what SQS does not allow."""
    if not given:
        return NONE
    if len(given) > ATTRIBUTES:
        raise wrong(f"Number of message attributes [{len(given)}] exceeds the allowed maximum [{ATTRIBUTES}].")
    texts, types, size = {}, {}, 0
    parts: list[tuple[str, str, str | bytes]] = []
    for name, value in given.items():
        check_attribute_name(name)
        data_type = _checked_type(name, value)
        content = _checked_value(name, data_type, value)
        texts[name] = content if isinstance(content, str) else b64encode(content).decode()
        if data_type != "String":
            types[name] = data_type
        size += len(name.encode()) + len(data_type.encode())
        size += len(content) if isinstance(content, bytes) else check_value(content)
        parts.append((name, data_type, content))
    if types:
        texts[TYPES] = _encode(types).decode()
    return Kept(texts, size, digests.of_attributes(parts))


def kept_trace(given: Mapping[str, AttributeValue] | None) -> tuple[str | None, str | None]:
    """The trace header among the system attributes, the only one that SQS takes, and their MD5."""
    if not given:
        return None, None
    for name, value in given.items():
        if name != TRACE_HEADER:
            raise wrong(f"Message system attribute name '{name}' is invalid. Only {TRACE_HEADER} is supported.")
        if value.data_type != "String" or not value.string_value:
            raise wrong(f"Message system attribute '{name}' must contain a non-empty value of type 'String'.")
        check_value(value.string_value)
    header = given[TRACE_HEADER].string_value or ""
    return header, digests.of_attributes([(TRACE_HEADER, "String", header)])


def _checked_type(name: str, value: AttributeValue) -> str:
    data_type = value.data_type
    if not data_type:
        raise wrong(f"Message (user) attribute '{name}' must contain a non-empty message attribute type.")
    prefix, dot, label = data_type.partition(".")
    if prefix not in _PREFIXES or (dot and not label):
        raise wrong(
            f"The type of message (user) attribute '{name}' is invalid. You must use only the following supported type "
            "prefixes: Binary, Number, String."
        )
    if len(data_type) > ATTRIBUTE_NAME_LENGTH:
        raise wrong(f"Message (user) attribute types must be shorter than {ATTRIBUTE_NAME_LENGTH} Bytes")
    check_value(data_type)
    return data_type


def _checked_value(name: str, data_type: str, value: AttributeValue) -> str | bytes:
    if value.string_list_values or value.binary_list_values:
        raise Rejection(UNSUPPORTED, "Message attribute list values in SendMessage operation are not supported.")
    content = value.binary_value if data_type.startswith("Binary") else value.string_value
    other = value.string_value if data_type.startswith("Binary") else value.binary_value
    if not content or other:
        raise wrong(f"Message (user) attribute '{name}' must contain a non-empty value of type '{data_type}'.")
    if data_type.startswith("Number") and not is_number(str(content)):
        raise wrong(f"Can't cast the value of message (user) attribute '{name}' to a number.")
    return content


# Of names that are asked for, all together.
_LONGEST_REMEMBERED: Final = 4096


class Wanted(Struct, frozen=True):
    """Which attributes a receiver asks for."""

    all: bool
    names: frozenset[str]
    prefixes: tuple[str, ...]

    def include(self, name: str) -> bool:
        return self.all or name in self.names or name.startswith(self.prefixes)


def wanted(names: tuple[str, ...]) -> Wanted:
    """Remembered, if they are not too many: a receiver asks for the same ones every time."""
    return _wanted_lately(names) if sum(map(len, names)) <= _LONGEST_REMEMBERED else _wanted(names)


@lru_cache(256)
def _wanted_lately(names: tuple[str, ...]) -> Wanted:
    return _wanted(names)


def _wanted(names: tuple[str, ...]) -> Wanted:
    prefixes = tuple(name[:-2] for name in names if name.endswith(".*") and name not in _EVERY)
    return Wanted(not _EVERY.isdisjoint(names), frozenset(names), prefixes)


def shown(
    stored: Mapping[str, str] | None, asked: Sequence[str] | None, marks: Mapping[str, str] | None = None
) -> tuple[dict[str, ShownValue], str | None]:
    """Those that a receiver asks for, and the marks of a body that is not text whether it asks or not; with the MD5 of
    what is shown."""
    values: dict[str, ShownValue] = {}
    if stored and asked:
        which, types = wanted(tuple(asked)), _types(stored)
        for name, text in stored.items():
            if not name.startswith(OWN) and which.include(name) and _is_plain(name):
                values[name] = _shown_value(types.get(name, "String"), text)
    for name, text in (marks or {}).items():
        values[name] = _shown_value("String", text)
    if not values:
        return values, None
    return values, digests.of_attributes([(name, *_parts(value)) for name, value in values.items()])


def _types(stored: Mapping[str, str]) -> dict[str, str]:
    try:
        return _read_types(stored[TYPES]) if TYPES in stored else {}
    except msgspec.DecodeError:
        return {}  # sent by another API under this name


def _shown_value(data_type: str, text: str) -> ShownValue:
    """A text with characters that SQS does not have comes as its bytes."""
    if data_type.startswith("Binary"):
        try:
            return ShownValue(data_type, binary_value=b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            data_type = "String"
    if _is_plain(text):
        return ShownValue(data_type, text)
    return ShownValue("Binary", binary_value=text.encode("utf-8", "surrogatepass"))


def _parts(value: ShownValue) -> tuple[str, str | bytes]:
    return value.data_type, value.string_value if value.binary_value is None else value.binary_value  # type: ignore[return-value]


def _is_plain(text: str) -> bool:
    try:
        return is_plain(text.encode())
    except UnicodeEncodeError:
        return False
