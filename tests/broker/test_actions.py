"""What administers is written down by the unit that does it: once, when it has succeeded, and with who has done it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.broker.protocol import Broker
from penstock.errors import (
    KeyExists,
    KeyNotFound,
    MoveNotFound,
    NotPermitted,
    PenstockError,
    QueueExists,
    QueueNotFound,
    StoreUnavailable,
)
from penstock.limits import ACTION_DETAIL_LENGTH, Limits
from penstock.model import (
    Action,
    ActionFilter,
    ActionKind,
    Actor,
    Dedup,
    Draft,
    MoveTerms,
    QueueChange,
    Redrive,
    Selection,
    Settings,
)
from penstock.timings import Timings
from tests.broker.conftest import Bench, result

pytestmark = pytest.mark.asyncio(loop_factories=["jumping"])

ANN = Actor("ann", "native")


async def actions(broker: Broker, wanted: ActionFilter | None = None) -> Sequence[Action]:
    return await result(broker.actions.list(None, 100, wanted))


async def told(broker: Broker) -> list[tuple[Any, ...]]:
    """From the first to the latest: what, where, how many, and the detail as a value."""
    return [
        (one.what.value, one.queue, one.count, None if one.detail is None else json.loads(one.detail))
        for one in reversed(await actions(broker))
    ]


async def ended_move(bench: Bench, move_id: str) -> None:
    while (await result(bench.broker.moves.find(move_id))).finished_at is None:
        await asyncio.sleep(0.1)


async def test_what_is_done_to_queues(bench: Bench) -> None:
    broker = bench.broker
    await result(broker.create_queue("a", Settings(), ANN))
    await result(broker.create_queue("b", Settings(dedup=Dedup.SEND, redrive=Redrive(3, "a")), ANN))
    await result(broker.ensure_queue("c", Settings(delay_ms=5), ANN))
    await result(broker.update_queue("b", QueueChange(visibility_ms=7, redrive=None), by=ANN))
    await result(broker.delete_queue("c", ANN))
    assert await told(broker) == [
        ("queue.create", "a", None, None),
        (
            "queue.create",
            "b",
            None,
            {"dedup": "send", "redrive": {"max_receives": 3, "dead_letter_queue": "a"}},
        ),
        ("queue.create", "c", None, {"delay_ms": 5}),
        (
            "queue.update",
            "b",
            None,
            {
                "visibility_ms": {"from": 30_000, "to": 7},
                "redrive": {"from": {"max_receives": 3, "dead_letter_queue": "a"}, "to": None},
            },
        ),
        ("queue.delete", "c", None, None),
    ]
    assert {(one.key, one.via) for one in await actions(broker)} == {("ann", "native")}


async def test_a_pause_and_its_end_are_written_down_once(bench: Bench) -> None:
    await result(bench.broker.resume_queue("q", ANN))
    await result(bench.broker.pause_queue("q", ANN))
    await asyncio.sleep(1)
    await result(bench.broker.pause_queue("q", ANN))
    await result(bench.broker.resume_queue("q", ANN))
    await result(bench.broker.resume_queue("q", ANN))
    assert await told(bench.broker) == [("queue.pause", "q", None, None), ("queue.resume", "q", None, None)]


async def test_of_labels_only_their_keys_are_told(bench: Bench) -> None:
    await result(bench.broker.update_queue("q", QueueChange(labels={"team": "secret plans", "old": "x"}), by=ANN))
    await result(
        bench.broker.update_queue("q", QueueChange(labels={"team": "others", "old": None, "new": "y"}), by=ANN)
    )
    assert [detail for *_, detail in await told(bench.broker)] == [
        {"labels": {"from": [], "to": ["old", "team"]}},
        {"labels": {"from": ["old", "team"], "to": ["new", "team"]}},
    ]
    assert "secret plans" not in str(await actions(bench.broker))


@pytest.mark.parametrize("limits", [Limits(step_rows=3)])
async def test_what_takes_many_steps_is_written_down_once(bench: Bench) -> None:
    await bench.fill(*([b"x"] * 10))
    await result(bench.broker.claim("q", 8))
    assert await result(bench.broker.release_all("q", ANN)) == 8
    await asyncio.sleep(1)
    assert await result(bench.broker.purge_older("q", 500, ANN)) == 10
    await bench.fill(*([b"x"] * 7))
    assert await result(bench.broker.purge("q", ANN)) == 7
    assert await result(bench.broker.purge("q", ANN)) == 0
    assert await told(bench.broker) == [
        ("claims.release", "q", 8, None),
        ("queue.purge", "q", 10, {"older_than_ms": 500}),
        ("queue.purge", "q", 7, None),
        ("queue.purge", "q", 0, None),
    ]


async def test_a_move_from_its_start_to_its_end(bench: Bench) -> None:
    await bench.fill(b"one", b"two", b"three")
    terms = MoveTerms(Selection(text="t"), per_second=1_000)
    move = await result(bench.broker.moves.start("q", "new", terms, create_as=Settings(), by=ANN))
    await ended_move(bench, move.id)
    assert await told(bench.broker) == [
        ("queue.create", "new", None, None),
        (
            "move.start",
            "q",
            None,
            {"move": move.id, "target": "new", "terms": {"selection": {"text": "t"}, "per_second": 1_000}},
        ),
        ("move.end", "q", 2, {"move": move.id, "target": "new", "status": "COMPLETE", "matched": 2}),
    ]
    assert {(one.key, one.via) for one in await actions(bench.broker)} == {("ann", "native")}


async def test_a_move_that_is_cancelled_is_written_down_once(bench: Bench) -> None:
    await bench.create("b")
    await bench.fill(b"1", b"2", b"3")
    move = await result(bench.broker.moves.start("q", "b", MoveTerms(per_second=1), by=ANN))
    bob = Actor("bob", "sqs")
    await result(bench.broker.moves.cancel(move.id, by=bob))
    await result(bench.broker.moves.cancel(move.id, by=bob))
    await asyncio.sleep(5)
    assert [(one.what.value, one.key) for one in reversed(await actions(bench.broker))] == [
        ("move.start", "ann"),
        ("move.cancel", "bob"),
    ]


async def test_a_move_that_fails_says_so(bench: Bench) -> None:
    await bench.create("b")
    await bench.fill(b"1", b"2")
    move = await result(bench.broker.moves.start("q", "b", MoveTerms(per_second=1), by=ANN))
    await result(bench.broker.delete_queue("b"))
    await ended_move(bench, move.id)
    *_, (what, queue, _, detail) = await told(bench.broker)
    assert (what, queue, detail["status"]) == ("move.end", "q", "ERROR")
    assert "b" in detail["error"]


async def test_keys_are_told_with_their_rules_and_without_their_secrets(bench: Bench) -> None:
    keys = bench.broker.keys
    await result(keys.create("shop", b"the digest", ["queue|post|orders"], by=ANN))
    await result(keys.revoke("shop", ANN))
    await result(keys.revoke("shop", ANN))
    assert await told(bench.broker) == [
        ("key.create", None, None, {"name": "shop", "rules": ["queue|post|orders"]}),
        ("key.revoke", None, None, {"name": "shop"}),
    ]
    assert "digest" not in str(await actions(bench.broker))


async def test_what_leaves_everything_as_it_was_is_not_written_down(bench: Bench) -> None:
    await result(bench.broker.ensure_queue("q", Settings(), ANN))
    await result(bench.broker.update_queue("q", QueueChange(), by=ANN))
    await result(bench.broker.update_queue("q", QueueChange(delay_ms=0), by=ANN))
    assert await actions(bench.broker) == []


async def test_nor_is_what_nobody_is_named_for(bench: Bench) -> None:
    broker = bench.broker
    await result(broker.create_queue("a", Settings()))
    await result(broker.update_queue("a", QueueChange(delay_ms=3)))
    await result(broker.send("new", [Draft(b"1")], Settings()))
    move = await result(broker.moves.start("new", "a"))
    await ended_move(bench, move.id)
    await result(broker.purge("a"))
    await result(broker.delete_queue("a"))
    assert await actions(broker) == []


async def test_nor_is_what_fails(bench: Bench) -> None:
    broker, rules = bench.broker, ["queue|poll|other"]
    await result(broker.keys.create("k", b"d", ["queue|*|*"]))
    await bench.create("b")
    await bench.fill(b"1", b"2")
    move = await result(broker.moves.start("q", "b", MoveTerms(per_second=1)))
    failing: list[tuple[Any, type[PenstockError]]] = [
        (broker.create_queue("q", Settings(), ANN), QueueExists),
        (broker.update_queue("no", QueueChange(delay_ms=1), by=ANN), QueueNotFound),
        (broker.update_queue("q", QueueChange(redrive=Redrive(1, "b")), rules, ANN), NotPermitted),
        (broker.delete_queue("no", ANN), QueueNotFound),
        (broker.purge("no", ANN), QueueNotFound),
        (broker.purge_older("no", 1, ANN), QueueNotFound),
        (broker.release_all("no", ANN), QueueNotFound),
        (broker.moves.start("no", "q", by=ANN), QueueNotFound),
        (broker.moves.start("q", "made", create_as=Settings(), by=ANN), PenstockError),
        (broker.moves.cancel("no", by=ANN), MoveNotFound),
        (broker.moves.cancel(move.id, rules, ANN), NotPermitted),
        (broker.keys.create("k", b"e", ["queue|*|*"], by=ANN), KeyExists),
        (broker.keys.revoke("no", ANN), KeyNotFound),
    ]
    for pending, error in failing:
        with pytest.raises(error):
            await result(pending)
    assert await actions(broker) == []
    assert await result(broker.find_queues(["made"])) == [None]


async def test_the_entry_and_the_change_are_one_unit(bench: Bench) -> None:
    def fail_on_entries(_unit: object, verb: str, _args: object) -> None:
        if verb == "record":
            raise StoreUnavailable("gone")

    bench.store.on_verb = fail_on_entries
    with pytest.raises(StoreUnavailable):
        await result(bench.broker.create_queue("a", Settings(), ANN))
    bench.store.on_verb = lambda *_: None
    assert await result(bench.broker.find_queues(["a"])) == [None]
    assert await actions(bench.broker) == []


async def test_what_only_the_caller_knows_is_recorded(bench: Bench) -> None:
    console = Actor(None, "console")
    await result(bench.broker.actions.record(console, ActionKind.CONSOLE_SIGN_IN))
    await result(bench.broker.actions.record(console, ActionKind.MESSAGES_SEND, "q", 3, "x" * 9_999))
    send, sign_in = await actions(bench.broker)
    assert (sign_in.what, sign_in.via, sign_in.queue) == (ActionKind.CONSOLE_SIGN_IN, "console", None)
    assert (send.queue, send.count, len(send.detail or "")) == ("q", 3, ACTION_DETAIL_LENGTH)
    assert (send.detail or "").endswith("…")
    found = await actions(bench.broker, ActionFilter(what=ActionKind.MESSAGES_SEND))
    assert found == [send]


@pytest.mark.parametrize("timings", [Timings(actions_retention_ms=60_000)])
async def test_the_sweep_frees_old_ones(bench: Bench) -> None:
    await result(bench.broker.create_queue("a", Settings(), ANN))
    bench.broker.start()
    await asyncio.sleep(58)
    assert len(await actions(bench.broker)) == 1
    await asyncio.sleep(4)
    assert await actions(bench.broker) == []
    bench.broker.stop()
