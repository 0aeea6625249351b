"""The schemas of types, as msgspec knows them, made fit for the document.

A request may leave out what has a default. An answer holds every field, whatever the struct has defaults for, except
those that may be unset, and except the defaults of a struct that omits them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import inspect

from penstock.faces.description import Part, Shape

# A struct that shows a noun of the core has this at the end of its name, and is called like the noun in the document.
_VIEW = "View"
_INNER = ("item_type", "item_types", "key_type", "value_type", "types", "type")


class Schemas:
    """The schemas of all these types: each by itself, and the structs in them by name."""

    def __init__(self, taken: Iterable[Shape], answered: Iterable[Shape]) -> None:
        of_answers = _by_key(answered)
        shapes = _by_key(taken) | of_answers
        made, structs = msgspec.json.schema_components(shapes.values(), ref_template="#/components/schemas/{name}")
        self._made: dict[str, Part] = dict(zip(shapes, map(_renamed, made), strict=True))
        full = {struct.__name__ for struct in _whole_structs(of_answers.values())}
        self.components: dict[str, Part] = {
            _public(name): _tidy(_filled(shape) if name in full else shape) for name, shape in structs.items()
        }

    def of(self, shape: Shape) -> Part:
        return self._made[_key(shape)]


def _by_key(shapes: Iterable[Shape]) -> dict[str, Shape]:
    return {_key(shape): shape for shape in shapes}


def _key(shape: Shape) -> str:
    # Not every annotated type can be hashed: a description may hold a dictionary.
    return shape.__name__ if isinstance(shape, type) else repr(shape)


def _public(name: str) -> str:
    return name.removesuffix(_VIEW)


def _renamed(part: Any) -> Any:
    if isinstance(part, dict):
        return {
            key: _public(value) if key == "$ref" and isinstance(value, str) else _renamed(value)
            for key, value in part.items()
        }
    return [_renamed(one) for one in part] if isinstance(part, list) else part


def _tidy(shape: Part) -> Part:
    """Names are said by the references, and a docstring loses the indentation of its source."""
    tidy = {key: value for key, value in _renamed(shape).items() if key != "title"}
    if "description" in tidy:
        tidy["description"] = " ".join(tidy["description"].split())
    if tidy.get("required") == []:
        del tidy["required"]
    return tidy


def _filled(shape: Part) -> Part:
    """A field with a default is there as well; one that may be unset has none."""
    properties, required = shape["properties"], shape["required"]
    return {**shape, "required": [name for name in properties if name in required or "default" in properties[name]]}


def _whole_structs(shapes: Iterable[Shape]) -> set[type]:
    """The structs in these types that do not omit their defaults."""
    found: set[type] = set()
    waiting: list[Any] = list(inspect.multi_type_info(shapes))
    while waiting:
        info = waiting.pop()
        if isinstance(info, inspect.StructType):
            if info.cls in found:
                continue
            if not info.cls.__struct_config__.omit_defaults:
                found.add(info.cls)
            waiting += [field.type for field in info.fields]
        else:
            # A list, a dictionary, a union, a tuple or an annotation: whatever it is made of.
            inner = [getattr(info, name, ()) for name in _INNER]
            waiting += [one for part in inner for one in (part if isinstance(part, tuple) else (part,))]
    return found
