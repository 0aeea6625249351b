"""Looking at messages by what they are, and one by its id, changing nothing."""

from __future__ import annotations

import pytest

from penstock.errors import QueueNotFound
from penstock.limits import Limits
from penstock.model import (
    Backoff,
    Draft,
    Groups,
    JsonValue,
    MessageState,
    PeekAfter,
    Redrive,
    Selection,
    WantedAttribute,
)
from tests.stores.conftest import Verbs

pytestmark = pytest.mark.needs("messages", "receives")

READY, DELAYED, CLAIMED = MessageState.READY, MessageState.DELAYED, MessageState.CLAIMED


def bodies(scan) -> list[bytes]:
    return [found.message.body for found in scan.messages]


def states(verbs: Verbs) -> dict[bytes, MessageState]:
    return {found.message.body: found.state for found in verbs.messages.scan(Selection(), after=None).messages}


def scan(verbs: Verbs, rows: int = 1_000, limit: int = 1_000, **selection):
    """All of a queue, in as many steps as it takes."""
    messages, examined, after = [], 0, None
    while True:
        step = verbs.messages.scan(Selection(**selection), after=after, rows=rows, limit=limit)
        messages += step.messages
        examined, after = examined + step.examined, step.after
        assert len(step.messages) <= limit
        assert step.examined <= rows
        if after is None:
            return [found.message.body for found in messages], examined
        assert step.examined > 0


@pytest.mark.parametrize("rows", [1, 3, 1_000])
@pytest.mark.parametrize("limit", [1, 2, 1_000])
def test_it_shows_what_is_selected_in_the_order_of_a_peek(verbs, rows, limit):
    verbs.create()
    verbs.send(*(b"%d" % number for number in range(10)))
    verbs.send(Draft(b"5 later", delay_ms=60_000), Draft(b"5 sooner", delay_ms=50_000))
    verbs.claim(limit=2, hold_ms=55_000)
    before = verbs.peek()
    assert scan(verbs, rows, limit, text="5") == ([b"5", b"5 sooner", b"5 later"], 12)
    assert scan(verbs, rows, limit) == (verbs.seen(), 12)
    assert scan(verbs, rows, limit, text="nowhere") == ([], 12)
    assert verbs.peek() == before


def test_every_state_is_told_as_a_count_tells_it(verbs):
    verbs.create(backoff=Backoff(10_000, 10_000))
    verbs.send(b"run out", b"claimed", b"put off", b"ready", Draft(b"delayed", delay_ms=60_000))
    [run_out, claimed, put_off] = verbs.claim(limit=3, hold_ms=5_000)
    verbs.release(put_off, delay_ms=60_000)
    verbs.renew(claimed, until=verbs.now + 60_000)
    verbs.now += 5_000
    assert states(verbs) == {
        b"run out": DELAYED,
        b"claimed": CLAIMED,
        b"put off": DELAYED,
        b"ready": READY,
        b"delayed": DELAYED,
    }
    count = verbs.count()
    assert (count.ready, count.delayed, count.claimed) == (1, 3, 1)
    assert scan(verbs, state=CLAIMED) == ([b"claimed"], 5)
    verbs.now += 10_000
    assert states(verbs)[b"run out"] is READY
    assert run_out.claim == 1


@pytest.mark.needs("shipments")
def test_in_a_shipment_it_is_claimed(verbs):
    verbs.create()
    verbs.send(b"1", b"2")
    verbs.ship(limit=1)
    [two, one] = verbs.messages.scan(Selection(), after=None).messages
    assert (one.message.body, one.state, one.shipped) == (b"1", CLAIMED, True)
    assert (two.message.body, two.state, two.shipped) == (b"2", READY, False)


def test_behind_another_of_its_group_it_is_ready(verbs):
    verbs.create(groups=Groups.FIFO)
    verbs.send(Draft(b"1", group="g"), Draft(b"2", group="g"), Draft(b"3", group="h"))
    verbs.claim(limit=1)
    assert states(verbs) == {b"1": CLAIMED, b"2": READY, b"3": READY}
    assert scan(verbs, rows=1, state=READY) == ([b"3", b"2"], 3)


