"""Reading the JSON of a request into structs that say what they accept.

What is out of bounds is refused in the words of the APIs, which are made from the same description as the document.
Lists may be counted while they are read, so that what is over a limit is never built: sixteen megabytes are five
million empty objects, which would take half a gigabyte before anybody could count them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from penstock.errors import InvalidRequest

T = TypeVar("T")

# How msgspec says that a value is of its type and out of its bounds.
_OUT_OF_BOUNDS = re.compile(r"Expected `(int|str|array)`(?: of length)? [<>]= \d+ - at `\$(.*)`")
_STEP = re.compile(r"\.(\w+)|\[[^]]*\]")
_TEXTS = {
    "int": ("minimum", "maximum", "{} must be between {} and {}"),
    "str": ("minLength", "maxLength", "{} has {} to {} characters"),
    "array": ("minItems", "maxItems", "the number of {} must be between {} and {}"),
}


def decoder(shape: type[T], empty: bytes = b"{}", meant: Any = None) -> Callable[[bytes], T]:
    """Decode and check in one step; an empty body is read as `empty`. `meant` is what the caller thinks it is sending,
    where the shape only stands for it."""
    decode = msgspec.json.Decoder(shape).decode

    def read(body: bytes) -> T:
        try:
            return decode(body or empty)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise unreadable("the body does", meant or shape, error) from error

    return read


def unreadable(what: str, shape: Any, error: Exception) -> InvalidRequest:
    """The refusal of a body that did not become this shape."""
    found = _OUT_OF_BOUNDS.fullmatch(str(error))
    if found is None:
        return InvalidRequest(f"{what} not parse: {error}")
    kind, path = found.groups()
    lowest, highest, text = _TEXTS[kind]
    place = _place(shape, path)
    return InvalidRequest(text.format(path.rpartition("]")[2].lstrip("."), place[lowest], place[highest]))


def _place(shape: Any, path: str) -> dict[str, Any]:
    """The schema of what stands at a path in a shape."""
    [place], structs = msgspec.json.schema_components([shape], ref_template="{name}")
    for step in [*_STEP.finditer(path), None]:
        options = place.get("anyOf", [place])
        place = next(option for option in options if option != {"type": "null"})
        place = structs[place["$ref"]] if "$ref" in place else place
        if step is not None:
            place = place["items"] if step[1] is None else place["properties"][step[1]]
    return place


def within(name: str, value: int, lowest: int, highest: int) -> int:
    """The same check for what did not come as JSON."""
    if not lowest <= value <= highest:
        raise InvalidRequest(_TEXTS["int"][2].format(name, lowest, highest))
    return value


def check_count(name: str, count: int, bounds: Meta) -> None:
    if not bounds.min_length <= count <= bounds.max_length:  # type: ignore[operator]
        raise wrong_count(name, bounds)


def wrong_count(name: str, bounds: Meta) -> InvalidRequest:
    return InvalidRequest(_TEXTS["array"][2].format(name, bounds.min_length, bounds.max_length))


@cache
def beginning(item: type, limit: int) -> type[Struct]:
    """The shape of a list of which the first `limit` items and one more are kept.

    The reader has no lists that end early, but it has structs written as lists: one with a field for each item and one
    more takes no longer to fill than a list, and it passes over whatever follows. Made when it is first needed: so many
    fields take a moment, and few bodies are so long."""
    fields = [(f"item_{number}", item, None) for number in range(limit + 1)]
    return msgspec.defstruct(f"Beginning_{item.__name__}", fields, array_like=True, eq=False)


def items_of(beginning: Struct) -> list[Any]:
    return [item for item in msgspec.structs.astuple(beginning) if item is not None]
