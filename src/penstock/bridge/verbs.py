"""The verbs of the broker by name, with the types of their arguments and results, as `broker/protocol.py` has them."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import msgpack

from penstock.broker import protocol
from penstock.broker.protocol import Broker
from penstock.pending import Pending

# What the nouns of a broker are, by the names of its attributes.
_NOUNS = {
    "moves": protocol.Moves,
    "shipments": protocol.Shipments,
    "leases": protocol.Leases,
    "ledger": protocol.Ledger,
    "exports": protocol.Exports,
    "keys": protocol.Keys,
    "actions": protocol.Actions,
}
# They have calls and answers of their own.
_WITH_CALLS = {"send", "claim", "ack"}


class Verb:
    """One verb, as both sides need it."""

    __slots__ = ("name", "noun", "read_arguments", "read_result")

    def __init__(self, noun: str | None, name: str, arguments: list[Any], result: Any) -> None:
        self.noun = noun
        self.name = name
        self.read_arguments: Callable[[Any], tuple[Any, ...]] = msgpack.Decoder(
            types.GenericAlias(tuple, tuple(arguments))
        ).decode
        self.read_result: Callable[[Any], Any] = msgpack.Decoder(result).decode

    def of(self, broker: Broker) -> Callable[..., Pending[Any]]:
        owner = broker if self.noun is None else getattr(broker, self.noun)
        verb: Callable[..., Pending[Any]] = getattr(owner, self.name)
        return verb


def _verbs(noun: str | None, contract: type) -> Iterator[tuple[str, Verb]]:
    for name, function in inspect.getmembers(contract, inspect.isfunction):
        if name.startswith("_") or (name in _WITH_CALLS and noun is None):
            continue
        hints = typing.get_type_hints(function, vars(protocol))
        if any(typing.get_origin(hint) is protocol.Form for hint in hints.values()):
            continue  # a form is given to the result on the side that asks for it
        (result,) = typing.get_args(hints.pop("return"))
        yield name if noun is None else f"{noun}.{name}", Verb(noun, name, list(hints.values()), result)


VERBS: dict[str, Verb] = dict(_verbs(None, Broker))
for _noun, _contract in _NOUNS.items():
    VERBS.update(_verbs(_noun, _contract))
