"""What a unit of durability promises, whichever verbs are in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from penstock.errors import CallerError, QueueNotFound
from penstock.model import Dedup, Draft, LedgerMode, Receipt, Redrive, Settings
from penstock.stores import Unit
from penstock.stores.kinds import kind_of
from penstock.stores.protocol import missing_nouns, needed
from tests.waiting import wait_until


class LostError(Exception):
    pass


@contextmanager
def lost_unit(verbs) -> Iterator[Unit]:
    """A unit whose block raises at its end."""
    with suppress(LostError), verbs.unit() as unit:
        yield unit
        raise LostError


def everything(verbs) -> list[object]:
    """All that a store shows of itself."""
    with verbs.unit(write=False) as unit:
        queues = unit.list_queues(0, 100).queues
        views = [
            (unit.messages.peek(queue.name, 100), unit.ledger.tally(queue.name), unit.count(queue.name, verbs.now, 100))
            for queue in queues
        ]
        return [queues, views, unit.ledger.rows(0, 100)]


@pytest.fixture
def busy(verbs):
    """Queues of every kind, with something in every state."""
    verbs.create("dead", ledger=LedgerMode.BODIES)
    verbs.create("once", dedup=Dedup.SEND)
    verbs.create("collapse", dedup=Dedup.CLAIM)
    verbs.create(redrive=Redrive(1, "dead"), retention_ms=100_000)
    verbs.send(b"acked", b"dead", b"claimed", b"ready", Draft(b"delayed", delay_ms=500))
    verbs.ack(*verbs.claim(limit=1))
    verbs.claim(limit=1, hold_ms=0)
    verbs.claim(limit=1)
    verbs.send(b"twin", to="once")
    verbs.send(b"twin", b"twin", to="collapse")
    verbs.now += 10
    return verbs


VERBS = {
    "create": lambda unit, now, held: unit.create_queue("new", Settings(), now),
    "update": lambda unit, now, held: unit.update_queue("q", Settings(delay_ms=1), 0),
    "delete": lambda unit, now, held: unit.delete_queue("dead", now),
    "send": lambda unit, now, held: unit.send("q", [Draft(b"a"), Draft(b"b", delay_ms=9)], now),
    "send once": lambda unit, now, held: unit.send("once", [Draft(b"twin"), Draft(b"b")], now + 3 * 10**12),
    "claim": lambda unit, now, held: unit.claim("q", 10, now, None),
    "claim and dead-letter": lambda unit, now, held: unit.claim("q", 10, now + 40_000, None),
    "claim and expire": lambda unit, now, held: unit.claim("q", 10, now + 200_000, None),
    "claim and collapse": lambda unit, now, held: unit.claim("collapse", 10, now, None),
    "ack": lambda unit, now, held: unit.ack([held], now),
    "renew": lambda unit, now, held: needed(unit.messages, "messages").renew([held], now, now + 99_999),
    "release": lambda unit, now, held: needed(unit.messages, "messages").release([held], now),
    "release_all": lambda unit, now, held: needed(unit.messages, "messages").release_all("q", now, 10),
    "move": lambda unit, now, held: needed(unit.moves, "moves").move("q", "once", now, 10, unit.messages.last_seq()),
    "purge": lambda unit, now, held: needed(unit.messages, "messages").purge("q", now, 10, unit.messages.last_seq()),
    "sweep": lambda unit, now, held: unit.sweep(now + 200_000, 10, now + 1),
}


@pytest.mark.parametrize("verb", VERBS)
def test_when_the_block_raises_nothing_of_it_has_happened(busy, verb):
    [held] = [message for message in busy.peek() if message.ready_at and message.receives]
    before = everything(busy)
    with lost_unit(busy) as unit:
        VERBS[verb](unit, busy.now, Receipt(held.id, held.claim))
    assert everything(busy) == before
    # And the verb really does something when the unit is kept.
    with busy.unit() as unit:
        VERBS[verb](unit, busy.now, Receipt(held.id, held.claim))
    assert everything(busy) != before


def test_all_verbs_in_one_lost_unit(busy):
    [held] = [message for message in busy.peek() if message.ready_at and message.receives]
    before = everything(busy)
    with lost_unit(busy) as unit:
        for verb in VERBS.values():
            verb(unit, busy.now, Receipt(held.id, held.claim))
    assert everything(busy) == before


def test_life_goes_on_after_a_lost_unit(verbs):
    verbs.create()
    with lost_unit(verbs) as unit:
        unit.send("q", [Draft(b"lost"), Draft(b"lost too")], verbs.now)
        unit.claim("q", 1, verbs.now, None)
    verbs.send(b"1", b"2")
    assert verbs.bodies() == [b"1", b"2"]


def test_a_lost_claim_leaves_the_order_as_it_was(verbs):
    verbs.create()
    verbs.send(b"1", b"2", b"3")
    with lost_unit(verbs) as unit:
        unit.ack([Receipt(message.id) for message in unit.claim("q", 2, verbs.now, None).messages], verbs.now)
    assert verbs.bodies(limit=2) == [b"1", b"2"]


@pytest.mark.needs("numbers given back")
def test_a_lost_unit_gives_no_sequence_number_away(verbs):
    verbs.create()
    with lost_unit(verbs) as unit:
        unit.send("q", [Draft(b"lost")], verbs.now)
    assert verbs.last_seq() == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_unit_is_lost_by_any_exception(verbs, error):
    verbs.create()

    def lose() -> None:
        with verbs.unit() as unit:
            unit.send("q", [Draft(b"lost")], verbs.now)
            raise error

    with pytest.raises(error):
        lose()
    assert verbs.seen() == []


FAILING = {
    "create": lambda unit, now: unit.create_queue("q", Settings(), now),
    "create with redrive": lambda unit, now: unit.create_queue("new", Settings(redrive=Redrive(1, "no")), now),
    "update": lambda unit, now: unit.update_queue("no", Settings(), now),
    "update with redrive": lambda unit, now: unit.update_queue("q", Settings(redrive=Redrive(1, "no")), now),
    "delete": lambda unit, now: unit.delete_queue("no", now),
    "send": lambda unit, now: unit.send("no", [Draft(b"x")], now),
    "claim": lambda unit, now: unit.claim("no", 1, now, None),
    "release_all": lambda unit, now: needed(unit.messages, "messages").release_all("no", now, 1),
    "move from": lambda unit, now: needed(unit.moves, "moves").move("no", "q", now, 10, 10),
    "move to": lambda unit, now: needed(unit.moves, "moves").move("q", "no", now, 10, 10),
    "purge": lambda unit, now: needed(unit.messages, "messages").purge("no", now, 10, 10),
    "peek": lambda unit, now: needed(unit.messages, "messages").peek("no", 1),
    "count": lambda unit, now: unit.count("no", now, 1),
    "tally": lambda unit, now: needed(unit.ledger, "ledger").tally("no"),
}


@pytest.mark.parametrize("verb", FAILING)
def test_after_an_error_of_the_caller_the_unit_goes_on(verbs, verb):
    verbs.create()
    verbs.send(b"before")
    with verbs.unit() as unit:
        unit.send("q", [Draft(b"in the unit")], verbs.now)
        with pytest.raises(CallerError):
            FAILING[verb](unit, verbs.now)
        unit.send("q", [Draft(b"after")], verbs.now)
    assert verbs.seen() == [b"before", b"in the unit", b"after"]
    assert verbs.names() == ["q"]
    assert verbs.find().settings == Settings()


def test_an_error_of_the_caller_that_leaves_the_block_loses_the_unit(verbs):
    verbs.create()
    with suppress(QueueNotFound), verbs.unit() as unit:
        unit.send("q", [Draft(b"lost")], verbs.now)
        unit.send("no", [Draft(b"lost")], verbs.now)
    assert verbs.seen() == []


def test_verbs_of_one_unit_see_each_other(verbs):
    now = verbs.now
    with verbs.unit() as unit:
        unit.create_queue("q", Settings(dedup=Dedup.SEND), now)
        [first] = unit.send("q", [Draft(b"x")], now)
        [twin] = unit.send("q", [Draft(b"x")], now)
        assert (twin.id, twin.stored) == (first.id, False)
        [message] = unit.claim("q", 1, now, None).messages
        assert unit.ledger.tally("q").arrived == 1
        unit.update_queue("q", Settings(ledger=LedgerMode.BODIES), 0)
        assert unit.ack([Receipt(message.id, message.claim)], now) == [True]
        assert [row.body for row in unit.ledger.rows(0, 10)] == [b"x"]
        unit.delete_queue("q", now)
        assert unit.find_queue("q") is None
        unit.create_queue("q", Settings(), now)
        assert unit.ledger.tally("q").arrived == 0
        unit.send("q", [Draft(b"y")], now)
        assert unit.messages.last_seq() == 2
    assert verbs.seen() == [b"y"]


@pytest.mark.parametrize("write", [True, False])
def test_an_empty_unit_changes_nothing(busy, write):
    before = everything(busy)
    with busy.unit(write=write) as unit:
        assert unit.stirred == set()
    assert everything(busy) == before


def test_reading_units_show_what_is_there_and_change_nothing(busy):
    before = everything(busy)
    with busy.unit(write=False) as unit:
        assert unit.find_queue("q") is not None
        assert unit.find_queue("no") is None
        unit.next_due("q", busy.now)
        with pytest.raises(QueueNotFound):
            unit.messages.peek("no", 1)
        assert unit.stirred == set()
    assert everything(busy) == before


def test_a_kind_of_store_says_before_it_is_opened_which_nouns_it_misses(store):
    with store.unit(write=False) as unit:
        assert set(missing_nouns(unit)) == kind_of(store.url).missing


def test_many_units_one_after_another(verbs):
    verbs.create()
    for n in range(50):
        verbs.send(b"%d" % n)
        verbs.ack(*verbs.claim())
    assert (verbs.tally().arrived, verbs.tally().departed) == (50, 50)


def test_a_store_has_room_and_no_one_else_has_changed_it(verbs):
    verbs.create()
    assert verbs.store.has_room()
    if verbs.store.url.startswith(("postgresql:", "mariadb:")):
        wait_until(verbs.store.changed_elsewhere)  # of what was said before it listened
    assert not verbs.store.changed_elsewhere()


def test_units_that_write_wait_for_stable_media(verbs):
    """And those that only look do not. The store in memory has none to wait for."""
    store = verbs.store
    before = store.sync_seconds
    with verbs.unit() as unit:
        unit.create_queue("synced", Settings(), verbs.now)
    after = store.sync_seconds
    assert (after > before) is not store.url.startswith("memory:")
    with verbs.unit(write=False) as unit:
        unit.list_queues(0, 1)
    assert store.sync_seconds == after
