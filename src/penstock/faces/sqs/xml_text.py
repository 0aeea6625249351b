"""Answers of the older protocol: the structs of `results.py` as XML."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

from msgspec import Struct, inspect

NAMESPACE: Final = "http://queue.amazonaws.com/doc/2012-11-05/"
_OPENING: Final = '<?xml version="1.0"?>'

_ESCAPED: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#xD;"}
_SPECIAL: Final = re.compile('[&<>"\r]')
# What XML cannot hold in any form. Bodies and attributes with such characters come as base64; elsewhere, as in the
# text of an error that repeats what was asked, they are replaced.
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# Appends the text of a value to a list.
_Writer: TypeAlias = Callable[[Any, list[str]], None]


def escaped(text: str) -> str:
    """A line end of the kind `\\r` is escaped as well: a reader of XML takes any other for `\\n`."""
    if _FORBIDDEN.search(text) is not None:
        text = _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
    return _SPECIAL.sub(lambda found: _ESCAPED[found[0]], text) if _SPECIAL.search(text) else text


def answer_text(operation: str, result: Struct | None, request_id: str, namespace: str = NAMESPACE) -> str:
    """An operation without a result has no element for it."""
    parts = [_OPENING, f'<{operation}Response xmlns="{namespace}">']
    if result is not None:
        inside: list[str] = []
        _struct_writer(type(result))(result, inside)
        name = f"{operation}Result"
        parts += (f"<{name}>", *inside, f"</{name}>") if inside else (f"<{name}/>",)
    parts.append(f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{operation}Response>")
    return "".join(parts)


def error_text(code: str, text: str, fault: str, request_id: str) -> str:
    return (
        f'{_OPENING}<ErrorResponse xmlns="{NAMESPACE}"><Error><Type>{fault}</Type><Code>{code}</Code>'
        f"<Message>{escaped(text)}</Message><Detail/></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    )


@cache
def _struct_writer(shape: type) -> _Writer:
    fields = []
    for one in inspect.type_info(shape).fields:  # type: ignore[attr-defined]
        info = one.type
        extra: dict[str, str] = {}
        if isinstance(info, inspect.Metadata):
            extra, info = info.extra or {}, info.type
        fields.append((one.name, _writer(info, one.encode_name, extra)))

    def write_struct(value: Any, parts: list[str]) -> None:
        for name, write in fields:
            of_field = getattr(value, name)
            if of_field is not None:
                write(of_field, parts)

    return write_struct


def _writer(info: inspect.Type, name: str, extra: dict[str, str]) -> _Writer:
    if isinstance(info, inspect.ListType):
        item = _element_writer(info.item_type, extra["item"])

        def write_list(values: Any, parts: list[str]) -> None:
            for value in values:
                item(value, parts)

        return write_list
    if isinstance(info, inspect.DictType):
        pair, key = extra["item"], extra["key"]
        of_value = _element_writer(info.value_type, "Value")

        def write_map(values: Any, parts: list[str]) -> None:
            for of_key, value in values.items():
                parts.append(f"<{pair}><{key}>{escaped(of_key)}</{key}>")
                of_value(value, parts)
                parts.append(f"</{pair}>")

        return write_map
    return _element_writer(info, name)


def _element_writer(info: inspect.Type, name: str) -> _Writer:
    inside = _struct_writer(info.cls) if isinstance(info, inspect.StructType) else _write_plain

    def write(value: Any, parts: list[str]) -> None:
        parts.append(f"<{name}>")
        inside(value, parts)
        parts.append(f"</{name}>")

    return write


def _write_plain(value: Any, parts: list[str]) -> None:
    match value:
        case bool():
            parts.append("true" if value else "false")
        case bytes():
            parts.append(b64encode(value).decode())
        case str():
            parts.append(escaped(value))
        case _:
            parts.append(str(value))
