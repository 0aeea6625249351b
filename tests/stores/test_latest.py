"""The ledger from its end, by queue and by outcome."""

from __future__ import annotations

import pytest

from penstock.limits import Limits
from penstock.model import LedgerFilter, LedgerMode, Outcome

pytestmark = pytest.mark.needs("ledger", "messages")

ALL = LedgerFilter()


def latest(verbs, wanted=ALL, outcomes=None, limit=1_000, rows=1_000) -> tuple[list[int], int]:
    """The numbers of rows in all steps it takes, and how many were looked at."""
    numbers, examined, below = [], 0, None
    while True:
        step = verbs.ledger.latest(below, wanted, outcomes=outcomes, limit=limit, rows=rows)
        numbers += [row.number for row in step.rows]
        examined, below = examined + step.examined, step.below
        assert step.examined <= rows
        assert len(step.rows) <= limit
        if below is None:
            return numbers, examined
        assert step.examined > 0


@pytest.fixture
def busy(verbs):
    """Two queues, whose messages were processed and purged in turn: one, other, one, other and so on."""
    for name in ("one", "other"):
        verbs.create(name)
    for number in range(4):
        for name in ("one", "other"):
            verbs.send(b"%d" % number, to=name)
            if number % 2:
                verbs.ack(*verbs.claim(queue=name))
            else:
                verbs.purge(name)
            verbs.now += 100_000
    return verbs


def numbers(verbs, **wanted) -> list[int]:
    return [row.number for row in verbs.rows(**wanted)][::-1]


@pytest.mark.parametrize("limit", [1, 3, 1_000])
@pytest.mark.parametrize("rows", [1, 2, 1_000])
def test_the_latest_come_first(busy, limit, rows):
    assert latest(busy, limit=limit, rows=rows) == (numbers(busy), 8)
    assert latest(busy, LedgerFilter("one"), limit=limit, rows=rows) == (numbers(busy, queue="one"), 4)


@pytest.mark.parametrize("rows", [1, 3, 1_000])
def test_only_some_outcomes(busy, rows):
    purged = [row.number for row in busy.rows() if row.outcome is Outcome.PURGED][::-1]
    assert latest(busy, outcomes=[Outcome.PURGED], rows=rows) == (purged, 8)
    of_one = [row.number for row in busy.rows(queue="one") if row.outcome is Outcome.PURGED][::-1]
    assert latest(busy, LedgerFilter("one"), [Outcome.PURGED, Outcome.FAILED], rows=rows) == (of_one, 4)
    assert latest(busy, outcomes=[Outcome.EXPIRED], rows=rows) == ([], 8)
    assert latest(busy, outcomes=[], rows=rows)[0] == []


def test_of_a_time(busy):
    middle = busy.rows()[4].finished_at
    assert latest(busy, LedgerFilter(since=middle))[0] == numbers(busy, since=middle)
    assert latest(busy, LedgerFilter("one", before=middle), rows=1)[0] == numbers(busy, queue="one", before=middle)


def test_of_a_message(busy):
    row = busy.rows()[3]
    assert latest(busy, LedgerFilter(id=row.id))[0] == [row.number]
    assert latest(busy, LedgerFilter(id=row.id), [Outcome.FAILED])[0] == []
    assert latest(busy, LedgerFilter(id="nonsense"))[0] == []


def test_of_a_name_that_belonged_to_several_queues(busy):
    busy.delete("one")
    busy.sweep()
    busy.create("one")
    busy.send(b"again", to="one")
    busy.ack(*busy.claim(queue="one"))
    assert latest(busy, LedgerFilter("one"), rows=2) == (numbers(busy, queue="one"), 5)
    assert latest(busy, LedgerFilter("none")) == ([], 0)


def test_of_an_empty_ledger(verbs):
    assert latest(verbs) == ([], 0)


@pytest.mark.parametrize("limits", [Limits(claim_bytes=10)])
def test_a_step_holds_no_more_than_it_may(verbs):
    verbs.create(ledger=LedgerMode.BODIES)
    verbs.send(*(b"%d2345678" % number for number in range(4)))
    verbs.purge()
    step = verbs.ledger.latest(None, ALL)
    assert [row.body for row in step.rows] == [b"32345678", b"22345678"]
    assert len(latest(verbs)[0]) == 4
