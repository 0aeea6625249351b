"""What several servers on one database do at once: shipments, leases, exports, sends with a key, dedup keys of a
window, and claims with an attempt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from penstock.broker.messages import Resend
from penstock.errors import LeaseHeld, ShipmentEnded, TryAgain
from penstock.limits import Limits
from penstock.model import (
    Dealing,
    Dedup,
    Draft,
    Export,
    ExportRef,
    Groups,
    Message,
    Outcome,
    Receipt,
    Resent,
    Sent,
    Settings,
    Shipment,
    ShipmentRef,
    ShipmentState,
)
from penstock.stores import Store, Unit, open_store
from penstock.stores.sql import schema
from penstock.stores.sql.engine import RawSql
from penstock.stores.sql.engines.postgresql import PostgresDatabase
from penstock.stores.sql.session import Session
from tests.stores.conftest import Verbs, check_conservation

NOW = 1_000_000
SERVERS = 3
T = TypeVar("T")


@pytest.fixture(params=["postgres", "mariadb"])
def url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def servers(url: str, limits: Limits) -> Iterator[list[Store]]:
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(open_store(url, limits=limits))) for _ in range(SERVERS)]
        with stores[0].unit() as unit:
            unit.create_queue("q", Settings(), NOW)
        yield stores
        with stores[0].unit(write=False) as unit:
            check_conservation(unit)


def send(store: Store, count: int) -> None:
    with store.unit() as unit:
        unit.send("q", [Draft(b"%d" % number) for number in range(count)], NOW)


def all_at_once(servers: list[Store], *verbs: Callable[[Unit], T]) -> list[T]:
    """What the verb answers on each server, or each of as many verbs. One that is told to try again does."""
    meet = threading.Barrier(len(servers), timeout=60)

    def work(store: Store, verb: Callable[[Unit], T]) -> T:
        meet.wait()
        while True:
            try:
                with store.unit() as unit:
                    return verb(unit)
            except TryAgain:
                continue

    with ThreadPoolExecutor(len(servers)) as pool:
        each = verbs * len(servers) if len(verbs) == 1 else verbs
        return [working.result() for working in [pool.submit(work, *one) for one in zip(servers, each, strict=True)]]


def claim(unit: Unit) -> Shipment | None:
    return unit.shipments.claim(ShipmentRef("q", "c", 1), 20, NOW, 60_000)


def ship(servers: list[Store], count: int = 20) -> None:
    send(servers[0], count)
    with servers[0].unit() as unit:
        shipment = claim(unit)
    assert shipment is not None
    assert shipment.state is ShipmentState.OPEN


@pytest.mark.parametrize("limits", [Limits(claim_rows=4)])
def test_one_shipment_is_claimed_by_all_and_holds_each_message_once(servers: list[Store]) -> None:
    send(servers[0], 50)
    while True:
        answers = all_at_once(servers, claim)
        if all(answer is not None and answer.state is ShipmentState.OPEN for answer in answers):
            break
    assert {answer.messages for answer in answers if answer is not None} == {20}
    with servers[0].unit(write=False) as unit:
        read = unit.shipments.read(ShipmentRef("q", "c", 1), 0, 100, NOW)
        assert [message.body for message in read] == [b"%d" % number for number in range(20)]
        assert unit.count("q", NOW, 1_000).claimed == 20


def take(holder: str, now: int) -> Callable[[Unit], str]:
    """Who has the lease after this holder has tried to take it."""

    def try_to_take(unit: Unit) -> str:
        try:
            return unit.leases.take("q", "k", holder, now, 1_000).holder
        except LeaseHeld as refused:
            return refused.holder

    return try_to_take


def test_a_lease_has_one_holder(servers: list[Store]) -> None:
    """A free one, then again and again one that is over."""
    for turn in range(20):
        now = NOW + turn * 1_000
        holders = all_at_once(servers, *(take(f"{number} at {now}", now) for number in range(SERVERS)))
        assert len(set(holders)) == 1
        with servers[0].unit(write=False) as unit:
            lease = unit.leases.find("q", "k", now)
        assert (lease.holder, lease.taken_at, lease.until) == (holders[0], now, now + 1_000)


def test_a_lease_is_taken_while_it_is_swept(servers: list[Store]) -> None:
    for turn in range(10):
        now = NOW + turn * 1_000
        acts = [take("me", now), *[lambda unit, now=now: unit.sweep(now, 100, 0)] * (SERVERS - 1)]
        all_at_once(servers, *acts)
        with servers[0].unit(write=False) as unit:
            assert unit.leases.find("q", "k", now).holder == "me"


def test_a_settled_shipment_is_settled_once(servers: list[Store]) -> None:
    ship(servers)
    finished = 0
    while step := sum(all_at_once(servers, lambda unit: unit.shipments.settle(ShipmentRef("q", "c", 1), NOW, 3))):
        finished += step
    assert finished == 20
    with servers[0].unit(write=False) as unit:
        assert [row.outcome for row in unit.ledger.rows(0, 100)] == [Outcome.PROCESSED] * 20


def test_of_settling_and_releasing_one_decides(servers: list[Store]) -> None:
    ship(servers)

    def end(unit: Unit, settles: bool) -> str:
        try:
            if settles:
                unit.shipments.settle(ShipmentRef("q", "c", 1), NOW, 100)
                return "settled"
            unit.shipments.release(ShipmentRef("q", "c", 1), NOW, 100)
        except ShipmentEnded as ended:
            return ended.how
        return "released"

    [how] = set(all_at_once(servers, *(partial(end, settles=settles) for settles in (True, False, False))))
    with servers[0].unit(write=False) as unit:
        shipment = unit.shipments.find(ShipmentRef("q", "c", 1), NOW)
        assert shipment is not None
        assert shipment.state.value == how
        assert unit.count("q", NOW, 100).ready == (0 if how == "settled" else 20)


def test_a_purge_and_a_settlement_share_the_messages(servers: list[Store]) -> None:
    ship(servers)

    def purge(unit: Unit) -> int:
        return unit.messages.purge("q", NOW, 10, unit.messages.last_seq())

    def settle(unit: Unit) -> int:
        return unit.shipments.settle(ShipmentRef("q", "c", 1), NOW, 100)

    all_at_once(servers[:2], purge, settle)
    while sum(all_at_once(servers[:2], settle)):
        pass
    with servers[0].unit(write=False) as unit:
        assert unit.count("q", NOW, 100).total == 0
        assert len({row.id for row in unit.ledger.rows(0, 100)}) == len(unit.ledger.rows(0, 100)) == 20


def test_a_shipment_is_lost_once(servers: list[Store]) -> None:
    ship(servers)
    while sum(all_at_once(servers, lambda unit: unit.sweep(NOW + 60_001, 7, 0))):
        pass
    with servers[0].unit() as unit:
        messages = unit.claim("q", 100, NOW, 1_000).messages
    assert [message.receives for message in messages] == [2] * 20


class Telling:
    """A unit that tells when it has looked for a message."""

    def __init__(self, unit: Unit, looked: threading.Event) -> None:
        self._unit = unit
        self._looked = looked
        self.messages = self

    def find(self, *args: Any, **named: Any) -> Any:
        found = self._unit.messages.find(*args, **named)
        self._looked.set()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._unit.messages if name == "delete" else self._unit, name)


def test_a_resend_does_not_hold_its_message_while_it_waits_for_the_line(servers: list[Store]) -> None:
    looked = threading.Event()
    with servers[0].unit() as unit:
        unit.create_queue("lined", Settings(groups=Groups.FIFO), NOW)
        [sent] = unit.send("lined", [Draft(b"1", group="g")], NOW)
        [message] = unit.claim("lined", 1, NOW, 60_000).messages

    def resend() -> Resent:
        with servers[1].unit() as unit:
            task = Resend("lined", sent.id, Draft(b"2", group="g"), None, None, None)
            return task.apply(Telling(unit, looked), NOW, Limits())  # type: ignore[arg-type]

    with ThreadPoolExecutor(1) as pool:
        with servers[0].unit() as unit:
            unit.take_turns(["lined"])
            resent = pool.submit(resend)
            assert looked.wait(60)
            assert unit.ack([Receipt(message.id, message.claim, "lined")], NOW) == [True]
        assert resent.result(60) == Resent(Dealing.MISSING)


@pytest.mark.parametrize("groups", [Groups.OFF, Groups.FIFO])
def test_of_an_ack_a_deletion_and_a_resend_one_has_the_message(servers: list[Store], groups: Groups) -> None:
    group = None if groups is Groups.OFF else "g"
    with servers[0].unit() as unit:
        unit.create_queue("one", Settings(groups=groups), NOW)
    for _ in range(10):
        with servers[0].unit() as unit:
            unit.send("one", [Draft(b"1", group=group)], NOW)
            [message] = unit.claim("one", 1, NOW, 60_000).messages
        receipt = Receipt(message.id, message.claim, "one")

        def ack(unit: Unit, receipt: Receipt = receipt) -> bool:
            return unit.ack([receipt], NOW)[0]

        def delete(unit: Unit, receipt: Receipt = receipt) -> bool:
            return unit.messages.delete("one", [receipt.id], NOW) == [Dealing.DONE]

        def resend(unit: Unit, receipt: Receipt = receipt) -> bool:
            task = Resend("one", receipt.id, Draft(b"2", group=group), None, None, None)
            return task.apply(unit, NOW, Limits()).dealing is Dealing.DONE

        assert sum(all_at_once(servers, ack, delete, resend)) == 1
        with servers[0].unit() as unit:
            unit.messages.purge("one", NOW, 10, unit.messages.last_seq())


def test_an_export_is_the_same_for_all(servers: list[Store]) -> None:
    ship(servers)
    with servers[0].unit() as unit:
        unit.shipments.settle(ShipmentRef("q", "c", 1), NOW, 100)
    first, *others = all_at_once(servers, lambda unit: unit.exports.claim(ExportRef("c", 1), 15, NOW))
    assert first is not None
    assert first.rows == 15
    assert others == [first] * (SERVERS - 1)


def test_a_send_with_a_key_is_stored_once(servers: list[Store]) -> None:
    for key in range(5):
        answers = all_at_once(
            servers, lambda unit, key=key: unit.messages.send_once("q", f"{key}", b"d", [Draft(b"a"), Draft(b"b")], NOW)
        )
        assert sorted(answer.repeated for answer in answers) == [False] + [True] * (SERVERS - 1)
        assert {(answer.count, answer.stored) for answer in answers} == {(2, 2)}
    with servers[0].unit(write=False) as unit:
        assert unit.count("q", NOW, 100).total == 10


class TestWindows:
    """Dedup keys that several servers send at once."""

    @pytest.fixture
    def servers(self, servers: list[Store]) -> list[Store]:
        with servers[0].unit() as unit:
            unit.update_queue("q", Settings(dedup=Dedup.WINDOW), NOW)
        return servers

    def test_a_key_is_stored_once(self, servers: list[Store]) -> None:
        for key in range(10):
            draft = Draft(b"x", dedup_key=b"%16d" % key)
            answers = all_at_once(servers, lambda unit, draft=draft: unit.send("q", [draft], NOW)[0])
            assert sorted(answer.stored for answer in answers) == [False] * (SERVERS - 1) + [True]
            assert len({answer.id for answer in answers}) == 1
        with servers[0].unit(write=False) as unit:
            assert unit.count("q", NOW, 100).total == 10

    def test_a_key_whose_time_is_over_is_stored_once(self, servers: list[Store]) -> None:
        later = NOW + Settings().dedup_window_ms
        for key in range(5):
            draft = Draft(b"x", dedup_key=b"%16d" % key)
            for now in (NOW, later):
                answers = all_at_once(servers, lambda unit, draft=draft, now=now: unit.send("q", [draft], now)[0])
                assert sorted(answer.stored for answer in answers) == [False] * (SERVERS - 1) + [True]
                assert len({answer.id for answer in answers}) == 1

    def test_many_keys_in_any_order(self, servers: list[Store]) -> None:
        """Units that wait for each other's keys in a ring: one of them is begun again."""
        keys = [b"%16d" % key for key in range(30)]
        orders = [keys, keys[::-1], keys[15:] + keys[:15]]

        def send(unit: Unit, order: list[bytes]) -> dict[bytes, Sent]:
            sent = unit.send("q", [Draft(b"x", dedup_key=key) for key in order], NOW)
            return dict(zip(order, sent, strict=True))

        answers = all_at_once(servers, *(partial(send, order=order) for order in orders))
        for key in keys:
            assert sorted(answer[key].stored for answer in answers) == [False] * (SERVERS - 1) + [True]
            assert len({answer[key].id for answer in answers}) == 1

    def test_a_purge_and_a_send(self, servers: list[Store]) -> None:
        """Either the key is forgotten before, and stored again, or it is known and nothing is there."""
        draft = Draft(b"x", dedup_key=b"%16d" % 1)
        with servers[0].unit() as unit:
            unit.send("q", [draft], NOW)

        def purge(unit: Unit) -> bool:
            unit.messages.purge("q", NOW, 10, unit.messages.last_seq())
            return False

        def send(unit: Unit) -> bool:
            return unit.send("q", [draft], NOW)[0].stored

        stored = sum(all_at_once(servers, purge, send, send))
        with servers[0].unit(write=False) as unit:
            assert unit.count("q", NOW, 100).total in (stored, stored - 1)


