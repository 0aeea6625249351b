"""Every verb of a broker is known on both sides of a bridge."""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.bridge.edge_end import EdgeEnd
from penstock.bridge.remote import RemoteBroker
from penstock.bridge.verbs import VERBS
from penstock.broker import protocol
from penstock.model import (
    ANY_AGE,
    WHOLE,
    ActionKind,
    Actor,
    Ages,
    Draft,
    ExportRef,
    LedgerFilter,
    MessageState,
    MoveTerms,
    OverviewQuery,
    QueueChange,
    Selection,
    Settings,
    ShipmentRef,
    Span,
    WantedAttribute,
)
from penstock.pending import resolved

NOUNS = {
    "moves": "Moves",
    "shipments": "Shipments",
    "leases": "Leases",
    "ledger": "Ledger",
    "exports": "Exports",
    "keys": "Keys",
    "actions": "Actions",
}


def contract() -> set[str]:
    verbs = {name for name, _ in inspect.getmembers(protocol.Broker, inspect.isfunction) if not name.startswith("_")}
    for noun, kind in NOUNS.items():
        functions = inspect.getmembers(getattr(protocol, kind), inspect.isfunction)
        verbs |= {f"{noun}.{name}" for name, _ in functions if not name.startswith("_")}
    return verbs


def test_all_verbs_of_the_contract_are_known() -> None:
    assert set(VERBS) | {"send", "claim", "ack", "shipments.read_as"} == contract()


SAMPLES = {
    Actor: Actor("ann", "native"),
    ActionKind: ActionKind.QUEUE_PURGE,
    str: "q",
    int: 7,
    bool: True,
    bytes: b"\x00",
    Settings: Settings(delay_ms=5),
    QueueChange: QueueChange(delay_ms=0),
    MoveTerms: WHOLE,
    Ages: ANY_AGE,
    Draft: Draft(b"\x00"),
    Selection: Selection(state=MessageState.CLAIMED, attribute=WantedAttribute("kind")),
    LedgerFilter: LedgerFilter("q"),
    ShipmentRef: ShipmentRef("q", "c", 3),
    ExportRef: ExportRef("c", 3),
    OverviewQuery: OverviewQuery(contains="q"),
    Span: Span.DAY,
}


def sample(hint: Any) -> Any:
    if type(None) in typing.get_args(hint):
        return None
    return [] if typing.get_origin(hint) is Sequence else SAMPLES[hint]


def arguments_of(verb: str) -> list[Any]:
    noun, _, name = verb.rpartition(".")
    function = getattr(getattr(protocol, NOUNS[noun]) if noun else protocol.Broker, name)
    hints = typing.get_type_hints(function, vars(protocol))
    del hints["return"]
    return [sample(hint) for hint in hints.values()]


@pytest.mark.parametrize("verb", sorted(VERBS))
async def test_a_verb_is_called_by_its_own_name_and_with_its_own_arguments(verb: str) -> None:
    broker = RemoteBroker(20)
    broker.bridge = EdgeEnd(asyncio.get_running_loop(), broker.forget)
    noun, _, name = verb.rpartition(".")
    arguments = arguments_of(verb)
    getattr(getattr(broker, noun) if noun else broker, name)(*arguments)
    [call] = broker.bridge._verbs
    assert call.verb == verb
    assert list(VERBS[verb].read_arguments(call.arguments)) == arguments


async def test_what_is_to_have_a_form_is_asked_for_as_it_is() -> None:
    broker = RemoteBroker(20)
    broker.bridge = EdgeEnd(asyncio.get_running_loop(), broker.forget)
    broker.shipments.read_as(ShipmentRef("q", "c", 3), 0, 10, protocol.Form(len, resolved))
    [call] = broker.bridge._verbs
    assert call.verb == "shipments.read"
