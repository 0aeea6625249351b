"""Requests of the older protocol: parameters with numbered lists and maps, turned into the structs of `requests.py`.

    SendMessageBatchRequestEntry.1.MessageAttribute.2.Value.StringValue=…

The names in such paths are those of the structs, except that of each item of a list or map, which the struct says.
Where a list has one item, its number may be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar, Union
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect

from penstock.edge.http import Request
from penstock.faces.sqs.errors import UNREADABLE, Rejection

T = TypeVar("T")

# Far more than any request needs: ten messages with ten attributes each take less than five hundred.
_MOST_PARAMETERS: Final = 2_000

# A value, or what is below a name, by the next part of the path.
Tree: TypeAlias = dict[str, Union[str, "Tree"]]
_Reader: TypeAlias = Callable[[Any], Any]


def parameters(request: Request) -> dict[str, str]:
    """Those of the query and of the body together."""
    return _parsed(request.query) | _parsed(request.body)


def _parsed(form: str | bytes) -> dict[str, str]:
    try:
        text = form if isinstance(form, str) else form.decode()
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS)
    except ValueError as error:
        raise Rejection(UNREADABLE, "It is not a form of the kind application/x-www-form-urlencoded") from error
    return dict(pairs)


def read(shape: type[T], given: Mapping[str, str]) -> T:
    """Raises Rejection for parameters that do not become this shape."""
    tree: Tree = {}
    for name, value in given.items():
        _plant(tree, name.split("."), value)
    try:
        return msgspec.convert(_struct_reader(shape)(tree), shape, strict=False)  # type: ignore[arg-type]
    except msgspec.ValidationError as error:
        raise Rejection(UNREADABLE, f"The request could not be read: {error}") from error


def _plant(tree: Tree, path: list[str], value: str) -> None:
    *above, last = path
    for part in above:
        below = tree.setdefault(part, {})
        if isinstance(below, str):
            # A value and what is below it under one name: the value is all that anything could be made of.
            return
        tree = below
    tree[last] = value


@cache
def _struct_reader(shape: type) -> _Reader:
    fields = []
    for one in inspect.type_info(shape).fields:  # type: ignore[attr-defined]
        extra, info = _unwrapped(one.type)
        names = (extra["item"], one.encode_name) if extra else (one.encode_name,)
        fields.append((names, one.encode_name, _reader(info, extra)))

    def read_struct(tree: Any) -> Any:
        if not isinstance(tree, dict):
            return tree
        made = {}
        for names, encoded, reader in fields:
            name = next((name for name in names if name in tree), None)
            if name is not None:
                made[encoded] = reader(tree[name])
        return made

    return read_struct


def _unwrapped(info: inspect.Type) -> tuple[dict[str, str], inspect.Type]:
    """What a field says of its items, and its type without None."""
    extra: dict[str, str] = {}
    if isinstance(info, inspect.Metadata):
        extra, info = info.extra or {}, info.type
    if isinstance(info, inspect.UnionType):
        [info] = [one for one in info.types if not isinstance(one, inspect.NoneType)]
    return extra, info


def _reader(info: inspect.Type, extra: dict[str, str]) -> _Reader:
    match info:
        case inspect.StructType():
            return _struct_reader(info.cls)
        case inspect.ListType():
            item = _reader(_unwrapped(info.item_type)[1], {})
            return lambda tree: [item(one) for one in _numbered(tree)]
        case inspect.DictType():
            value = _reader(_unwrapped(info.value_type)[1], {})
            key = extra["key"]
            return lambda tree: {
                _key(one.get(key)): value(one.get("Value", "")) for one in _numbered(tree) if isinstance(one, dict)
            }
        case _:
            return _same


def _same(value: Any) -> Any:
    return value


def _key(name: Any) -> str | None:
    """A name with parts below it is as good as none, which the struct refuses."""
    return name if isinstance(name, str) else None


def _numbered(tree: Any) -> list[Any]:
    """The items of a list, in the order of their numbers. An SDK writes one without any as an empty text."""
    if not isinstance(tree, dict):
        return [tree] if tree else []
    if not all(_is_number(part) for part in tree):
        return [tree]
    return [tree[number] for number in sorted(tree, key=int)]


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdecimal() and len(part) < 10
