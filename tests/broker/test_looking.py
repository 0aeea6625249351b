"""Messages looked at, deleted, moved and sent again by those who look after a queue, through the broker."""

from __future__ import annotations

import asyncio
import json

import pytest

from penstock.errors import InvalidRequest, NotPermitted, QueueNotFound
from penstock.limits import Limits
from penstock.model import (
    Action,
    Actor,
    Ages,
    Dealing,
    Dedup,
    Draft,
    Groups,
    LedgerFilter,
    LedgerMode,
    MoveAction,
    MoveStatus,
    MoveTerms,
    Outcome,
    Redrive,
    Resent,
    Selection,
)
from tests.broker.conftest import Bench, receipt, result, results

pytestmark = pytest.mark.asyncio(loop_factories=["jumping"])


async def seen(bench: Bench, queue: str = "q") -> list[bytes]:
    return [message.body for message in await result(bench.broker.peek(queue, 1_000))]


async def actions(bench: Bench) -> list[Action]:
    """What was written down, the first first."""
    return list(await result(bench.broker.actions.list(None, 100)))[::-1]


async def the_only(bench: Bench, queue: str = "q") -> str:
    [message] = await result(bench.broker.peek(queue, 10))
    return message.id


@pytest.mark.parametrize("limits", [Limits(step_rows=10)])
async def test_a_scan_looks_in_steps_with_others_in_between(bench: Bench) -> None:
    await bench.fill(*(b"%d" % number for number in range(95)))
    scan, sent = await results(bench.broker.scan("q", Selection(text="9"), 1_000), bench.send(b"other"))
    assert [found.message.body for found in scan.messages] == [b"9", *(b"%d9" % n for n in range(1, 9)), *(
        b"9%d" % n for n in range(5)
    )]  # fmt: skip
    assert (scan.examined, scan.after) == (96, None)
    assert len(sent) == 1
    assert len(bench.store.units) >= 10


@pytest.mark.parametrize("limits", [Limits(step_rows=10, scan_rows=25)])
async def test_a_scan_ends_where_it_has_looked_at_enough(bench: Bench) -> None:
    await bench.fill(*(b"%d" % number for number in range(60)))
    examined, found, after = [], 0, None
    while True:
        scan = await result(bench.broker.scan("q", Selection(text="5"), 100, after=after))
        examined.append(scan.examined)
        found, after = found + len(scan.messages), scan.after
        if after is None:
            break
    assert examined == [25, 25, 10]
    assert found == 15


@pytest.mark.parametrize("limits", [Limits(step_rows=10, scan_bytes=100)])
async def test_a_scan_ends_where_it_has_read_enough(bench: Bench) -> None:
    await bench.fill(*(b"0123456789" for _ in range(40)))
    scan = await result(bench.broker.scan("q", Selection(text="x"), 100))
    assert (scan.examined, scan.messages, scan.after is None) == (10, [], False)


async def test_a_scan_ends_at_its_limit(bench: Bench) -> None:
    await bench.fill(b"1", b"2", b"3")
    first = await result(bench.broker.scan("q", Selection(), 2))
    rest = await result(bench.broker.scan("q", Selection(), 2, after=first.after))
    assert [[found.message.body for found in scan.messages] for scan in (first, rest)] == [[b"1", b"2"], [b"3"]]


async def test_ages_count_from_now(bench: Bench) -> None:
    await bench.fill(b"old")
    await asyncio.sleep(10)
    await bench.fill(b"new")
    for ages, meant in ((Ages(older_than_ms=5_000), b"old"), (Ages(newer_than_ms=5_000), b"new")):
        scan = await result(bench.broker.scan("q", Selection(), 10, ages))
        assert [found.message.body for found in scan.messages] == [meant]


async def test_what_is_named_is_found_deleted_and_moved(bench: Bench) -> None:
    await bench.create("there")
    await bench.fill(b"1", b"2")
    one, two = [message.id for message in await result(bench.broker.peek("q", 10))]
    found = await result(bench.broker.find_message("q", one))
    assert found is not None
    assert found.message.body == b"1"
    assert await result(bench.broker.delete_messages("q", [one, "x"])) == [Dealing.DONE, Dealing.MISSING]
    assert await result(bench.broker.find_message("q", one)) is None
    assert await result(bench.broker.move_messages("q", [two, one], "there")) == [Dealing.DONE, Dealing.MISSING]
    assert await seen(bench, "there") == [b"2"]
    assert await result(bench.broker.move_messages("there", [two])) == [Dealing.HOMELESS]


