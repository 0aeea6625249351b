"""The pieces that the tables of operations are written with. Plain OpenAPI data comes out; no face is known here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from penstock import limits

Part: TypeAlias = dict[str, Any]

JSON = "application/json"
TEXT = "text/plain"
ARROW = "application/vnd.apache.arrow.stream"
ANY = "*/*"
OCTETS = "application/octet-stream"


class Operation(Struct, frozen=True, kw_only=True):
    """What is said of one route. `answers` are those of its handler; the edge's and the guard's are added to them."""

    id: str
    tag: str
    summary: str
    description: str
    answers: Mapping[int, Part]
    parameters: tuple[Part, ...] = ()
    body: Part | None = None


class Face(Struct, frozen=True, kw_only=True):
    """One API. `operations` by method and pattern, as the routes have them; `own` replaces shared answers by their
    status, and what is `never` answered has no place in the document."""

    tags: Mapping[str, str]
    schemas: Mapping[str, Part]
    operations: Mapping[str, Operation]
    own: Mapping[int, Part] = {}
    never: frozenset[int] = frozenset()


def schema(name: str) -> Part:
    return {"$ref": f"#/components/schemas/{name}"}


def shared(name: str) -> Part:
    """An answer that several operations give alike."""
    return {"$ref": f"#/components/responses/{name}"}


def shared_header(name: str) -> Part:
    return {"$ref": f"#/components/headers/{name}"}


def text(description: str = "", **rules: Any) -> Part:
    return _described({"type": "string", **rules}, description)


def number(lowest: int, highest: int | None = None, description: str = "", **rules: Any) -> Part:
    """A whole number; without a highest one, of at most 64 bits."""
    bounds = {"minimum": lowest} if highest is None else {"minimum": lowest, "maximum": highest}
    return _described({"type": "integer", **bounds, **rules}, description)


def instant(description: str = "") -> Part:
    return number(0, None, description or "milliseconds since 1970", format="int64")


def truth(description: str = "") -> Part:
    return _described({"type": "boolean"}, description)


def listed(items: Part, description: str = "", **rules: Any) -> Part:
    return _described({"type": "array", "items": items, **rules}, description)


def maybe(value: Part) -> Part:
    """The value, or null."""
    if isinstance(value.get("type"), str) and "enum" not in value:
        return {**value, "type": [value["type"], "null"]}
    return {"anyOf": [value, {"type": "null"}]}


def record(properties: Mapping[str, Part], *optional: str, description: str = "") -> Part:
    """An object that has all of these, but perhaps for the optional ones. It may grow more in a later version."""
    required = [name for name in properties if name not in optional]
    return _described({"type": "object", "properties": dict(properties), "required": required}, description)


def _described(value: Part, description: str) -> Part:
    return {**value, "description": description} if description else value


def parameter(where: str, name: str, value: Part, description: str, **more: Any) -> Part:
    return {"name": name, "in": where, "required": where == "path", "description": description, "schema": value, **more}


def in_query(name: str, value: Part, description: str) -> Part:
    return parameter("query", name, value, description)


def in_header(name: str, value: Part, description: str) -> Part:
    return parameter("header", name, value, description)


def answer(
    description: str,
    value: Part | None = None,
    example: object = None,
    media: str = JSON,
    headers: Mapping[str, Part] | None = None,
) -> Part:
    """`headers` that are references or schemas with a description."""
    made: Part = {"description": description}
    if headers:
        made["headers"] = dict(headers)
    if value is not None:
        made["content"] = {media: {"schema": value, **({} if example is None else {"example": example})}}
    return made


def also(made: Part, media: str, value: Part) -> Part:
    """The same answer or body in another content type as well."""
    return {**made, "content": {**made["content"], media: {"schema": value}}}


def of_any_type(made: Part) -> Part:
    """An answer or a body of bytes that may call themselves anything. Most generators of clients know no wildcard, so
    that plain bytes stand before it."""
    [whole] = made["content"].values()
    bare = {**whole, "schema": {"type": "string", "format": "binary"}}
    return {**made, "content": {OCTETS: bare, ANY: {"schema": {}}}}


def header(value: Part, description: str, required: bool = False) -> Part:
    return {"description": description, "required": required, "schema": value}


def body(
    value: Part, example: object, description: str = "", media: str = JSON, required: bool = True, **examples: object
) -> Part:
    """A request body. With `examples`, the first one is called `usual`."""
    named = {"usual": example, **examples}
    shown = {"examples": {name: {"value": one} for name, one in named.items()}}
    return _described({"required": required, "content": {media: {"schema": value, **shown}}}, description)


NAME_PATTERN = r"^(?!\.{1,2}$)[A-Za-z0-9._:@-]+$"
NAME_RULE = f"1 to {limits.NAME_LENGTH} of `A-Z a-z 0-9 . _ : @ -`, and neither `.` nor `..`"


# The largest number that a path or a query may hold: it has eighteen digits.
LARGEST = 10**18 - 1


def queue_name() -> Part:
    return text(minLength=1, maxLength=limits.NAME_LENGTH, pattern=NAME_PATTERN)
