"""Two stores driven side by side: whatever is done to both, they answer the same and show the same.

The memory store is the reference. PENSTOCK_EXAMPLES=2000 looks longer, and at other examples each time, of
PENSTOCK_STEPS=100 each.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from devtools.databases import Databases
from penstock import ids
from penstock.errors import CallerError, QueueNotFound
from penstock.limits import Limits
from penstock.model import (
    WHOLE,
    Backoff,
    Claimed,
    Dedup,
    DedupScope,
    Delivery,
    Draft,
    Ending,
    Export,
    ExportRef,
    Groups,
    Held,
    Key,
    LedgerFilter,
    LedgerMode,
    LedgerRow,
    Message,
    Move,
    MoveTerms,
    Numbered,
    Outcome,
    Queue,
    Receipt,
    Redrive,
    Registration,
    Selection,
    Sent,
    Settings,
    ShipmentRef,
)
from penstock.stores import MemoryStore, Store, Unit, open_store
from tests.stores.conftest import check_lines, peek_all

NAMES = ["a", "b", "c", "B"]
BODIES = [b"", b"x", b"y", b"\x00" * 9]

names = st.sampled_from(NAMES)
attempts = st.sampled_from(["t", "u"])
groups = st.sampled_from([None, "x", "x", "y"])
few = st.sampled_from([0, 1, 2, 3, 20])
consumers = st.sampled_from(["x", "y"])
registered = st.sampled_from(["g", "h", "i"])
# From a number that is there: mostly that one or the next.
ahead = st.sampled_from([0, 0, 1, 1, 2])
queue_settings = st.builds(
    Settings,
    visibility_ms=st.sampled_from([0, 5, 20]),
    backoff=st.sampled_from([None, None, Backoff(4, 10)]),
    retention_ms=st.sampled_from([30, 100, 10**9]),
    delay_ms=st.sampled_from([0, 0, 7]),
    dedup=st.sampled_from(Dedup),
    redrive=st.none() | st.builds(Redrive, st.sampled_from([1, 2]), names),
    ledger=st.sampled_from(LedgerMode),
    groups=st.sampled_from(Groups),
    dedup_window_ms=st.sampled_from([1, 25, 80]),
    dedup_scope=st.sampled_from(DedupScope),
    labels=st.dictionaries(st.sampled_from(["k", "\u00e4"]), st.sampled_from(["", "v", "\U0001f600"])),
)
move_terms = st.just(WHOLE) | st.builds(
    MoveTerms,
    selection=st.builds(
        Selection,
        sent_until=st.sampled_from([None, None, 1_020]),
        max_receives=st.sampled_from([None, None, 0]),
        text=st.sampled_from([None, None, "x"]),
    ),
    limit=st.sampled_from([None, None, 2]),
    per_second=st.sampled_from([None, None, 50]),
    dry_run=st.booleans(),
    as_new=st.booleans(),
)
drafts = st.lists(
    st.tuples(
        st.sampled_from(BODIES),
        st.sampled_from([None, None, 0, 6]),  # the delay
        st.sampled_from([None, None, None, 0, 12]),  # the deadline, from now
        st.sampled_from([None, None, b"key"]),
        groups,
    ),
    max_size=6,
)
# Which of the messages known so far; whether with its claim, and with its queue.
picks = st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.booleans()), max_size=4)

Verb = Callable[[Unit, "Side"], object]


class Side:
    """One of the two stores. Their ids differ in their origin, so ids are compared by the number inside."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ids: dict[int, str] = {}
        self.unit: Unit | None = None
        self._open: AbstractContextManager[Unit] | None = None

    def begin(self) -> None:
        self._open = self._new_unit()
        self.unit = self._open.__enter__()

    def _new_unit(self) -> AbstractContextManager[Unit]:
        """Without numbers that a database gives it ahead of need, and that leave a gap where they are not used."""
        for link in getattr(self.store, "_idle", ()):
            if hasattr(link.session.engine, "_needed"):
                link.session.engine._needed = 0
        return self.store.unit()

    def end(self, error: Exception | None) -> None:
        opened, self._open, self.unit = self._open, None, None
        assert opened is not None
        assert not opened.__exit__(type(error) if error else None, error, None)

    def answer(self, verb: Verb) -> object:
        """What the verb returns or raises, in the unit that is open or in one of its own."""
        try:
            if self.unit is not None:
                return self._comparable(verb(self.unit, self))
            with self._new_unit() as unit:
                return self._comparable(verb(unit, self))
        except CallerError as error:
            return (type(error), str(error))

    def _comparable(self, value: object) -> object:
        match value:
            case list():
                return [self._comparable(one) for one in value]
            case Claimed(messages, more):
                return (self._comparable(messages), more)
            case Sent(id_, stored):
                return (self._number(id_, ids.seq_of(id_)), stored)
            case Message():
                self._number(value.id, value.seq)
                return msgspec.structs.replace(value, id="")
            case Move():
                return msgspec.structs.replace(value, through=0)
            case Export():
                return msgspec.structs.replace(value, after=0, through=0)
            case LedgerRow():
                return msgspec.structs.replace(value, id=str(ids.seq_of(value.id)), number=0)
        return value

    def _number(self, id_: str, seq: int | None) -> int:
        assert seq == ids.seq_of(id_)
        assert seq is not None
        self.ids[seq] = id_
        return seq