class TestAttempts:
    """Claims with one name that several servers make at once."""

    def test_all_get_the_same(self, servers: list[Store]) -> None:
        send(servers[0], 50)
        for number in range(10):
            answers = all_at_once(
                servers, lambda unit, number=number: unit.messages.claim_once("q", f"{number}", 4, NOW, 60_000).messages
            )
            assert [message.body for message in answers[0]] == [
                b"%d" % one for one in range(number * 4, number * 4 + 4)
            ]
            assert answers[1:] == answers[:1] * (SERVERS - 1)
        with servers[0].unit(write=False) as unit:
            assert unit.count("q", NOW, 100).claimed == 40

    def test_of_several_names_none_gets_what_another_has(self, servers: list[Store]) -> None:
        send(servers[0], 30)
        claimed: dict[str, list[Message]] = {}

        def claim_some(unit: Unit, name: str) -> tuple[str, list[Message]]:
            return name, unit.messages.claim_once("q", name, 5, NOW, 60_000).messages

        for names in ("xyz", "yzx", "zxy", "xyz"):
            for name, messages in all_at_once(servers, *(partial(claim_some, name=name) for name in names)):
                assert claimed.setdefault(name, messages) == messages
        taken = [message.seq for messages in claimed.values() for message in messages]
        assert len(set(taken)) == len(taken) == 15

    def test_of_a_claim_again_and_an_ack_one_comes_first(self, servers: list[Store]) -> None:
        send(servers[0], 2)
        with servers[0].unit() as unit:
            [first] = unit.messages.claim_once("q", "t", 1, NOW, 60_000).messages

        def ack(unit: Unit) -> list[bytes]:
            assert unit.ack([Receipt(first.id, first.claim)], NOW) == [True]
            return []

        def claim_again(unit: Unit) -> list[bytes]:
            return [message.body for message in unit.messages.claim_once("q", "t", 1, NOW, 60_000).messages]

        answers = [answer for answer in all_at_once(servers, ack, claim_again, claim_again) if answer]
        assert all(answer in ([b"0"], [b"1"]) for answer in answers)
        with servers[0].unit(write=False) as unit:
            assert unit.count("q", NOW, 100).total == 1


