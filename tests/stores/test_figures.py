"""Figures of queues: units count what they do, and a store keeps the counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import asdict

from penstock.limits import Limits
from penstock.model import (
    Bucket,
    Dedup,
    Delivery,
    Depths,
    Draft,
    Ending,
    Groups,
    Numbered,
    Outcome,
    Redrive,
    Registration,
    ShipmentRef,
    Span,
    Totals,
)
from penstock.stores import open_store
from penstock.stores.figures import PLACES, place_of
from penstock.stores.protocol import Unit, needed
from tests.stores.conftest import Verbs, receipt

MINUTE_MS = 60_000
DEPTHS = Depths(3, 2, 1, 17)


class Lost(Exception):
    pass


@dataclass
class Counts:
    """What units have done, by the names of queues; nothing that is 0."""

    verbs: Verbs

    def __post_init__(self) -> None:
        self.seen: dict[str, dict[str, int]] = {}

    @contextmanager
    def unit(self) -> Iterator[Unit]:
        with self.verbs.store.unit() as unit:
            numbers = {queue.number: queue.name for queue in unit.list_queues(0, 100).queues}
            yield unit
            happened = unit.happened
        self.seen = {
            numbers.get(number, "gone"): {name: count for name, count in asdict(Totals(*counts)).items() if count}
            for number, counts in happened.items()
        }

    def of(self, action: Callable[[Unit], Any]) -> dict[str, dict[str, int]]:
        with self.unit() as unit:
            action(unit)
        return self.seen

    def send(self, *drafts: Draft, to: str = "q") -> dict[str, dict[str, int]]:
        return self.of(lambda unit: unit.send(to, drafts, self.verbs.now))

    def claim(self, limit: int = 100, hold_ms: int = 1_000, queue: str = "q") -> dict[str, dict[str, int]]:
        return self.of(lambda unit: unit.claim(queue, limit, self.verbs.now, hold_ms))


@pytest.fixture
def counts(verbs: Verbs) -> Counts:
    return Counts(verbs)


def test_every_outcome_has_a_place():
    places = [place_of(outcome) for outcome in Outcome]
    assert places == list(range(3, PLACES))
    assert Totals.__struct_fields__[place_of(Outcome.PROCESSED) :] == (
        "acked",
        *(outcome.name.lower() for outcome in Outcome if outcome is not Outcome.PROCESSED),
    )
    assert len(Totals.__struct_fields__) == PLACES


def test_sends_claims_and_acks_are_counted(verbs, counts):
    verbs.create()
    assert counts.send(Draft(b"1"), Draft(b"2"), Draft(b"3")) == {"q": {"sent": 3}}
    with counts.unit() as unit:
        claimed = unit.claim("q", 2, verbs.now, 1_000).messages
    assert counts.seen == {"q": {"claimed": 2}}
    assert counts.of(lambda unit: unit.ack([receipt(one) for one in claimed], verbs.now)) == {"q": {"acked": 2}}
    assert counts.of(lambda unit: unit.ack([receipt(one) for one in claimed], verbs.now)) == {}


def test_what_finds_nothing_counts_nothing(verbs, counts):
    verbs.create()
    assert counts.claim() == {}
    assert counts.send() in ({}, {"q": {}})


@pytest.mark.needs("receives")
def test_deliveries_but_for_the_first_are_redeliveries(verbs, counts):
    verbs.create()
    verbs.send(b"1", b"2")
    assert counts.claim(1) == {"q": {"claimed": 1}}
    verbs.now += 2_000
    assert counts.claim() == {"q": {"claimed": 2, "redelivered": 1}}


@pytest.mark.needs("dedup")
def test_twins_that_are_not_stored_are_not_sent(verbs, counts):
    verbs.create(dedup=Dedup.SEND)
    assert counts.send(Draft(b"1"), Draft(b"1"), Draft(b"2")) == {"q": {"sent": 2}}
    verbs.create("window", dedup=Dedup.WINDOW)
    assert counts.send(Draft(b"1"), Draft(b"1"), to="window") == {"window": {"sent": 1}}


@pytest.mark.needs("dedup")
def test_twins_collapse(verbs, counts):
    verbs.create(dedup=Dedup.CLAIM)
    verbs.send(b"1", b"1", b"1", b"2")
    assert counts.claim(1) == {"q": {"claimed": 1, "collapsed": 2}}


@pytest.mark.needs("messages")
def test_messages_expire_at_a_claim_and_by_the_sweep(verbs, counts):
    verbs.create(retention_ms=1_000)
    verbs.send(b"1", b"2")
    verbs.now += 1_000
    verbs.send(b"3")
    assert counts.claim() == {"q": {"claimed": 1, "expired": 2}}
    verbs.send(b"4")
    verbs.now += 1_000
    assert counts.of(lambda unit: unit.sweep(verbs.now, 100, 0))["q"]["expired"] >= 1


@pytest.mark.needs("messages")
def test_messages_past_their_deadline_fail(verbs, counts):
    verbs.create()
    verbs.send(Draft(b"1", deadline_at=verbs.now + 5))
    verbs.now += 10
    assert counts.claim() == {"q": {"failed": 1}}


@pytest.mark.needs("redrive")
def test_dead_letters_count_where_they_leave_and_are_not_sent(verbs, counts):
    verbs.create("dead")
    verbs.create(redrive=Redrive(1, "dead"))
    verbs.send(b"1", b"2")
    verbs.claim(1, hold_ms=5)
    verbs.now += 10
    assert counts.claim() == {"q": {"claimed": 1, "dead_lettered": 1}}
    assert counts.claim(queue="dead") == {"dead": {"claimed": 1}}


@pytest.mark.needs("messages")
def test_purges_and_deletions(verbs, counts):
    verbs.create()
    verbs.send(b"1", b"2", b"3")
    last = verbs.last_seq()
    purge = counts.of(lambda unit: needed(unit.messages, "messages").purge("q", verbs.now, 2, last))
    assert purge == {"q": {"purged": 2}}
    older = counts.of(
        lambda unit: needed(unit.messages, "messages").purge_older("q", verbs.now, 9, last, verbs.now + 1)
    )
    assert older == {"q": {"purged": 1}}
    verbs.send(b"4")
    verbs.delete()
    assert counts.of(lambda unit: unit.sweep(verbs.now, 100, 0)) == {"gone": {"purged": 1}}


@pytest.mark.needs("moves")
def test_moves_count_where_they_leave_and_are_not_sent(verbs, counts):
    verbs.create()
    verbs.create("there")
    verbs.send(b"1", b"2")
    moved = counts.of(lambda unit: needed(unit.moves, "moves").move("q", "there", verbs.now, 9, 2**40))
    assert moved == {"q": {"moved": 2}} or moved == {"q": {"moved": 2}, "there": {}}


@pytest.mark.needs("shipments")
def test_shipments_are_claimed_and_acked_as_others(verbs, counts):
    verbs.create()
    verbs.send(b"1", b"2", b"3")
    ref = ShipmentRef("q", "c", 1)
    claimed = counts.of(lambda unit: needed(unit.shipments, "shipments").claim(ref, 2, verbs.now, 1_000))
    assert claimed == {"q": {"claimed": 2}}
    with verbs.unit(write=False) as unit:
        shipments = needed(unit.shipments, "shipments")
        assert [one.number for one in shipments.list_open("q", 10)] == [1]
        assert (shipments.count_open(10), shipments.count_open(0)) == (1, 0)
    settled = counts.of(lambda unit: needed(unit.shipments, "shipments").settle(ref, verbs.now, 10))
    assert settled == {"q": {"acked": 2}}
    with verbs.unit(write=False) as unit:
        shipments = needed(unit.shipments, "shipments")
        assert (list(shipments.list_open("q", 10)), shipments.count_open(10)) == ([], 0)
    ref = ShipmentRef("q", "c", 2)
    counts.of(lambda unit: needed(unit.shipments, "shipments").claim(ref, 2, verbs.now, 1_000))
    assert counts.of(lambda unit: needed(unit.shipments, "shipments").release(ref, verbs.now, 10)) == {}
    assert counts.claim() == {"q": {"claimed": 1, "redelivered": 1}}


@pytest.mark.needs("messages")
def test_lines_are_counted_as_others(verbs, counts):
    verbs.create(groups=Groups.FIFO)
    assert counts.send(Draft(b"1", group="g"), Draft(b"2", group="g")) == {"q": {"sent": 2}}
    with counts.unit() as unit:
        claimed = unit.claim("q", 2, verbs.now, 1_000).messages
    assert counts.seen == {"q": {"claimed": 2}}
    assert counts.of(lambda unit: unit.ack([receipt(one) for one in claimed], verbs.now)) == {"q": {"acked": 2}}


@pytest.mark.needs("messages")
def test_a_send_and_a_claim_that_are_repeated_count_once(verbs, counts):
    verbs.create()

    def send(unit: Unit) -> None:
        needed(unit.messages, "messages").send_once("q", "k", b"d", [Draft(b"1"), Draft(b"2")], verbs.now)

    def claim(unit: Unit) -> None:
        assert len(needed(unit.messages, "messages").claim_once("q", "a", 1, verbs.now, 1_000).messages) == 1

    assert (counts.of(send), counts.of(send)) == ({"q": {"sent": 2}}, {})
    assert (counts.of(claim), counts.of(claim)) == ({"q": {"claimed": 1}}, {})


@pytest.mark.needs("consumers")
def test_consumers_are_counted_as_others(verbs, counts):
    verbs.create()
    consumer = Registration("c", "q", Delivery.AT_LEAST_ONCE, 1_000)

    def consumers(unit: Unit) -> Any:
        return needed(unit.consumers, "consumers")

    def push(unit: Unit) -> None:
        [one, two, three] = consumers(unit).reserve(3).seqs
        numbered = [Numbered(seq, verbs.now, Draft(b"%d" % seq)) for seq in (one, two, three)]
        consumers(unit).push("q", numbered, verbs.now)

    assert counts.of(push) == {"q": {"sent": 3}}
    with counts.unit() as unit:
        consumers(unit).register(consumer, verbs.now)
        claimed = consumers(unit).claim(consumer, 3, verbs.now).messages
        held = [(message.seq, message.claim) for message in claimed]
        consumers(unit).hold("c", held, verbs.now)
    assert counts.seen == {"q": {"claimed": 3}}
    [report] = consumers_of(verbs, "q")
    assert (report.id, report.delivery, report.beat_at, report.dead_after_ms, report.held) == (
        "c",
        Delivery.AT_LEAST_ONCE,
        verbs.now,
        1_000,
        3,
    )
    endings = [
        Ending(held[:1], Outcome.PROCESSED),
        Ending(held[1:2], Outcome.FAILED),
        Ending(held[2:], None),
    ]
    assert counts.of(lambda unit: consumers(unit).report(consumer, endings, verbs.now)) == {
        "q": {"acked": 1, "failed": 1}
    }
    assert counts.claim() == {"q": {"claimed": 1, "redelivered": 1}}
    verbs.create("other")
    assert consumers_of(verbs, "other") == []


def consumers_of(verbs: Verbs, queue: str) -> list[Any]:
    with verbs.unit(write=False) as unit:
        return [*needed(unit.consumers, "consumers").list(queue, 10)]


def test_a_new_unit_has_done_nothing(verbs, counts):
    verbs.create()
    counts.send(Draft(b"1"))
    with counts.unit() as unit:
        assert unit.happened == {}
        unit.find_queue("q")
    assert counts.seen == {}


# How they are kept


@pytest.fixture
def nine(verbs: Verbs) -> None:
    """Queues with the numbers 1 to 9, where a store has such numbers."""
    for number in range(1, 10):
        made = verbs.create(f"queue-{number}")
        assert made.number == number or verbs.store.url.startswith("mqcore")


def add(verbs: Verbs, queue: int, *counts: int) -> None:
    with verbs.unit() as unit:
        unit.figures.add({queue: [*counts, *[0] * (PLACES - len(counts))]}, verbs.now)


def sample(verbs: Verbs, queue: int, depths: Depths = DEPTHS) -> None:
    with verbs.unit() as unit:
        unit.figures.sample({queue: depths}, verbs.now)


def totals(verbs: Verbs, *queues: int) -> dict[int, Totals]:
    with verbs.unit(write=False) as unit:
        return unit.figures.totals(queues)


def history(verbs: Verbs, queue: int, span: Span = Span.HOUR, since: int = 0) -> list[Bucket]:
    with verbs.unit(write=False) as unit:
        return unit.figures.history(queue, span, since)


def active(verbs: Verbs, since: int = 0, after: tuple[int, int] = (0, 0), limit: int = 100) -> list[tuple[int, int]]:
    with verbs.unit(write=False) as unit:
        return [(bucket.since, bucket.queue) for bucket in unit.figures.active(since, after, limit)]


@pytest.mark.usefixtures("nine")
def test_totals_add_up(verbs):
    add(verbs, 7, *range(PLACES))
    add(verbs, 7, 1, 2)
    add(verbs, 8, 5)
    assert totals(verbs, 7, 8, 9) == {7: Totals(1, 3, *range(2, PLACES)), 8: Totals(5)}
    assert totals(verbs) == {}


@pytest.mark.usefixtures("nine")
def test_each_minute_and_each_ten_have_their_bucket(verbs):
    verbs.now = 10 * MINUTE_MS + 1
    add(verbs, 7, 1)
    verbs.now += MINUTE_MS - 2
    add(verbs, 7, 2)
    verbs.now += 1
    add(verbs, 7, 4)
    verbs.now = 20 * MINUTE_MS
    add(verbs, 7, 8)
    add(verbs, 8, 16)
    assert [(one.since // MINUTE_MS, one.totals.sent) for one in history(verbs, 7)] == [(10, 3), (11, 4), (20, 8)]
    assert [(one.since // MINUTE_MS, one.totals.sent) for one in history(verbs, 7, Span.DAY)] == [(10, 7), (20, 8)]
    assert [one.since for one in history(verbs, 7, since=11 * MINUTE_MS)] == [11 * MINUTE_MS, 20 * MINUTE_MS]


@pytest.mark.usefixtures("nine")
def test_depths_are_those_seen_last(verbs):
    verbs.now = 10 * MINUTE_MS
    sample(verbs, 7)
    add(verbs, 7, 1)
    sample(verbs, 7, Depths(0, 0, 0, None))
    verbs.now += MINUTE_MS
    add(verbs, 7, 2)
    assert history(verbs, 7) == [
        Bucket(7, 10 * MINUTE_MS, Totals(1), Depths(0, 0, 0, None)),
        Bucket(7, 11 * MINUTE_MS, Totals(2)),
    ]
    sample(verbs, 7)
    assert history(verbs, 7, Span.DAY) == [Bucket(7, 10 * MINUTE_MS, Totals(3), DEPTHS)]
    assert totals(verbs, 7) == {7: Totals(3)}


@pytest.mark.usefixtures("nine")
def test_active_queues_are_read_in_pages(verbs):
    for minute, queue in ((3, 1), (3, 2), (4, 1), (5, 3)):
        verbs.now = minute * MINUTE_MS
        add(verbs, queue, 1)
    expected = [(3, 1), (3, 2), (4, 1), (5, 3)]
    assert active(verbs) == [(minute * MINUTE_MS, queue) for minute, queue in expected]
    assert active(verbs, 4 * MINUTE_MS) == [(4 * MINUTE_MS, 1), (5 * MINUTE_MS, 3)]
    pages, after = [], (0, 0)
    while page := active(verbs, after=after, limit=1):
        pages += page
        after = page[-1]
    assert pages == active(verbs)


@pytest.mark.needs("totals")
@pytest.mark.usefixtures("nine")
def test_what_a_lost_unit_has_kept_is_not_kept(verbs):
    add(verbs, 7, 1)
    with suppress(Lost), verbs.unit() as unit:
        unit.figures.add({7: [1] * PLACES, 8: [1] * PLACES}, verbs.now)
        unit.figures.sample({7: DEPTHS}, verbs.now)
        raise Lost
    assert totals(verbs, 7, 8) == {7: Totals(1)}
    assert [bucket.depths for bucket in history(verbs, 7)] == [None]


@pytest.mark.usefixtures("nine")
@pytest.mark.parametrize("limits", [Limits(step_rows=4)])
def test_the_sweep_bounds_what_is_kept(verbs):
    minutes = 3 * 24 * 60
    for minute in range(0, minutes, 7):
        verbs.now = minute * MINUTE_MS
        add(verbs, 7, 1)
    sent = totals(verbs, 7)[7].sent
    freed = 1
    while freed:
        with verbs.unit() as unit:
            freed = unit.sweep(verbs.now, 100, 0)
    begun = [bucket.since for bucket in history(verbs, 7)]
    assert verbs.now - 90 * MINUTE_MS < begun[0] <= verbs.now - 60 * MINUTE_MS
    begun = [bucket.since for bucket in history(verbs, 7, Span.DAY)]
    assert verbs.now - 26 * 60 * MINUTE_MS < begun[0] <= verbs.now - 24 * 60 * MINUTE_MS
    assert totals(verbs, 7)[7].sent == sent


@pytest.mark.needs("messages")
def test_a_queue_that_is_forgotten_takes_its_figures_along(verbs):
    gone = verbs.create()
    verbs.create("last")
    add(verbs, gone.number, 1)
    sample(verbs, gone.number)
    verbs.delete()
    for _ in range(4):
        verbs.now += 2 * 60 * MINUTE_MS
        with verbs.unit() as unit:
            unit.sweep(verbs.now, 100, verbs.now)
    assert totals(verbs, gone.number) == {}
    assert history(verbs, gone.number, Span.DAY) == []
    # A server that has counted until then adds it now: nothing would ever delete that.
    add(verbs, gone.number, 1)
    assert totals(verbs, gone.number) == {}


def test_a_folder_does_not_inherit_the_figures_of_its_inode(tmp_path):
    verbs = Verbs(open_store(f"mqcore:///{tmp_path}"))
    former = set()
    for _ in range(20):
        number = verbs.create().number
        assert totals(verbs, number) == {}
        add(verbs, number, 1)
        if number in former:
            break
        former.add(number)
        verbs.delete()
        with verbs.unit() as unit:
            unit.sweep(verbs.now, 100, 0)
    verbs.store.close()


def test_sizes_are_told_as_far_as_they_are_known(verbs):
    verbs.create()
    with verbs.unit(write=False) as unit:
        sizes = unit.figures.sizes()
    kind = verbs.store.url.partition(":")[0]
    assert (sizes.store_bytes or 0) > 0 or kind in ("memory", "mqcore")
    assert (sizes.free_bytes is not None) == (kind in ("sqlite", "mqcore"))
    assert (sizes.log_bytes is not None) == (kind == "sqlite")