class SideBySide(RuleBasedStateMachine):
    def __init__(self, new_url: Callable[[], str], limits: Limits) -> None:
        super().__init__()
        self.now = 1_000
        self.reference = MemoryStore(Random(1), limits)
        self.memory = Side(self.reference)
        self.tested = Side(open_store(new_url(), limits=limits))
        self.known: list[Receipt] = []
        self.moves: list[str] = []
        self.registered: dict[str, Registration] = {}

    def teardown(self) -> None:
        if self.memory.unit is not None:
            self.keep_unit()
        self.tested.store.close()

    def both(self, verb: Verb) -> object:
        expected, found = self.memory.answer(verb), self.tested.answer(verb)
        assert found == expected
        return expected

    def receipts(self, picked: list[tuple[int, bool, bool]]) -> Callable[[Side], list[Receipt]]:
        """The same messages, under the ids that each side has given them."""
        chosen = [(self.known[index % len(self.known)], *fence) for index, *fence in picked if self.known]
        return lambda side: [
            Receipt(side.ids[int(one.id)], one.claim if claim else None, one.queue if queue else None)
            for one, claim, queue in chosen
        ]

    # Time and units

    @rule(ms=st.sampled_from([0, 1, 5, 10, 40]))
    def pass_time(self, ms: int) -> None:
        self.now += ms

    @precondition(lambda self: self.memory.unit is None)
    @rule()
    def begin_unit(self) -> None:
        self.memory.begin()
        self.tested.begin()

    @precondition(lambda self: self.memory.unit is not None)
    @rule()
    def keep_unit(self) -> None:
        self.memory.end(None)
        self.tested.end(None)

    @precondition(lambda self: self.memory.unit is not None)
    @rule()
    def lose_unit(self) -> None:
        last_seq = self.last_seq()
        self.memory.end(RuntimeError("lost"))
        self.tested.end(RuntimeError("lost"))
        if not self.tested.store.inline:  # in a database, the numbers of a lost unit are lost as well
            self.reference._tables.last_seq = last_seq

    def last_seq(self) -> int:
        return self.reference._tables.last_seq

    # Queues

    @initialize(wanted=st.lists(queue_settings, min_size=len(NAMES) - 1, max_size=len(NAMES) - 1))
    def create_queues(self, wanted: list[Settings]) -> None:
        """All but one, and without their redrives at first, because these name each other."""
        for name, one in zip(NAMES, wanted, strict=False):
            self.create_queue(name, msgspec.structs.replace(one, redrive=None))
        for name, one in zip(NAMES, wanted, strict=False):
            self.update_queue(name, one)

    @rule(name=names, wanted=queue_settings)
    def create_queue(self, name: str, wanted: Settings) -> None:
        self.both(lambda unit, _: unit.create_queue(name, wanted, self.now))

    @rule(name=names, wanted=queue_settings)
    def update_queue(self, name: str, wanted: Settings) -> None:
        """Mostly with the groups it has, which are fixed."""
        found = self.memory.answer(lambda unit, _: unit.find_queue(name))
        if isinstance(found, Queue) and not wanted.delay_ms:
            wanted = msgspec.structs.replace(wanted, groups=found.settings.groups)
        self.both(lambda unit, _: unit.update_queue(name, wanted, self.now))

    @rule(name=names)
    def delete_queue(self, name: str) -> None:
        self.both(lambda unit, _: unit.delete_queue(name, self.now))

    # Messages

    @rule(queue=names, wanted=drafts)
    def send(self, queue: str, wanted: list[tuple[bytes, int | None, int | None, bytes | None, str | None]]) -> None:
        made = [
            Draft(
                body,
                # Most groups stand in line, where a delay is refused.
                delay_ms=delay if group is None or len(wanted) == 5 else None,
                deadline_at=None if due is None else self.now + due,
                dedup_key=key,
                group=group,
            )
            for body, delay, due, key, group in wanted
        ]
        sent = self.both(lambda unit, _: unit.send(queue, made, self.now))
        if isinstance(sent, list):
            self.known += [Receipt(str(seq), 0, queue) for seq, _ in sent]

    @rule(queue=names, pauses=st.sampled_from([True, False, False]))
    def pause_or_resume(self, queue: str, pauses: bool) -> None:
        if pauses:
            self.both(lambda unit, _: unit.pause_queue(queue, self.now))
        else:
            self.both(lambda unit, _: unit.resume_queue(queue, self.now))

    @rule(queue=names, limit=few, hold_ms=st.sampled_from([None, None, 0, 5, 50]))
    def claim(self, queue: str, limit: int, hold_ms: int | None) -> None:
        match self.both(lambda unit, _: unit.claim(queue, limit, self.now, hold_ms)):
            case [list() as messages, bool()]:
                self.known += [Receipt(str(message.seq), message.claim, queue) for message in messages]

    @rule(queue=names, attempt=attempts, limit=few, hold_ms=st.sampled_from([None, None, 0, 5, 50]))
    def claim_once(self, queue: str, attempt: str, limit: int, hold_ms: int | None) -> None:
        match self.both(lambda unit, _: unit.messages.claim_once(queue, attempt, limit, self.now, hold_ms)):
            case [list() as messages, bool()]:
                self.known += [Receipt(str(message.seq), message.claim, queue) for message in messages]

    @rule(picked=picks)
    def ack(self, picked: list[tuple[int, bool, bool]]) -> None:
        receipts = self.receipts(picked)
        self.both(lambda unit, side: unit.ack(receipts(side), self.now))

    @rule(picked=picks, ms=st.sampled_from([0, 3, 30]), shorten=st.booleans())
    def renew(self, picked: list[tuple[int, bool, bool]], ms: int, shorten: bool) -> None:
        receipts = self.receipts(picked)
        self.both(lambda unit, side: unit.messages.renew(receipts(side), self.now, self.now + ms, shorten))

    @rule(picked=picks, delay_ms=st.sampled_from([None, None, 0, 7, 30]))
    def release(self, picked: list[tuple[int, bool, bool]], delay_ms: int | None) -> None:
        receipts = self.receipts(picked)
        self.both(lambda unit, side: unit.messages.release(receipts(side), self.now, delay_ms))

    @rule(queue=names, limit=few)
    def release_all(self, queue: str, limit: int) -> None:
        self.both(lambda unit, _: unit.messages.release_all(queue, self.now, limit))

    @rule(
        here=names,
        there=names,
        limit=few,
        back=st.sampled_from([0, 0, 2]),
        claimed=st.booleans(),
        as_new=st.booleans(),
    )
    def move(self, here: str, there: str, limit: int, back: int, claimed: bool, as_new: bool) -> None:
        through = self.last_seq() - back
        self.both(lambda unit, _: unit.moves.move(here, there, self.now, limit, through, claimed, as_new))

    @rule(picked=picks)
    def locate(self, picked: list[tuple[int, bool, bool]]) -> None:
        receipts = self.receipts(picked)
        self.both(lambda unit, side: unit.messages.locate(receipts(side)))

    @precondition(lambda self: len(self.moves) < 5)
    @rule(here=names, there=names | st.none(), claimed=st.booleans(), terms=move_terms)
    def start_move(self, here: str, there: str | None, claimed: bool, terms: MoveTerms) -> None:
        move_id = f"move {len(self.moves)}"
        self.moves.append(move_id)
        self.both(lambda unit, _: unit.moves.start(move_id, here, there, self.now, claimed, terms))

    @precondition(lambda self: self.moves)
    @rule(index=st.integers(0, 4))
    def cancel_move(self, index: int) -> None:
        move_id = self.moves[index % len(self.moves)]
        self.both(lambda unit, _: unit.moves.cancel(move_id, self.now))

    @precondition(lambda self: self.moves)
    @rule(index=st.integers(0, 4), limit=st.sampled_from([1, 2, 20]))
    def step_move(self, index: int, limit: int) -> None:
        move_id = self.moves[index % len(self.moves)]
        self.both(lambda unit, _: unit.moves.step(move_id, self.now, limit))

    # Shipments, leases, exports and sends with a key

    @rule(
        queue=names,
        consumer=consumers,
        ahead=ahead,
        limit=st.sampled_from([1, 2, 5, 20]),
        max_bytes=st.sampled_from([None, None, 1, 2, 10]),
    )
    def claim_shipment(self, queue: str, consumer: str, ahead: int, limit: int, max_bytes: int | None) -> None:
        ref = ShipmentRef(queue, consumer, self.last_shipment(queue, consumer) + ahead)
        self.both(lambda unit, _: unit.shipments.claim(ref, limit, self.now, 30, max_bytes=max_bytes))

    @rule(queue=names, consumer=consumers, start=st.integers(0, 5), limit=few)
    def read_shipment(self, queue: str, consumer: str, start: int, limit: int) -> None:
        number = self.last_shipment(queue, consumer)
        self.both(lambda unit, _: unit.shipments.read(ShipmentRef(queue, consumer, number), start, limit, self.now))

    @rule(
        queue=names,
        consumer=consumers,
        back=ahead,
        limit=few,
        keep=st.booleans(),
        stored_in=st.sampled_from([None, "here", "there"]),
    )
    def settle_shipment(
        self, queue: str, consumer: str, back: int, limit: int, keep: bool, stored_in: str | None
    ) -> None:
        ref = ShipmentRef(queue, consumer, self.last_shipment(queue, consumer) - back)
        self.both(lambda unit, _: unit.shipments.settle(ref, self.now, limit, keep, stored_in))

    @rule(queue=names, consumer=consumers, limit=few)
    def release_shipment(self, queue: str, consumer: str, limit: int) -> None:
        number = self.last_shipment(queue, consumer)
        self.both(lambda unit, _: unit.shipments.release(ShipmentRef(queue, consumer, number), self.now, limit))

    @rule(queue=names, consumer=consumers)
    def beat_shipment(self, queue: str, consumer: str) -> None:
        number = self.last_shipment(queue, consumer)
        self.both(lambda unit, _: unit.shipments.beat(ShipmentRef(queue, consumer, number), self.now, 30))

    @rule(queue=names, name=consumers, holder=registered, hold_ms=st.sampled_from([1, 10, 60]))
    def take_lease(self, queue: str, name: str, holder: str, hold_ms: int) -> None:
        self.both(lambda unit, _: unit.leases.take(queue, name, holder, self.now, hold_ms))

    @rule(queue=names, name=consumers, holder=registered)
    def drop_lease(self, queue: str, name: str, holder: str) -> None:
        self.both(lambda unit, _: unit.leases.drop(queue, name, holder, self.now))

    def last_shipment(self, queue: str, consumer: str) -> int:
        found = self.memory.answer(lambda unit, _: unit.shipments.list(queue, consumer, 0, 1_000, self.now))
        return found[-1].number if isinstance(found, list) and found else 0

    @rule(consumer=consumers, ahead=ahead, limit=st.sampled_from([1, 2, 20]))
    def claim_export(self, consumer: str, ahead: int, limit: int) -> None:
        number = self.last_export(consumer) + ahead
        self.both(lambda unit, _: unit.exports.claim(ExportRef(consumer, number), limit, self.now))

    @rule(consumer=consumers, limit=few)
    def read_export(self, consumer: str, limit: int) -> None:
        number = self.last_export(consumer)
        self.both(lambda unit, _: unit.exports.read(ExportRef(consumer, number), 0, limit, self.now))

    @rule(consumer=consumers)
    def settle_export(self, consumer: str) -> None:
        number = self.last_export(consumer)
        self.both(lambda unit, _: unit.exports.settle(ExportRef(consumer, number), self.now))

    def last_export(self, consumer: str) -> int:
        found = self.memory.answer(lambda unit, _: unit.exports.list(consumer, 0, 1_000, self.now))
        return found[-1].number if isinstance(found, list) and found else 0

    @rule(queue=st.none() | names, ago=st.none() | st.sampled_from([0, 5, 40]), ms=st.none() | st.sampled_from([0, 10]))
    def filter_ledger(self, queue: str | None, ago: int | None, ms: int | None) -> None:
        since = None if ago is None else self.now - ago
        before = None if ms is None else self.now - ms
        wanted = LedgerFilter(queue=queue, since=since, before=before)
        self.both(lambda unit, _: sorted(ledger_in_order(unit, wanted), key=when_and_what))

    @rule(picked=picks)
    def follow_message(self, picked: list[tuple[int, bool, bool]]) -> None:
        receipts = self.receipts(picked)
        self.both(
            lambda unit, side: [
                unit.ledger.rows(0, 100, LedgerFilter(id=one.id, queue=one.queue)) for one in receipts(side)
            ]
        )

    @rule(queue=names, key=names, bodies=st.lists(st.sampled_from(BODIES), max_size=3), group=groups)
    def send_once(self, queue: str, key: str, bodies: list[bytes], group: str | None) -> None:
        made = [Draft(body, group=group) for body in bodies]
        self.both(lambda unit, _: unit.messages.send_once(queue, key, b"%d" % len(bodies), made, self.now))

    # Consumers

    @rule(name=registered, queue=names, delivery=st.sampled_from(Delivery), dead_after_ms=st.sampled_from([15, 60]))
    def register(self, name: str, queue: str, delivery: Delivery, dead_after_ms: int) -> None:
        self.registered[name] = consumer = Registration(name, queue, delivery, dead_after_ms)
        self.both(lambda unit, _: unit.consumers.register(consumer, self.now))

    @precondition(lambda self: self.registered)
    @rule(name=registered, limit=few)
    def take(self, name: str, limit: int) -> None:
        """Claim for a consumer that may not be registered any more, and write down what it holds."""
        consumer = self.registered.get(name) or Registration(name, "a", Delivery.AT_LEAST_ONCE, 60)

        def take(unit: Unit, _side: Side) -> Claimed:
            held = unit.consumers.attend(name) or set()
            claimed = unit.consumers.claim(consumer, limit, self.now)
            unit.consumers.hold(name, held | {(one.seq, one.claim) for one in claimed.messages}, self.now)
            return claimed

        match self.both(take):
            case [list() as messages, bool()]:
                self.known += [Receipt(str(message.seq), message.claim, consumer.queue) for message in messages]

    @precondition(lambda self: self.registered)
    @rule(
        name=registered,
        queue=names,
        outcome=st.sampled_from([None, None, Outcome.PROCESSED, Outcome.FAILED]),
        delay_ms=st.sampled_from([0, 0, 6]),
        count=st.integers(0, 3),
        forgets=st.booleans(),
    )
    def end_claims(
        self, name: str, queue: str, outcome: Outcome | None, delay_ms: int, count: int, forgets: bool
    ) -> None:
        """Some of what a consumer holds, perhaps from another queue; it may forget to write down that it is done."""
        consumer = self.registered.get(name)
        where = consumer.queue if consumer is not None and count % 2 else queue

        def end_claims(unit: Unit, _side: Side) -> list[Held]:
            held = unit.consumers.attend(name) or set()
            some = sorted(held)[:count]
            if consumer is not None and where == consumer.queue:
                [ended] = unit.consumers.report(consumer, [Ending(some, outcome, delay_ms)], self.now).ended
            else:
                ended = unit.consumers.end_claims(where, some, outcome, self.now, delay_ms)
            if not forgets:
                unit.consumers.hold(name, held - ended, self.now)
            return sorted(ended)

        self.both(end_claims)

    @rule(name=registered)
    def leave(self, name: str) -> None:
        self.both(lambda unit, _: unit.consumers.leave(name))

    @rule()
    def reap(self) -> None:
        self.both(lambda unit, _: unit.consumers.reap(self.now))

    @rule(queue=names, bodies=st.lists(st.sampled_from(BODIES), max_size=3), again=st.booleans(), group=groups)
    def push(self, queue: str, bodies: list[bytes], again: bool, group: str | None) -> None:
        def push(unit: Unit, _side: Side) -> list[Sent]:
            if unit.find_queue(queue) is None:
                raise QueueNotFound(queue)  # before numbers are given out, which a database would not take back
            reserved = unit.consumers.reserve(len(bodies))
            numbered = zip(reserved.seqs, bodies, strict=True)
            made = [Numbered(seq, self.now, Draft(body, group=group)) for seq, body in numbered]
            unit.consumers.push(queue, made, self.now)
            if again:
                unit.consumers.push(queue, made, self.now, again=True)
            return [Sent(ids.make_id(reserved.origin, self.now, seq), True) for seq in reserved.seqs]

        pushed = self.both(push)
        if isinstance(pushed, list):
            self.known += [Receipt(str(seq), 0, queue) for seq, _ in pushed]

    @rule(picked=picks)
    def trace(self, picked: list[tuple[int, bool, bool]]) -> None:
        receipts = self.receipts(picked)
        self.both(lambda unit, side: [unit.consumers.trace(one.id, self.now) for one in receipts(side)])

    @rule(name=names)
    def create_key(self, name: str) -> None:
        self.both(lambda unit, _: unit.keys.create(Key(name, sha256(name.encode()).digest(), ("queue|*|*",), self.now)))

    @rule(name=names)
    def revoke_key(self, name: str) -> None:
        self.both(lambda unit, _: unit.keys.revoke(name, self.now))

    @rule(queue=names, limit=few, back=st.sampled_from([0, 0, 2]))
    def purge(self, queue: str, limit: int, back: int) -> None:
        through = self.last_seq() - back
        self.both(lambda unit, _: unit.messages.purge(queue, self.now, limit, through))

    @rule(queue=names, limit=few, back=st.sampled_from([0, 0, 2]), age=st.sampled_from([0, 5, 50]))
    def purge_older(self, queue: str, limit: int, back: int, age: int) -> None:
        through = self.last_seq() - back
        self.both(lambda unit, _: unit.messages.purge_older(queue, self.now, limit, through, self.now - age))

    @precondition(lambda self: self.memory.unit is None)
    @rule(
        limit=st.sampled_from([1, 3, 1_000]), age=st.sampled_from([5, 50, 1_000]), most=st.sampled_from([None, 1_000])
    )
    def sweep(self, limit: int, age: int, most: int | None) -> None:
        """To the end, because how a sweep divides its work is its own affair."""

        def sweep_all(side: Side) -> int:
            freed = 0
            with side.store.unit() as unit:
                while unit.ledger.measure(limit):
                    pass
            while True:
                with side.store.unit() as unit:
                    step = unit.sweep(self.now, limit, self.now - age, 0, most)
                if not step:
                    return freed
                freed += step

        assert sweep_all(self.tested) == sweep_all(self.memory)

    # What must hold after every step

    @invariant()
    def both_show_the_same(self) -> None:
        self.both(lambda unit, _: everything(unit, self.now))
        self.both(lambda unit, _: [unit.moves.find(move_id, self.now) for move_id in self.moves])
        self.both(lambda unit, _: unit.moves.list(3, self.now))

    @invariant()
    def nobody_is_left_waiting(self) -> None:
        if self.memory.unit is not None and self.tested.unit is not None:
            assert self.memory.unit.stirred <= self.tested.unit.stirred