def test_no_export_passes_over_rows_of_a_unit_that_is_still_open(servers: list[Store]) -> None:
    """A unit that began earlier may have lower numbers in the ledger, and commit them later."""
    ship(servers)

    def export() -> Export | None:
        with servers[1].unit() as unit:
            return unit.exports.claim(ExportRef("x", 1), 100, NOW)

    with servers[0].unit() as unit:
        unit.shipments.settle(ShipmentRef("q", "c", 1), NOW, 7)
        assert export() is None
    made = export()
    assert made is not None
    assert made.rows == 7


_QUEUE = (
    "INSERT INTO queue (number, name, created_at, deleted_at, visibility_ms, retention_ms, delay_ms, dedup, ledger)"
)
# A queue with a message, and one that was deleted.
FIRST_CONTENTS = (
    f"{_QUEUE} VALUES (1, 'q', 0, NULL, 30000, 1000000000000, 0, 0, 1)",
    f"{_QUEUE} VALUES (2, 'gone', 0, 5, 30000, 1000000000000, 0, 0, 1)",
    "INSERT INTO message (seq, queue, ready_at, sent_at, receives, claim, body_hash, body)"
    " VALUES (SEQ, 1, 0, 1000000, 0, 0, OLD, OLD)",
)


def fill_first_schema(session: Session) -> None:
    """Not by the verbs, which know the latest schema only."""
    [seq] = session.engine.next_seqs(1)
    for statement in FIRST_CONTENTS:
        RawSql(session.engine).run(statement.replace("SEQ", str(seq)).replace("OLD", f"x'{b'old'.hex()}'"))
    session.arrived(1, 1)


