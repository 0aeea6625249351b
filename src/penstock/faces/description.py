"""The pieces with which a face describes an operation beside its route.

They are plain OpenAPI data with two additions, which `faces/openapi` resolves when it puts the document together: a
type may stand wherever a schema is expected, and a `Shared` piece is written once and referred to by its name. Nothing
here knows a face. Of all pieces only parameters serve requests too: a handler reads them by their description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from penstock import limits, names

Part: TypeAlias = dict[str, Any]
# A type that msgspec knows, a tuple of such types for any one of them, or a schema as it stands in the document.
Shape: TypeAlias = Any

JSON: Final = "application/json"
TEXT: Final = "text/plain"
ANY: Final = "*/*"
OCTETS: Final = "application/octet-stream"

# The largest number that a path or a query may hold: it has eighteen digits.
LARGEST: Final = 10**18 - 1
NAME_RULE: Final = f"1 to {limits.NAME_LENGTH} of `A-Z a-z 0-9 . _ : @ -`, and neither `.` nor `..`"
# An id as it looks in examples.
EXAMPLE_ID: Final = "01980f3e-8a51-7c3a-8000-000000000001"


class Shared(Struct, frozen=True):
    """A piece that several operations refer to."""

    kind: Literal["headers", "responses"]
    name: str
    part: Part


class Tag(Struct, frozen=True):
    """A group of operations. `own` replaces the answers of the edge and the guard by their status; what is `never`
    answered is left out."""

    name: str
    description: str
    own: Mapping[int, Part | Shared] = {}
    never: frozenset[int] = frozenset()


class Param:
    """A parameter that is a text, or that its handler reads in a way of its own."""

    __slots__ = ("default", "description", "example", "name", "required", "shape", "where")

    def __init__(
        self,
        name: str,
        shape: Part,
        description: str,
        *,
        where: Literal["path", "query", "header"] = "query",
        default: object = None,
        example: object = None,
        required: bool = False,
    ) -> None:
        self.name = name
        self.shape = shape
        self.description = description
        self.where = where
        self.default = default
        self.example = example
        self.required = required or where == "path"

    def part(self) -> Part:
        default = {} if self.default is None else {"default": self.default}
        example = {} if self.example is None else {"example": self.example}
        return {
            "name": self.name,
            "in": self.where,
            "required": self.required,
            "description": self.description,
            "schema": {**self.shape, **default},
            **example,
        }


class NumberParam:
    """A parameter that is a whole number. A face reads it by these bounds, and refuses others in its own words."""

    __slots__ = ("default", "description", "example", "highest", "key", "lowest", "name", "where")

    def __init__(
        self,
        name: str,
        lowest: int,
        highest: int,
        description: str,
        *,
        where: Literal["path", "query", "header"] = "query",
        default: int | None = None,
        example: int | None = None,
    ) -> None:
        self.name = name
        # As the name stands among the headers of a request.
        self.key = name.lower().encode()
        self.lowest = lowest
        self.highest = highest
        self.description = description
        self.where = where
        self.default = default
        self.example = example

    def part(self) -> Part:
        return Param(
            self.name,
            number(self.lowest, self.highest),
            self.description,
            where=self.where,
            default=self.default,
            example=self.example,
        ).part()


class Op(Struct, frozen=True, kw_only=True):
    """What is said of one route. `answers` are those of its handler; those of the edge and the guard are added to them.
    `parameters` of the path are named in their order there."""

    id: str
    tag: Tag
    summary: str
    description: str
    answers: Mapping[int, Part | Shared]
    parameters: tuple[Param | NumberParam, ...] = ()
    body: Part | None = None

    @property
    def query(self) -> tuple[str, ...]:
        """The names of the query parameters."""
        return tuple(one.name for one in self.parameters if one.where == "query")


def is_number(text: str) -> bool:
    """Whether a text is a whole number that is not negative and fits into 64 bits.

    `isdecimal()` alone takes the digits of every script, and `int()` takes signs, spaces and underscores.
    """
    return text.isascii() and text.isdecimal() and len(text) < 19


def text(description: str = "", **rules: Any) -> Part:
    return _described({"type": "string", **rules}, description)


def number(lowest: int, highest: int | None = None, description: str = "", **rules: Any) -> Part:
    """A whole number; without a highest one, of at most 64 bits."""
    bounds = {"minimum": lowest} if highest is None else {"minimum": lowest, "maximum": highest}
    return _described({"type": "integer", **bounds, **rules}, description)


def name_text() -> Part:
    """What a queue, and with it a consumer, may be called."""
    return text(minLength=1, maxLength=limits.NAME_LENGTH, pattern=rf"^(?!\.{{1,2}}$){names.CHARACTERS}+$")


def header(shape: Shape, description: str, required: bool = False) -> Part:
    return {"description": description, "required": required, "schema": shape}


def answer(
    description: str,
    shape: Shape = None,
    example: object = None,
    media: str = JSON,
    headers: Mapping[str, Part | Shared] | None = None,
) -> Part:
    made: Part = {"description": description}
    if headers:
        made["headers"] = dict(headers)
    if shape is not None:
        made["content"] = {media: {"schema": shape, **({} if example is None else {"example": example})}}
    return made


def body(
    shape: Shape, example: object, description: str = "", media: str = JSON, required: bool = True, **examples: object
) -> Part:
    """A request body. With `examples`, the first one is called `usual`."""
    named = {"usual": example, **examples}
    shown = {"examples": {name: {"value": one} for name, one in named.items()}}
    return _described({"required": required, "content": {media: {"schema": shape, **shown}}}, description)


def also(made: Part, media: str, shape: Shape, example: object = None) -> Part:
    """The same answer or body in another content type as well."""
    shown = {} if example is None else {"examples": {"usual": {"value": example}}}
    return {**made, "content": {**made["content"], media: {"schema": shape, **shown}}}


def of_any_type(made: Part) -> Part:
    """An answer or a body of bytes of any content type. Most generators of clients do not know wildcards, so plain
    bytes stand before the wildcard."""
    [whole] = made["content"].values()
    bare = {**whole, "schema": {"type": "string", "format": "binary"}}
    return {**made, "content": {OCTETS: bare, ANY: {"schema": {}}}}


def _described(value: Part, description: str) -> Part:
    return {**value, "description": description} if description else value