def everything(unit: Unit, now: int) -> list[object]:
    """All that a store shows of itself. What has arrived in a queue is there or has departed, and lines are in
    order."""
    views: list[object] = [unit.list_queues(0, 3), sorted(ledger_in_order(unit), key=when_and_what)]
    queues = unit.list_queues(0, 10).queues
    counts = {queue.name: count for queue, count in zip(queues, unit.counts(queues, now, 10_000), strict=True)}
    views += [unit.consumers.attend(name) for name in ("g", "h", "i")]
    views += [unit.page_queues("", "", 10), unit.page_queues("b", "a", 2)]
    views += [unit.dead_letter_sources(queue.name, "", 10) for queue in queues[:1]]
    views += [unit.ledger.size(), unit.moves.unfinished(), unit.keys.list(), unit.exports.list(None, 0, 1_000, now)]
    for name in NAMES:
        views += [unit.find_queue(name), unit.next_due(name, now), unit.consumers.first_due(name)]
        found = unit.find_queue(name)
        if found is not None:
            messages, count, tally = list(peek_all(unit, name)), counts[name], unit.ledger.tally(name)
            assert tally.arrived - tally.departed == count.total == len(messages)
            check_lines(found, messages)
            views += [messages, count, tally, unit.shipments.list(name, None, 0, 1_000, now)]
            views += [unit.leases.find(name, lease, now) for lease in ("x", "y")]
    return views