def fill_first_schema_of_postgresql(url: str) -> None:
    """A connection of the store prepares what it says, and so knows the latest schema only, too."""
    PostgresDatabase(url).prepare()
    with psycopg.connect(url, autocommit=True, options="-c search_path=penstock") as connection:
        for statement in (*FIRST_CONTENTS, "INSERT INTO tally VALUES (1, 0, 1, 0)"):
            statement = statement.replace("SEQ", "nextval('message_seq')").replace("OLD", "convert_to('old', 'UTF8')")
            connection.execute(statement.encode())


@pytest.mark.parametrize("database", ["sqlite", "postgres", "mariadb"])
def test_a_store_of_the_first_schema_gets_the_tables_of_the_others(
    database: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/old.db" if database == "sqlite" else request.getfixturevalue(f"{database}_url")
    scripts = schema.scripts
    with monkeypatch.context() as patched:
        patched.setattr(schema, "scripts", lambda dialect: scripts(dialect)[:1])
        if database == "postgres":
            fill_first_schema_of_postgresql(url)
        else:
            with closing(open_store(url)) as store, store.unit() as unit:
                fill_first_schema(unit.session)
    with closing(open_store(url)) as store:
        verbs = Verbs(store)
        assert verbs.names() == ["q"]
        verbs.ship()
        assert verbs.shipped() == [b"old"]
        assert verbs.shipments.settle() == 1
        assert verbs.claim_export() is not None
        assert not verbs.send_once("k", b"new").repeated
