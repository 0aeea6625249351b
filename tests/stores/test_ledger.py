from __future__ import annotations

from hashlib import sha256

import pytest

from penstock.limits import Limits
from penstock.model import Draft, LedgerMode, LedgerRow, Outcome, Redrive


def test_a_row_tells_the_life_of_a_message(verbs):
    verbs.create(visibility_ms=10, ledger=LedgerMode.BODIES)
    [sent] = verbs.send(Draft(b"a\x00b", content_type="a/b"))
    sent_at = verbs.now
    verbs.now = first = sent_at + 5
    verbs.claim()
    verbs.now = last = sent_at + 50
    [message] = verbs.claim()
    verbs.now = sent_at + 55
    verbs.ack(message)
    [row] = verbs.rows()
    assert row == LedgerRow(
        number=row.number,
        queue="q",
        id=sent.id,
        sent_at=sent_at,
        first_claimed_at=first,
        last_claimed_at=last,
        finished_at=verbs.now,
        receives=2,
        outcome=Outcome.PROCESSED,
        size=3,
        body_hash=sha256(b"a\x00b").digest(),
        content_type="a/b",
        body=b"a\x00b",
    )


def test_a_message_that_was_never_claimed(verbs):
    verbs.create()
    verbs.send(b"")
    verbs.purge()
    [row] = verbs.rows()
    assert (row.first_claimed_at, row.last_claimed_at, row.receives) == (None, None, 0)
    assert (row.size, row.body, row.content_type) == (0, None, None)


@pytest.mark.parametrize(("mode", "bodies"), [("OFF", []), ("OUTCOMES", [None]), ("BODIES", [b"x"])])
def test_the_queue_decides_what_is_kept(verbs, mode, bodies):
    verbs.create(ledger=LedgerMode[mode])
    verbs.send(b"x")
    verbs.ack(*verbs.claim())
    assert [row.body for row in verbs.rows()] == bodies
    assert verbs.tally().departed == 1


def test_the_setting_of_the_moment_it_finishes_counts(verbs):
    verbs.create(ledger=LedgerMode.OFF)
    verbs.send(b"x", b"y")
    verbs.ack(*verbs.claim(limit=1))
    verbs.now += 1
    verbs.update(ledger=LedgerMode.BODIES)
    verbs.ack(*verbs.claim())
    assert [row.body for row in verbs.rows()] == [b"y"]


def test_an_empty_body_is_kept_as_an_empty_body(verbs):
    verbs.create(ledger=LedgerMode.BODIES)
    verbs.send(b"")
    verbs.ack(*verbs.claim())
    assert [row.body for row in verbs.rows()] == [b""]


def test_in_the_order_they_finished_over_all_queues(verbs):
    verbs.create("a")
    verbs.create("b")
    verbs.send(b"1", b"2", to="a")
    verbs.send(b"3", to="b")
    one, two = verbs.claim(queue="a")
    verbs.ack(two)
    verbs.ack(*verbs.claim(queue="b"))
    verbs.ack(one)
    assert [row.queue for row in verbs.rows()] == ["a", "b", "a"]
    assert [row.id for row in verbs.rows()][::2] == [two.id, one.id]


def test_page_by_page(verbs):
    verbs.create()
    verbs.send(*([b"x"] * 5))
    verbs.purge()
    everything = verbs.rows()
    first = verbs.rows(limit=2)
    second = verbs.rows(after=first[-1].number, limit=2)
    third = verbs.rows(after=second[-1].number, limit=2)
    assert first + second + third == everything
    assert len(third) == 1
    assert verbs.rows(after=third[-1].number) == []


def test_a_dead_letter_has_a_row_in_each_queue_it_left(verbs):
    verbs.create("dead", ledger=LedgerMode.BODIES)
    verbs.create(redrive=Redrive(1, "dead"), visibility_ms=0)
    [sent] = verbs.send(b"x")
    verbs.claim()
    verbs.claim()
    verbs.now += 5
    verbs.ack(*verbs.claim(queue="dead"))
    in_queue, in_dead = verbs.rows()
    assert in_queue.id == in_dead.id == sent.id
    assert (in_queue.queue, in_queue.outcome, in_queue.receives) == ("q", Outcome.DEAD_LETTERED, 1)
    assert (in_dead.queue, in_dead.outcome, in_dead.receives) == ("dead", Outcome.PROCESSED, 1)
    assert in_queue.first_claimed_at == verbs.now - 5
    assert in_dead.first_claimed_at == in_dead.last_claimed_at == verbs.now
    assert (in_queue.body, in_dead.body) == (None, b"x")