def ledger_in_order(unit: Unit, wanted: LedgerFilter | None = None) -> list[LedgerRow]:
    rows = unit.ledger.rows(0, 10_000, wanted)
    while more := unit.ledger.rows(rows[-1].number if rows else 0, 10_000, wanted):
        rows += more
    assert [row.number for row in rows] == sorted({row.number for row in rows})
    assert [row.finished_at for row in rows] == sorted(row.finished_at for row in rows)
    return rows


def when_and_what(row: LedgerRow) -> tuple[object, ...]:
    """The order of rows that finish in one call is each store's own."""
    return (row.finished_at, ids.seq_of(row.id), row.queue, row.outcome)


@pytest.fixture
def sqlite_urls() -> Iterator[Callable[[], str]]:
    """In memory where the system offers it: thousands of units, and none of them is about the disk."""
    shared_memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shared_memory if os.access(shared_memory, os.W_OK) else None))
    numbers = itertools.count()
    yield lambda: f"sqlite:///{folder}/{next(numbers)}.db"
    shutil.rmtree(folder)


@pytest.fixture
def postgresql_urls(shared_postgres: Databases) -> Callable[[], str]:
    return shared_postgres.new_url


@pytest.fixture
def mariadb_urls(shared_mariadb: Databases) -> Callable[[], str]:
    return shared_mariadb.new_url


@pytest.mark.timeout(600)  # the examples take a minute each way where other tests keep the machine busy
@pytest.mark.parametrize("claim_bytes", [Limits().claim_bytes, 12])
@pytest.mark.parametrize(("database", "examples"), [("sqlite", 40), ("postgresql", 12), ("mariadb", 12)])
def test_stores_agree(request, database, examples, claim_bytes):
    bounds = Limits(
        # The reference has no rounds: with enough of them, a claim ends where the queue does.
        claim_rounds=1_000,
        claim_bytes=claim_bytes,
        # A shipment takes several claims, and what is old is old at once.
        claim_rows=3,
        shipment_kept_ms=40,
        shipment_remembered_ms=80,
        idempotency_ms=60,
        attempt_ms=60,
    )
    new_url = request.getfixturevalue(f"{database}_urls")
    wanted = os.environ.get("PENSTOCK_EXAMPLES")
    run_state_machine_as_test(
        lambda: SideBySide(new_url, bounds),
        settings=settings(
            max_examples=int(wanted or examples),
            stateful_step_count=int(os.environ.get("PENSTOCK_STEPS", "50")),
            derandomize=wanted is None,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
