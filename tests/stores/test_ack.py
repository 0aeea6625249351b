from __future__ import annotations

import pytest

from penstock import ids
from penstock.model import Draft, Outcome, Receipt, Settings


def test_an_acked_message_is_gone(verbs):
    verbs.create(visibility_ms=10)
    verbs.send(b"x")
    [message] = verbs.claim()
    assert verbs.ack(message) == [True]
    verbs.now += 10
    assert verbs.seen() == verbs.bodies() == []
    assert verbs.outcomes() == [Outcome.PROCESSED]


def test_again_is_too_late(verbs):
    verbs.create()
    verbs.send(b"x")
    [message] = verbs.claim()
    assert verbs.ack(message) == [True]
    assert verbs.ack(message) == [False]
    assert verbs.tally().departed == 1


def test_twice_in_one_call_finishes_once(verbs):
    verbs.create()
    verbs.send(b"x", b"y")
    x, y = verbs.claim()
    assert verbs.ack(x, y, x, Receipt(x.id)) == [True, True, False, False]
    assert verbs.tally().departed == 2
    assert len(verbs.rows()) == 2


@pytest.mark.parametrize("step", [1, 2, 3])
def test_many_in_any_order_leave_their_neighbours_alone(verbs, step):
    verbs.create()
    verbs.create("other")
    verbs.send(*(b"%d" % n for n in range(30)))
    verbs.send(b"next door", to="other")
    verbs.send(*(b"%d" % n for n in range(30, 60)))
    claimed = verbs.claim(limit=60)
    done = claimed[10:50:step]
    assert verbs.ack(*reversed(done)) == [True] * len(done)
    left = [message for message in claimed if message not in done]
    assert [message.id for message in verbs.peek()] == [message.id for message in left]
    assert verbs.seen("other") == [b"next door"]
    assert verbs.ack(*claimed) == [message in left for message in claimed]


def test_a_message_of_any_state_by_its_bare_id(verbs):
    verbs.create(delay_ms=10)
    [delayed] = verbs.send(b"delayed")
    verbs.update()
    [ready] = verbs.send(b"ready")
    assert verbs.ack(Receipt(delayed.id), Receipt(ready.id)) == [True, True]
    assert verbs.seen() == []


def test_a_claim_that_has_run_out_still_counts_while_it_is_the_latest(verbs):
    verbs.create(visibility_ms=10)
    verbs.send(b"x")
    [message] = verbs.claim()
    verbs.now += 1_000
    assert verbs.ack(message) == [True]


def test_a_stale_receipt_does_not_touch_the_claim_of_another(verbs):
    verbs.create(visibility_ms=10)
    verbs.send(b"x")
    [stale] = verbs.claim()
    verbs.now += 10
    [fresh] = verbs.claim()
    assert verbs.ack(stale) == [False]
    assert verbs.peek() == [fresh]
    assert verbs.ack(fresh) == [True]


def test_a_claim_from_the_future_does_not_match(verbs):
    verbs.create()
    [sent] = verbs.send(b"x")
    verbs.claim()
    assert verbs.ack(Receipt(sent.id, claim=2), Receipt(sent.id, claim=0)) == [False, False]


def test_a_receipt_with_a_queue_matches_only_there(verbs):
    verbs.create()
    verbs.create("other")
    [sent] = verbs.send(b"x")
    assert verbs.ack(Receipt(sent.id, queue="other"), Receipt(sent.id, queue="nowhere")) == [False, False]
    assert verbs.ack(Receipt(sent.id, queue="q")) == [True]


def test_messages_of_several_queues_in_one_call(verbs):
    verbs.create("a")
    verbs.create("b")
    [a] = verbs.send(b"a", to="a")
    [b] = verbs.send(b"b", to="b")
    assert verbs.ack(Receipt(b.id), Receipt(a.id)) == [True, True]
    assert verbs.tally("a").departed == verbs.tally("b").departed == 1


def test_the_case_of_an_id_does_not_matter(verbs):
    verbs.create()
    [sent] = verbs.send(b"x")
    assert verbs.ack(Receipt(sent.id.upper())) == [True]


@pytest.mark.needs("numbers")
def test_an_id_of_another_store_is_unknown(verbs, other_store):
    """Even though its time and its sequence number are those of a message here."""
    verbs.create()
    [own] = verbs.send(b"x")
    with other_store.unit() as unit:
        unit.create_queue("q", Settings(), verbs.now)
        [foreign] = unit.send("q", [Draft(b"x")], verbs.now)
    assert ids.seq_of(foreign.id) == ids.seq_of(own.id)
    assert verbs.ack(Receipt(foreign.id)) == [False]
    assert verbs.seen() == [b"x"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1",
        "00000000-0000-7000-8000-000000000001",
        "zzzzzzzz-0000-7000-8000-000000000001",
        "1" * 36,
        "é" * 36,
    ],
)
def test_what_is_not_an_id_of_ours_is_unknown(verbs, text):
    verbs.create()
    verbs.send(b"x")
    assert verbs.ack(Receipt(text)) == [False]
    assert verbs.seen() == [b"x"]


def test_the_right_sequence_number_in_a_wrong_id_is_unknown(verbs):
    verbs.create()
    [sent] = verbs.send(b"x")
    another_time = "00000000" + sent.id[8:]
    another_origin = sent.id[:15] + ("0" if sent.id[15] != "0" else "1") + sent.id[16:]
    assert verbs.ack(Receipt(another_time), Receipt(another_origin)) == [False, False]


def test_a_batch_of_a_thousand(verbs):
    verbs.create()
    verbs.send(*([b"x"] * 1_000))
    assert verbs.ack(*verbs.claim(1_000)) == [True] * 1_000
    assert verbs.tally().departed == 1_000


def test_nothing(verbs):
    assert verbs.ack() == []
