from __future__ import annotations

import pytest

from penstock.model import Draft, Outcome


def sweep_all(verbs, limit: int, ledger_before: int = 0) -> int:
    """Sweep until nothing is left to free, and never more in one go than about the limit."""
    freed = 0
    while step := verbs.sweep(limit, ledger_before):
        assert step <= 2 * limit
        freed += step
    return freed


def test_nothing_to_free(verbs):
    assert verbs.sweep() == 0
    verbs.create()
    verbs.send(b"x")
    assert verbs.sweep() == 0
    assert verbs.seen() == [b"x"]


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_messages_of_deleted_queues(verbs, limit):
    for name in ("a", "b", "c"):
        verbs.create(name)
        verbs.send(*([b"x"] * 5), Draft(b"delayed", delay_ms=1_000), to=name)
        verbs.claim(limit=1, queue=name)
    verbs.delete("a")
    verbs.delete("c")
    assert sweep_all(verbs, limit) == 12
    assert verbs.outcomes("a") == verbs.outcomes("c") == [Outcome.PURGED] * 6
    assert verbs.count("b").total == 6


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_ready_messages_past_their_retention(verbs, limit):
    for name, retention_ms in (("short", 10), ("long", 1_000), ("short too", 10)):
        verbs.create(name, retention_ms=retention_ms)
        verbs.send(*([b"x"] * 4), to=name)
    verbs.now += 9
    assert verbs.sweep() == 0
    verbs.now += 1
    verbs.send(b"new", to="short")
    assert sweep_all(verbs, limit) == 8
    assert verbs.seen("short") == [b"new"]
    assert verbs.outcomes("short") == verbs.outcomes("short too") == [Outcome.EXPIRED] * 4
    assert verbs.count("long").total == 4


def test_lowering_the_retention_deletes_nothing_until_a_claim_meets_it(verbs):
    verbs.create(retention_ms=1_000)
    verbs.send(b"1", b"2")
    verbs.now += 100
    verbs.update(retention_ms=50)
    assert verbs.sweep() == 0
    assert verbs.seen() == [b"1", b"2"]
    verbs.send(b"sent since")
    verbs.now += 50
    assert verbs.sweep() == 1
    assert verbs.seen() == [b"1", b"2"]
    assert verbs.bodies() == []
    assert verbs.outcomes() == [Outcome.EXPIRED] * 3


def test_what_was_there_expires_as_it_would_have_without_a_lower_retention(verbs):
    verbs.create(retention_ms=1_000)
    verbs.send(b"x")
    verbs.update(retention_ms=500)
    verbs.update(retention_ms=50)
    verbs.now += 999
    assert verbs.sweep() == 0
    verbs.now += 1
    assert verbs.sweep() == 1


def test_raising_the_retention_again_counts_for_all(verbs):
    verbs.create(retention_ms=100)
    verbs.send(b"x")
    verbs.update(retention_ms=10)
    verbs.update(retention_ms=1_000)
    verbs.now += 999
    assert verbs.sweep() == 0
    assert verbs.bodies(hold_ms=0) == [b"x"]
    verbs.now += 1
    assert verbs.sweep() == 1


@pytest.mark.needs("numbers")
def test_a_queue_that_was_deleted_is_forgotten_once_nothing_names_it(verbs):
    numbers = [verbs.create(name).number for name in ("a", "b", "c")]
    for name in ("a", "b", "c"):
        verbs.send(b"x", to=name)
        verbs.delete(name)
    for _ in range(3):
        sweep_all(verbs, 100, ledger_before=verbs.now)
        verbs.now += 2 * 60 * 60 * 1000
    assert verbs.names() == []
    assert verbs.create("a").number > max(numbers)
    assert verbs.seen("a") == []


def test_a_queue_that_was_deleted_keeps_its_name_in_the_ledger(verbs):
    verbs.create("a")
    verbs.create("b")
    verbs.send(b"x", to="a")
    verbs.delete("a")
    for _ in range(3):
        sweep_all(verbs, 100)
        verbs.now += 2 * 60 * 60 * 1000
    assert verbs.outcomes("a") == [Outcome.PURGED]


def test_what_is_claimed_or_delayed_is_left_alone_until_its_time_is_over(verbs):
    verbs.create(retention_ms=10)
    verbs.send(b"claimed", Draft(b"delayed", delay_ms=50))
    [claimed] = verbs.claim(hold_ms=50)
    verbs.now += 49
    assert verbs.sweep() == 0
    assert verbs.ack(claimed) == [True]
    verbs.now += 1
    assert sweep_all(verbs, 100) == 1
    assert verbs.seen() == []


def test_a_queue_that_is_no_longer_claimed_from_is_freed_all_the_same(verbs):
    verbs.create(retention_ms=100)
    verbs.send(b"1", b"2", Draft(b"3", delay_ms=20))
    verbs.claim(limit=1, hold_ms=50)
    verbs.claim(limit=1, hold_ms=10)
    verbs.now += 100
    assert sweep_all(verbs, 100) == 3
    assert verbs.outcomes() == [Outcome.EXPIRED] * 3


def test_a_sweep_keeps_the_order_of_what_it_leaves(verbs):
    verbs.create()
    verbs.send(b"1", b"2", b"3")
    verbs.claim(limit=1, hold_ms=10)
    verbs.now += 10
    verbs.sweep()
    assert verbs.bodies() == [b"1", b"2", b"3"]


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_ledger_rows_finished_before(verbs, limit):
    verbs.create()
    for _ in range(5):
        verbs.send(b"x")
        verbs.ack(*verbs.claim())
        verbs.now += 10
    before = [row.number for row in verbs.rows()]
    third = verbs.rows()[3].finished_at
    assert sweep_all(verbs, limit, ledger_before=third) == 3
    assert [row.number for row in verbs.rows()] == before[3:]


def test_a_readers_place_in_the_ledger_survives_the_sweep_of_all_rows(verbs):
    verbs.create()
    verbs.send(b"1", b"2")
    verbs.ack(*verbs.claim(limit=1))
    [row] = verbs.rows()
    assert verbs.sweep(ledger_before=verbs.now + 1) == 1
    assert verbs.rows() == []
    verbs.ack(*verbs.claim())
    [following] = verbs.rows(after=row.number)
    assert following.number > row.number


def test_the_tally_outlives_the_ledger(verbs):
    verbs.create()
    verbs.send(b"x")
    verbs.ack(*verbs.claim())
    verbs.sweep(ledger_before=verbs.now + 1)
    assert (verbs.tally().arrived, verbs.tally().departed) == (1, 1)