def test_arrived_is_live_and_departed_by_every_way(verbs):
    verbs.create("target")
    verbs.create("dead")
    verbs.create(retention_ms=100, redrive=Redrive(1, "dead"))
    verbs.send(b"expired")
    verbs.now += 50
    verbs.send(
        b"processed",
        b"dead-lettered",
        Draft(b"failed", deadline_at=verbs.now + 50),
        b"moved",
        b"purged",
        b"live",
    )
    verbs.now += 10
    expired, processed, dead = verbs.claim(limit=3, hold_ms=1)
    verbs.ack(processed)
    verbs.now += 40
    verbs.claim(limit=0)
    verbs.claim(limit=1, hold_ms=0)
    verbs.move("q", "target", limit=1)
    verbs.purge(limit=1)
    tally = verbs.tally()
    assert (tally.arrived, tally.arrived - tally.departed) == (7, 1)
    assert sorted(verbs.outcomes()) == [
        Outcome.PROCESSED,
        Outcome.EXPIRED,
        Outcome.DEAD_LETTERED,
        Outcome.FAILED,
        Outcome.PURGED,
        Outcome.MOVED,
    ]
    assert expired.id != dead.id


@pytest.fixture
def told(verbs):
    """Rows of two queues, one of which was deleted and made again, a second apart each."""
    for name in ("a", "b"):
        verbs.create(name)
    for number, name in enumerate("abab"):
        verbs.send(b"%d" % number, to=name)
        verbs.ack(*verbs.claim(queue=name))
        verbs.now += 1_000
    verbs.delete("a")
    verbs.create("a")
    verbs.send(b"4", to="a")
    verbs.ack(*verbs.claim(queue="a"))
    return verbs


def numbered(rows):
    return [row.number - rows[0].number for row in rows] if rows else []


def test_rows_of_one_queue_also_of_those_that_had_its_name(told):
    assert [row.queue for row in told.rows()] == ["a", "b", "a", "b", "a"]
    assert numbered(told.rows(queue="a")) == [0, 2, 4]
    assert numbered(told.rows(queue="b")) == [0, 2]
    assert told.rows(queue="c") == []
    first = told.rows(queue="a", limit=1)
    assert numbered(told.rows(queue="a", after=first[-1].number, limit=1)) == [0]
    assert len(told.rows(queue="a", after=first[-1].number)) == 2


def test_rows_of_one_message(told):
    told.send(b"x", to="a")
    told.move("a", "b")
    [message] = told.claim(queue="b")
    told.ack(message)
    assert [row.queue for row in told.rows(id=message.id.upper())] == ["a", "b"]
    assert [row.queue for row in told.rows(id=message.id, queue="b")] == ["b"]
    assert told.rows(id="no id") == []


@pytest.mark.parametrize("limits", [Limits(ledger_disorder_ms=0), Limits()])
def test_rows_by_the_time_they_finished(told):
    end = told.now
    assert [row.finished_at for row in told.rows(since=end - 2_000)] == [end - 2_000, end - 1_000, end]
    assert [row.finished_at for row in told.rows(before=end - 3_000)] == [end - 4_000]
    assert [row.finished_at for row in told.rows(since=end - 3_000, before=end - 1_000, queue="b")] == [end - 3_000]
    assert told.rows(since=end + 1) == told.rows(before=end - 4_000) == []


@pytest.mark.parametrize("limits", [Limits(claim_bytes=10)])
def test_a_page_stops_when_its_bodies_come_to_the_budget(verbs):
    verbs.create(ledger=LedgerMode.BODIES)
    verbs.send(*[b"12345"] * 5, b"x" * 20)
    while claimed := verbs.claim():
        verbs.ack(*claimed)
    pages, after = [], 0
    while page := verbs.rows(after):
        pages.append([row.size for row in page])
        after = page[-1].number
    assert pages == [[5, 5], [5, 5], [5, 20]]
    assert [row.size for row in verbs.rows(queue="q")] == [5, 5]