async def test_a_move_by_name_wakes_those_who_wait(bench: Bench) -> None:
    await bench.create("there")
    await bench.fill(b"1")
    waiting = result(bench.broker.claim("there", 1, None, 20_000))
    await bench.turn()
    await result(bench.broker.move_messages("q", [await the_only(bench)], "there"))
    assert [message.body for message in await waiting] == [b"1"]


async def test_what_cannot_be_is_refused(bench: Bench) -> None:
    told = await results(
        bench.broker.scan("none", Selection(), 10),
        bench.broker.find_message("none", "x"),
        bench.broker.delete_messages("none", ["x"]),
        bench.broker.move_messages("q", ["x"], "none"),
        bench.broker.resend("none", "x", Draft(b"")),
        bench.broker.move_messages("q", ["x"], "q"),
        bench.broker.moves.start("q", "q", MoveTerms(action=MoveAction.DELETE)),
    )
    assert [type(error) for error in told] == [QueueNotFound] * 5 + [InvalidRequest] * 2


async def test_one_message_is_sent_in_the_place_of_another(bench: Bench) -> None:
    await bench.fill(b"wrong")
    old = await the_only(bench)
    resent = await result(bench.broker.resend("q", old, Draft(b"right", attributes={"kind": "test"})))
    [new] = await result(bench.broker.peek("q", 10))
    assert resent == Resent(Dealing.DONE, new.id)
    assert (new.id != old, new.body, new.attributes) == (True, b"right", {"kind": "test"})
    [row] = await result(bench.broker.ledger.rows(0, 10))
    assert (row.id, row.outcome) == (old, Outcome.PURGED)
    assert await result(bench.broker.resend("q", old, Draft(b"again"))) == Resent(Dealing.MISSING)
    assert await seen(bench) == [b"right"]


async def test_a_dead_letter_is_sent_to_where_it_came_from(bench: Bench) -> None:
    await bench.create("dead")
    await bench.create("live", redrive=Redrive(1, "dead"))
    await bench.fill(b"wrong", to="live")
    await result(bench.broker.claim("live", 1, 0))
    await result(bench.broker.claim("live", 1))
    dead = await the_only(bench, "dead")
    with pytest.raises(NotPermitted, match="live"):
        await result(bench.broker.resend("dead", dead, Draft(b"x"), None, ["queue|post|dead"]))
    assert await seen(bench, "dead") == [b"wrong"]
    resent = await result(bench.broker.resend("dead", dead, Draft(b"right"), None, ["queue|post|live"]))
    assert resent.dealing is Dealing.DONE
    assert (await seen(bench, "live"), await seen(bench, "dead")) == ([b"right"], [])


async def test_a_target_that_is_not_there_costs_nothing(bench: Bench) -> None:
    await bench.fill(b"1")
    with pytest.raises(QueueNotFound):
        await result(bench.broker.resend("q", await the_only(bench), Draft(b"2"), "none"))
    assert await seen(bench) == [b"1"]


async def test_the_message_itself_is_not_in_the_way(bench: Bench) -> None:
    await bench.create("keyed", dedup=Dedup.SEND)
    await bench.fill(b"1", to="keyed")
    resent = await result(bench.broker.resend("keyed", await the_only(bench, "keyed"), Draft(b"1")))
    assert resent == Resent(Dealing.DONE, await the_only(bench, "keyed"))


@pytest.mark.parametrize("dedup", [Dedup.SEND, Dedup.WINDOW])
async def test_for_a_twin_the_message_stays(bench: Bench, dedup: Dedup) -> None:
    await bench.create("keyed", dedup=dedup)
    await bench.fill(b"twin", b"wrong", to="keyed")
    twin, wrong = [message.id for message in await result(bench.broker.peek("keyed", 10))]
    resent = await result(bench.broker.resend("keyed", wrong, Draft(b"twin")))
    assert resent == Resent(Dealing.TWIN, twin)
    assert await seen(bench, "keyed") == [b"twin", b"wrong"]


async def test_within_its_window_the_same_text_is_not_lost(bench: Bench) -> None:
    await bench.create("keyed", dedup=Dedup.WINDOW)
    await bench.fill(b"1", to="keyed")
    one = await the_only(bench, "keyed")
    assert await result(bench.broker.resend("keyed", one, Draft(b"1"))) == Resent(Dealing.TWIN, one)
    assert await the_only(bench, "keyed") == one


async def test_a_line_refuses_a_delay_of_its_own_and_nothing_happens(bench: Bench) -> None:
    await bench.create("lined", groups=Groups.FIFO)
    await result(bench.broker.send("lined", [Draft(b"1", group="g")]))
    with pytest.raises(InvalidRequest):
        await result(bench.broker.resend("lined", await the_only(bench, "lined"), Draft(b"2", delay_ms=5, group="g")))
    assert await seen(bench, "lined") == [b"1"]