def test_every_condition_holds(verbs):
    verbs.create()
    verbs.send(
        Draft(b'{"n": 1}', "application/json", {"kind": "test"}),
        Draft(b'{"n": 1}', "application/json", {"kind": "other"}),
        Draft(b'{"n": 2}', "application/json", {"kind": "test"}),
        Draft(b"n", None, {"kind": "test"}),
        b"plain",
    )
    kind = WantedAttribute("kind", "test")
    assert scan(verbs, attribute=WantedAttribute("kind"))[0] == [b'{"n": 1}', b'{"n": 1}', b'{"n": 2}', b"n"]
    assert scan(verbs, attribute=kind)[0] == [b'{"n": 1}', b'{"n": 2}', b"n"]
    assert scan(verbs, attribute=kind, json=JsonValue("$.n", 1))[0] == [b'{"n": 1}']
    assert scan(verbs, attribute=kind, content_type="application/json", text="2")[0] == [b'{"n": 2}']
    assert scan(verbs, attribute=kind, min_receives=1)[0] == []


@pytest.mark.parametrize("limits", [Limits(move_bytes=10)])
def test_a_step_reads_no_more_than_it_may(verbs):
    verbs.create()
    verbs.send(*(b"%d2345678" % number for number in range(6)))
    step = verbs.messages.scan(Selection(text="5"), after=None)
    assert (bodies(step), step.examined) == ([b"02345678", b"12345678"], 2)
    assert step.read == 16
    assert scan(verbs, text="5") == ([b"%d2345678" % number for number in range(6)], 6)
    assert scan(verbs, text="3456", max_receives=0)[1] == 6


def test_a_scan_goes_on_after_what_has_gone(verbs):
    verbs.create()
    verbs.send(b"1", b"2", b"3", b"4")
    step = verbs.messages.scan(Selection(), limit=2, after=None)
    verbs.purge(through=step.messages[-1].message.seq)
    rest = verbs.messages.scan(Selection(), after=step.after)
    assert (bodies(rest), rest.after) == ([b"3", b"4"], None)
    assert verbs.messages.scan(Selection(), after=PeekAfter(10**15, 0)).examined == 0


def test_a_message_is_found_by_its_id_in_any_state(verbs):
    verbs.create()
    [sent] = verbs.send(Draft(b"1", "text/plain", {"kind": "test"}))
    found = verbs.messages.find(sent.id)
    assert (found.message, found.state, found.last_claimed_at, found.shipped) == (verbs.peek()[0], READY, None, False)
    verbs.claim(hold_ms=1_000)
    verbs.now += 1_000
    [again] = verbs.claim()
    found = verbs.messages.find(sent.id.upper())
    assert found.message == again
    assert (found.message.claim, found.message.receives) == (2, 2)
    assert (found.message.first_claimed_at, found.last_claimed_at) == (verbs.now - 1_000, verbs.now)
    assert found.state is CLAIMED
    with verbs.unit() as unit:
        assert unit.messages.find("q", sent.id, verbs.now, True) == found


@pytest.mark.needs("redrive")
def test_a_dead_letter_says_where_it_came_from(verbs):
    verbs.create("dead")
    verbs.create(redrive=Redrive(1, "dead"))
    [sent] = verbs.send(b"1")
    verbs.claim(hold_ms=0)
    verbs.claim()
    assert verbs.messages.find(sent.id, queue="dead").message.came_from == "q"
    assert verbs.messages.find(sent.id) is None


@pytest.mark.needs("shipments")
def test_one_in_a_shipment_is_found_as_such(verbs):
    verbs.create()
    [sent] = verbs.send(b"1")
    verbs.ship()
    assert verbs.messages.find(sent.id).shipped


def test_what_is_not_there_is_not_found(verbs):
    verbs.create()
    verbs.create("other")
    [sent] = verbs.send(b"1")
    [elsewhere] = verbs.send(b"2", to="other")
    foreign = sent.id[:9] + "0000" + sent.id[13:]
    for wrong in (elsewhere.id, foreign, "", "x" * 36, "nonsense"):
        assert verbs.messages.find(wrong) is None
    with pytest.raises(QueueNotFound):
        verbs.messages.find(sent.id, queue="none")
    with pytest.raises(QueueNotFound):
        verbs.messages.scan(Selection(), queue="none", after=None)
