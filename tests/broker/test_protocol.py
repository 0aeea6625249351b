"""The broker's interface is made of plain values: what goes in and what comes out could cross to another process."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FunctionType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

from penstock.broker import actions, chores, health, keys, leases, ledger, messages, moves, protocol, queues, shipments
from penstock.pending import Pending

NOUNS = (
    protocol.Moves, protocol.Shipments, protocol.Leases, protocol.Ledger, protocol.Exports, protocol.Keys,
    protocol.Actions,
)  # fmt: skip


def verbs() -> Iterator[FunctionType]:
    for noun in (protocol.Broker, *NOUNS):
        for name, member in vars(noun).items():
            if not name.startswith("_") and inspect.isfunction(member):
                yield member


def tasks() -> Iterator[type]:
    for module in (actions, chores, health, keys, leases, ledger, messages, moves, queues, shipments):
        for member in vars(module).values():
            if inspect.isclass(member) and member.__module__ == module.__name__ and hasattr(member, "apply"):
                yield member


def is_plain(kind: Any) -> bool:
    """Whether a value of this type can be written down: msgspec knows no functions, and takes foreign classes for
    something of its caller's own."""
    return not any(
        isinstance(part, msgspec.inspect.CustomType | msgspec.inspect.AnyType) for part in parts(inspected(kind))
    )


def inspected(kind: Any) -> msgspec.inspect.Type:
    return msgspec.inspect.type_info(kind)


def parts(kind: msgspec.inspect.Type) -> Iterator[msgspec.inspect.Type]:
    yield kind
    for name in ("types", "item_types"):
        for part in getattr(kind, name, ()):
            yield from parts(part)
    for name in ("item_type", "key_type", "value_type"):
        if isinstance(part := getattr(kind, name, None), msgspec.inspect.Type):
            yield from parts(part)
    if isinstance(kind, msgspec.inspect.StructType):
        for field in kind.fields:
            yield from parts(field.type)


@pytest.mark.parametrize("verb", list(verbs()), ids=lambda verb: verb.__qualname__)
def test_a_verb_takes_and_gives_plain_values(verb: FunctionType) -> None:
    # The nouns have verbs called list.
    hints = get_type_hints(verb, localns={"list": list})
    given = hints.pop("return")
    assert get_origin(given) is Pending
    [given] = get_args(given)
    forms = {name for name, kind in hints.items() if get_origin(kind) is protocol.Form}
    for name, kind in hints.items():
        assert name in forms or is_plain(kind), name
    # What a form makes is made on the side of its caller.
    assert forms or is_plain(given)


@pytest.mark.parametrize("task", list(tasks()), ids=lambda task: task.__name__)
def test_a_task_is_a_plain_value(task: type) -> None:
    assert task.__struct_config__.frozen
    assert is_plain(task)
    assert isinstance(task.writes, bool)


def test_what_is_not_plain_is_told_apart() -> None:
    assert not is_plain(list[Pending])
    assert not is_plain(list[Any])