async def test_a_move_that_deletes_goes_on_by_itself(bench: Bench) -> None:
    await bench.fill(*(b"%d" % number for number in range(600)))
    terms = MoveTerms(Selection(text="5"), action=MoveAction.DELETE)
    started = await result(bench.broker.moves.start("q", None, terms))
    while (move := await result(bench.broker.moves.find(started.id))).status is MoveStatus.IN_PROGRESS:
        await asyncio.sleep(0.1)
    assert (move.status, move.examined) == (MoveStatus.COMPLETE, 600)
    assert move.moved == sum("5" in str(number) for number in range(600))


async def test_a_move_that_releases_wakes_those_who_wait(bench: Bench) -> None:
    await bench.fill(b"1")
    [held] = await result(bench.broker.claim("q", 1))
    waiting = result(bench.broker.claim("q", 1, None, 20_000))
    await bench.turn()
    await result(bench.broker.moves.start("q", None, MoveTerms(action=MoveAction.RELEASE)))
    [again] = await waiting
    assert (again.id, again.claim) == (held.id, 2)


@pytest.mark.parametrize("limits", [Limits(step_rows=10, scan_rows=25)])
async def test_the_latest_rows_of_the_ledger_come_in_steps(bench: Bench) -> None:
    await bench.create("kept", ledger=LedgerMode.BODIES)
    await bench.fill(*(b"%d" % number for number in range(30)), to="kept")
    held = await result(bench.broker.claim("kept", 5))
    await result(bench.broker.ack([receipt(message) for message in held]))
    await result(bench.broker.purge("kept"))
    wanted, processed = LedgerFilter("kept"), [Outcome.PROCESSED]
    first = await result(bench.broker.ledger.latest(100, wanted, processed))
    assert ([row.body for row in first.rows], first.examined) == ([], 25)
    rest = await result(bench.broker.ledger.latest(100, wanted, processed, first.below))
    assert [row.body for row in rest.rows] == [b"4", b"3", b"2", b"1", b"0"]
    assert (rest.examined, rest.below) == (5, None)
    assert len((await result(bench.broker.ledger.latest(7, wanted))).rows) == 7


async def test_claims_on_what_is_named_end(bench: Bench) -> None:
    await bench.fill(b"1", b"2")
    one, two = await result(bench.broker.claim("q", 2))
    assert await result(bench.broker.release_messages("q", [one.id, "x"])) == [Dealing.DONE, Dealing.MISSING]
    assert [message.id for message in await result(bench.broker.claim("q", 2))] == [one.id]
    assert await result(bench.broker.ack([receipt(two)])) == [True]
    with pytest.raises(QueueNotFound):
        await result(bench.broker.release_messages("none", [one.id]))


async def test_who_deals_with_messages_is_written_down(bench: Bench) -> None:
    by = Actor("admin", "native")
    await bench.create("there")
    await bench.fill(b"1", b"2", b"3", b"4")
    one, two, three, four = [message.id for message in await result(bench.broker.peek("q", 10))]
    await result(bench.broker.claim("q", 1))
    await result(bench.broker.release_messages("q", [one], by=by))
    await result(bench.broker.delete_messages("q", [one, "x"], by=by))
    await result(bench.broker.move_messages("q", [two, three], "there", by=by))
    resent = await result(bench.broker.resend("q", four, Draft(b"5"), by=by))
    await result(bench.broker.delete_messages("q", ["x"], by=by))
    entries = [(one.what.value, one.queue, one.count, json.loads(one.detail or "")) for one in await actions(bench)]
    assert entries == [
        ("messages.release", "q", 1, {"ids": [one]}),
        ("messages.delete", "q", 1, {"ids": [one]}),
        ("messages.move", "q", 2, {"target": "there", "ids": [two, three]}),
        ("messages.resend", "q", 1, {"id": four, "target": "q", "new": resent.id}),
    ]


async def test_a_move_that_deletes_is_written_down_with_its_count(bench: Bench) -> None:
    await bench.fill(b"1", b"2")
    terms = MoveTerms(action=MoveAction.DELETE)
    started = await result(bench.broker.moves.start("q", None, terms, by=Actor("admin", "native")))
    while (await result(bench.broker.moves.find(started.id))).status is MoveStatus.IN_PROGRESS:
        await asyncio.sleep(0.1)
    begun, ended = await actions(bench)
    assert (begun.what.value, json.loads(begun.detail)["terms"]) == ("move.start", {"action": "delete"})
    assert (ended.what.value, ended.count) == ("move.end", 2)
