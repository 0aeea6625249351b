"""A store with something of everything in it: filling it, reading it, changing it and going on with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from penstock import ids, keys
from penstock.errors import LeaseHeld, ShipmentEnded
from penstock.limits import Limits
from penstock.model import (
    ActionKind,
    Actor,
    Backoff,
    Dedup,
    DedupScope,
    Delivery,
    Depths,
    Draft,
    Groups,
    JsonValue,
    KeyUse,
    LedgerMode,
    MoveTerms,
    PeekAfter,
    Receipt,
    Redrive,
    Registration,
    Selection,
    Settings,
)
from penstock.stores import Store, open_sql_store, open_store
from tests.stores.conftest import Verbs, check_conservation

KINDS = ("sqlite", "postgresql", "mariadb")
SECRET = "psk_known_to_one"
ROTATED = bytes(range(32))


def fill(url: str) -> None:
    """Something of everything that a store can hold."""
    with closing(open_store(url)) as store:
        verbs = Verbs(store)
        # A dead-letter queue that is younger than the queue that uses it; one that is its own.
        for name in ("q", "once", "twins", "dead", "gone", "own", "empty"):
            verbs.create(name)
        verbs.update("q", redrive=Redrive(2, "dead"), ledger=LedgerMode.BODIES, delay_ms=0)
        verbs.update("own", redrive=Redrive(5, "own"), visibility_ms=7, backoff=Backoff(3, 9))
        verbs.update("once", dedup=Dedup.SEND)
        verbs.update("twins", dedup=Dedup.CLAIM, ledger=LedgerMode.OFF)

        # Processed with their bodies; then the oldest rows of the ledger go.
        verbs.send(*(b"old %d" % n for n in range(12)))
        verbs.ack(*verbs.claim(6))
        verbs.now += 1_000
        verbs.ack(*verbs.claim(6))
        verbs.sweep(ledger_before=verbs.now)

        # Ready, delayed, claimed, released, run out; with all that a draft can have.
        verbs.send(
            Draft(b"", "text/plain", {"sprache": "grüezi 🚰", "n": "'%s\\"}),
            Draft(bytes(range(256)) * 20),
            Draft(b"later", delay_ms=50_000),
            Draft(b"by then", deadline_at=verbs.now + 99_000),
            Draft(b"zero \x00 byte", content_type="application/octet-stream"),
            *(b"plain %d" % n for n in range(20)),
        )
        verbs.claim(3, 1_000_000)
        verbs.release(*verbs.claim(2, 5_000))
        verbs.claim(1, 10)
        verbs.send(b"letter", to="own")
        verbs.release(*verbs.claim(queue="own"), delay_ms=60_000)
        verbs.send(Draft(b"a", dedup_key=b"\xff key"), b"b", b"b", to="once")
        verbs.send(b"t", b"t", b"t", b"u", to="twins")
        for _ in range(3):
            verbs.release(*verbs.claim(1, 1_000))

        # Twins of which one claim has finished only a part.
        verbs.create("many twins", dedup=Dedup.CLAIM, ledger=LedgerMode.OFF)
        verbs.send(*[b"t"] * 5, to="many twins")
        with closing(open_store(url, limits=Limits(step_rows=2))) as slow:
            Verbs(slow).claim(1, queue="many twins")

        # A deleted queue with messages that are not swept yet, whose name is used again.
        verbs.send(b"1", b"2", b"3", to="gone")
        verbs.ack(*verbs.claim(1, queue="gone"))
        verbs.delete("gone")
        verbs.create("gone", retention_ms=5)
        verbs.send(b"new", to="gone")

        verbs.moves.start("dead", "empty", "whole")
        verbs.moves.step(move_id="whole")
        verbs.moves.step(move_id="whole")
        verbs.moves.start("own", "nowhere", "broken")
        verbs.moves.step(move_id="broken")
        verbs.moves.start("q", "empty", "half", by=Actor("ann", "sqs"))
        verbs.moves.step("half", limit=2)
        terms = MoveTerms(Selection(text="grüezi", json=JsonValue("$.n", 1.5)), limit=9, per_second=5)
        verbs.moves.start("twins", None, "chosen", terms=terms)
        verbs.moves.step("chosen", limit=2)
        verbs.moves.step("chosen", limit=1)

        verbs.create_key("one", keys.digest(store.secret, SECRET.encode()))
        verbs.keys.update(name="one", expires_at=4_000_000_000_000)
        verbs.keys.rotate(name="one", digest=ROTATED, old_until=3_000_000_000_000)
        verbs.keys.note_uses(
            uses=[KeyUse("one", ROTATED, 9), KeyUse("one", keys.digest(store.secret, SECRET.encode()), 8)]
        )
        verbs.create_key("two", b"2" * 32, ("queue|post|a", "queue|poll|b*"))
        verbs.keys.revoke("two")

        verbs.actions.record(Actor("ann", "native"), ActionKind.QUEUE_PURGE, queue="q", count=3, detail='{"ü":1}')
        verbs.actions.record(Actor(None, "console"), ActionKind.CONSOLE_SIGN_IN)

        with store.unit() as unit:
            for name, delivery in (("cafe", Delivery.AT_MOST_ONCE), ("babe", Delivery.AT_LEAST_ONCE)):
                consumer = Registration(name, "q", delivery, 60_000)
                unit.consumers.register(consumer, verbs.now)
                claimed = unit.consumers.claim(consumer, 2, verbs.now).messages
                unit.consumers.hold(name, [(message.seq, message.claim) for message in claimed], verbs.now)
            unit.create_queue("still", Settings(), verbs.now)
            unit.send("still", [Draft(b"not yet")], verbs.now)
            unit.pause_queue("still", verbs.now + 3)
        fill_shipments(verbs)
        fill_lines(verbs)
        fill_figures(verbs)


def fill_figures(verbs: Verbs) -> None:
    """Totals, both kinds of buckets, and one with depths alone."""
    with verbs.unit() as unit:
        unit.figures.add({1: list(range(10))}, verbs.now)
    with verbs.unit() as unit:
        unit.figures.sample({2: Depths(1, 2, 3, None)}, verbs.now)


def fill_lines(verbs: Verbs) -> None:
    """Groups, claimed and waiting; dedup keys of a window, known and forgotten; attempts; labels; a move as new."""
    labels = {"größe": "🚰", "'": '"\\', "aws:sqs:Policy": "p" * 20_000}
    scope = {"dedup": Dedup.WINDOW, "dedup_window_ms": 900_000, "dedup_scope": DedupScope.GROUP}
    verbs.create("lines", groups=Groups.FIFO, labels=labels, **scope)
    verbs.create("window", dedup=Dedup.WINDOW)
    verbs.create("words")
    verbs.now += 1
    verbs.update("lines", groups=Groups.FIFO, labels=labels, delay_ms=5, **scope)
    verbs.now += 5
    for body in (b"a1", b"b1", b"a2", b"c1", b"a3"):
        verbs.send(Draft(body, group={"a": "größe 🚰", "b": "b", "c": "'"}[chr(body[0])]), to="lines")
    verbs.now += 5
    verbs.claim_once("attempt 🚰", limit=2, hold_ms=1_000_000, queue="lines")
    verbs.send(Draft(b"1", group="a word"), Draft(b"2", group="a word"), to="words")
    verbs.send(Draft(b"w", dedup_key=ids.dedup_key_of("forgotten")), to="window")
    verbs.purge("window")
    verbs.send(Draft(b"w", dedup_key=ids.dedup_key_of("known")), to="window")
    verbs.ack(*verbs.claim(queue="window"))
    verbs.moves.start("words", "window", "as new", terms=MoveTerms(as_new=True))
    verbs.moves.step("as new", limit=1)


def fill_shipments(verbs: Verbs) -> None:
    """Kept, released but for one message, and open; an export that is settled and one that is not; sends with a key;
    leases."""
    verbs.create("ship")
    verbs.send(*(b"ship %d" % n for n in range(9)), to="ship")
    verbs.ship(1, limit=2, queue="ship")
    verbs.shipments.settle(1, keep=True, stored_in="a lake", queue="ship")
    verbs.ship(2, limit=3, queue="ship")
    verbs.shipments.release(2, limit=2, queue="ship")
    verbs.ship(3, limit=4, queue="ship")
    for number in (1, 2):
        verbs.claim_export(number, limit=2)
        if number == 1:
            verbs.exports.settle(number)
    verbs.send_once("key of a send", b"1", b"2", to="ship")
    verbs.leases.take("größe 🚰 ", queue="ship", hold_ms=10**9)
    verbs.leases.take("me", queue="q")


def contents(url: str) -> dict[str, object]:
    """All that can be seen of a store, also of one that was copied."""
    with closing(open_sql_store(url)) as store, store.unit(write=False) as unit:
        check_conservation(unit)
        queues = unit.list_queues(0, 1_000).queues
        seen: dict[str, object] = {
            "queues": queues,
            "ledger": unit.ledger.rows(0, 100_000),
            "keys": unit.keys.list(),
            "actions": unit.actions.list(None, 100),
            "moves": [unit.moves.find(move_id, 0) for move_id in ("whole", "broken", "half", "chosen", "as new")],
            "unfinished": unit.moves.unfinished(),
            "last_seq": unit.messages.last_seq(),
            "secret": store.secret,
            "consumers": unit.session.engine.rows("SELECT * FROM consumer ORDER BY queue, number"),
            "shipments": unit.session.engine.rows("SELECT * FROM shipment ORDER BY id"),
            "leases": unit.session.engine.rows("SELECT * FROM lease ORDER BY id"),
            "exports": unit.session.engine.rows("SELECT * FROM export ORDER BY id"),
            "sends": unit.session.engine.rows("SELECT * FROM sending ORDER BY id"),
            "dedup keys": unit.session.engine.rows("SELECT * FROM seen ORDER BY id"),
            "attempts": unit.session.engine.rows("SELECT * FROM attempt ORDER BY id"),
            "figures": unit.session.engine.rows("SELECT * FROM figure ORDER BY id"),
            "forgotten": unit.session.engine.rows("SELECT number, forgotten_through FROM queue ORDER BY number"),
            "hidden": unit.session.engine.rows(
                """SELECT seq, queue, first_claimed_at, last_claimed_at, dedup_key, body_hash
                   FROM message ORDER BY seq"""
            ),
            "deleted": unit.session.engine.rows(
                "SELECT number, name, deleted_at FROM queue WHERE deleted_at IS NOT NULL ORDER BY number"
            ),
        }
        for queue in queues:
            messages = page = unit.messages.peek(queue.name, 1_000)
            while page:
                page = unit.messages.peek(queue.name, 1_000, PeekAfter(page[-1].ready_at, page[-1].seq))
                messages = messages + page
            seen[f"messages {queue.name}"] = messages
            seen[f"tally {queue.name}"] = unit.ledger.tally(queue.name)
            seen[f"count {queue.name}"] = unit.count(queue.name, 1_000_000, 100_000)
    return seen


def goes_on(store: Store, before: dict[str, Any]) -> None:
    """New ids, old receipts, old keys."""
    verbs = Verbs(store)
    verbs.now += 2_000
    [held, *_] = [message for message in before["messages q"] if message.ready_at > 1_500_000]
    [sent] = verbs.send(b"fresh", to="empty")
    [message] = [message for message in verbs.peek("empty") if message.id == sent.id]
    assert message.seq > before["last_seq"]
    assert sent.id[14:23] == held.id[14:23]  # the origin
    assert verbs.ack(Receipt(held.id, held.claim - 1, "q"), Receipt(held.id, held.claim, "q")) == [False, True]
    assert verbs.rows(after=before["ledger"][-1].number)[0].id == held.id
    assert verbs.send(b"b", to="once")[0].stored is False
    assert verbs.create("next").number > max(number for number, *_ in before["deleted"])
    assert keys.Keyring(store.secret, verbs.keys.list()).find(SECRET.encode()).name == "one"
    verbs.create_key("three", b"3" * 32)
    assert [key.name for key in verbs.keys.list()] == ["one", "two", "three"]
    verbs.actions.record(Actor(None, "mqs"), ActionKind.QUEUE_DELETE)
    latest, *others = verbs.actions.list(None, 100)
    assert others == before["actions"]
    assert latest.number > others[0].number
    half = verbs.moves.step(move_id="half")
    assert half.moved > 2
    assert half.by == Actor("ann", "sqs")
    shipments_go_on(verbs)
    lines_go_on(verbs)
    assert verbs.claim(queue="still") == []
    with store.unit() as unit:
        unit.resume_queue("still", verbs.now)
    assert verbs.bodies(queue="still") == [b"not yet"]
    with store.unit() as unit:
        unit.sweep(verbs.now + 10**6, 1_000, 0)
        check_conservation(unit)


def shipments_go_on(verbs: Verbs) -> None:
    assert len(verbs.shipments.read(1, queue="ship")) == 2
    assert len(verbs.shipments.read(3, queue="ship")) == 4
    assert verbs.shipments.settle(3, queue="ship") == 4
    with pytest.raises(ShipmentEnded):
        verbs.shipments.read(1, queue="ship")
    with pytest.raises(LeaseHeld):
        verbs.leases.take("me", queue="ship")
    assert verbs.leases.take("me", name="another", queue="ship").holder == "me"
    verbs.ship(4, queue="ship")
    verbs.ship(1, consumer="other", queue="once")
    assert verbs.shipments.settle(4, keep=True, queue="ship") > 0
    assert len(verbs.exports.read(2)) == 2
    verbs.exports.settle(2)
    assert verbs.claim_export(3) is not None
    assert verbs.send_once("key of a send", b"1", b"2", to="ship").repeated
    assert not verbs.send_once("another key", b"1", b"2", to="ship").repeated


def lines_go_on(verbs: Verbs) -> None:
    held = verbs.claim_once("attempt 🚰", queue="lines")
    assert [(message.body, message.claim) for message in held] == [(b"a1", 1), (b"a2", 1)]
    other = verbs.claim_once("another", queue="lines")
    assert [message.body for message in other] == [b"b1", b"c1"]
    assert verbs.claim_once("another", queue="lines") == other
    assert verbs.send(Draft(b"a3", group=held[0].group), to="lines")[0].stored is False
    assert verbs.ack(*held) == [True, True]
    assert verbs.bodies(queue="lines") == [b"a3"]
    for name, stored in (("known", False), ("forgotten", True), ("forgotten", False), ("new", True), ("new", False)):
        assert verbs.send(Draft(b"w", dedup_key=ids.dedup_key_of(name)), to="window")[0].stored is stored
    assert verbs.moves.step("as new").moved == verbs.moves.find("as new").total == 2


CHANGES: dict[str, Callable[[Verbs], object]] = {
    "send": lambda verbs: verbs.send(b"more"),
    "claim": lambda verbs: verbs.claim(1),
    "claim for nothing": lambda verbs: verbs.claim(1, 0),
    "ack": lambda verbs: verbs.ack(Receipt(verbs.peek()[0].id)),
    "renew": lambda verbs: verbs.renew(Receipt(verbs.peek()[0].id), until=9_000_000),
    "release": lambda verbs: verbs.release_all(limit=1),
    "purge": lambda verbs: verbs.purge(limit=1),
    "move": lambda verbs: verbs.move("q", "empty", limit=1),
    "step": lambda verbs: verbs.moves.step("half", limit=1),
    "create queue": lambda verbs: verbs.create("another"),
    "update queue": lambda verbs: verbs.update("empty", visibility_ms=1),
    "delete queue": lambda verbs: verbs.delete("empty"),
    "pause queue": lambda verbs: pause(verbs, "own"),
    "create key": lambda verbs: verbs.create_key("another"),
    "expire key": lambda verbs: verbs.keys.update(name="one", expires_at=None),
    "retire secret": lambda verbs: verbs.keys.retire(name="one"),
    "revoke key": lambda verbs: verbs.keys.revoke("one"),
    "action": lambda verbs: verbs.actions.record(Actor(None, "mqs"), ActionKind.QUEUE_DELETE),
    "claim of a line": lambda verbs: verbs.claim(1, queue="lines"),
    "claim with an attempt": lambda verbs: verbs.claim_once("changed", 1, queue="lines"),
    "send within a window": lambda verbs: verbs.send(Draft(b"w", dedup_key=b"another"), to="window"),
    "forget within a window": lambda verbs: verbs.purge("window"),
    "labels": lambda verbs: verbs.update("own", labels={"k": "w"}),
    "sweep": lambda verbs: verbs.sweep(1, ledger_before=10**12),
}


def pause(verbs: Verbs, queue: str) -> None:
    with verbs.unit() as unit:
        unit.pause_queue(queue, verbs.now)


def change(url: str, name: str) -> None:
    """Past the mark, as a program could that knows nothing of it."""
    with closing(open_sql_store(url)) as store:
        verbs = Verbs(store)
        verbs.now += 3_000
        CHANGES[name](verbs)
