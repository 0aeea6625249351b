"""Sends that no thread waits for: the promises of a unit, or a unit instead."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Iterator

import psycopg
import pytest

from penstock.broker import LocalBroker
from penstock.clock import system_clock
from penstock.errors import QueueNotFound, StoreUnavailable
from penstock.model import Dedup, Draft, Groups, Message, Sent, Settings
from penstock.stores.protocol import Sending
from penstock.stores.sql.engines.network import NetworkStore
from penstock.stores.sql.engines.postgresql import PostgresDatabase
from penstock.timings import Timings
from tests.broker.conftest import result, results
from tests.broker.loops import ShiftedLoop
from tests.faults.crowd import peek_all
from tests.faults.sessions import cut_off, observing
from tests.stores.conftest import check_conservation
from tests.waiting import wait_until

NOW = 1_000_000
# So long that no machine is too slow for it.
PATIENT = Timings(store_timeout_s=300.0)
DRAFTS = [
    Draft(b"plain"),
    Draft(b"", "text/plain"),
    Draft(b"\x00\xff", attributes={"a": "1", "Ü": "ü"}),
    Draft(b"late", delay_ms=5_000),
    Draft(b"brief", deadline_at=NOW + 9),
    Draft(b"plain", "text/plain", {"b": "2"}, 0, NOW + 10, b"key"),
    Draft(b"of a group", group="größe \U0001f6b0"),
]


@pytest.fixture
def store(postgres_url: str) -> Iterator[NetworkStore]:
    """One connection, which knows its queues by heart."""
    store = NetworkStore(postgres_url, PostgresDatabase(postgres_url), 1)
    with store.unit() as unit:
        for name in ("q", "other"):
            unit.create_queue(name, Settings(), NOW)
        unit.create_queue("delayed", Settings(delay_ms=700, dedup=Dedup.CLAIM), NOW)
        unit.create_queue("once", Settings(dedup=Dedup.SEND), NOW)
        unit.create_queue("window", Settings(dedup=Dedup.WINDOW), NOW)
        unit.create_queue("lines", Settings(groups=Groups.FIFO), NOW)
    know(store)
    yield store
    with store.unit(write=False) as unit:
        check_conservation(unit)
    store.close()


def know(store: NetworkStore) -> None:
    with store.unit() as unit:
        for name in ("q", "other", "delayed", "once", "window", "lines"):
            unit.find_queue(name)


def waited_for(express: Sending) -> Sending:
    poll = select.poll()
    while True:
        poll.register(express.descriptor, select.POLLIN | (select.POLLOUT if express.is_writing else 0))
        poll.poll(60_000)
        if express.go_on():
            return express


def send(store: NetworkStore, queue: str, *drafts: Draft) -> list[Sent]:
    express = store.begin_sends([(queue, drafts)], NOW)
    assert express is not None
    sent = waited_for(express).end()
    assert sent is not None
    [own] = sent
    return own


def messages(store: NetworkStore, queue: str) -> list[Message]:
    with store.unit(write=False) as unit:
        return unit.messages.peek(queue, 10_000)


def seen(store: NetworkStore, queue: str) -> list[bytes]:
    with store.unit(write=False) as unit:
        return peek_all(unit, queue)


@pytest.mark.parametrize("queue", ["q", "delayed"])
def test_what_is_stored_is_what_a_unit_stores(store: NetworkStore, queue: str) -> None:
    def told(message: Message) -> tuple[object, ...]:
        return (
            message.body,
            message.content_type,
            message.attributes,
            message.sent_at,
            message.ready_at,
            message.receives,
            message.claim,
            message.deadline_at,
            message.group,
        )

    def keys() -> list[tuple[object, ...]]:
        with store.raw(write=False) as raw:
            return raw.rows("SELECT body_hash, dedup_key, came_from FROM message ORDER BY seq")

    sent = send(store, queue, *DRAFTS)
    by_express, keys_by_express = messages(store, queue), keys()
    assert {one.id for one in sent} == {message.id for message in by_express}
    with store.unit() as unit:
        unit.messages.purge(queue, NOW, 100, unit.messages.last_seq())
        unit.send(queue, DRAFTS, NOW)
    assert [told(message) for message in by_express] == [told(message) for message in messages(store, queue)]
    assert keys_by_express == keys()


def test_ids_are_given_in_the_order_of_the_drafts(store: NetworkStore) -> None:
    for count in (1, 2, 300):
        drafts = [Draft(b"%d" % number) for number in range(count)]
        sent = send(store, "q", *drafts)
        by_id = {message.id: message.body for message in messages(store, "q")}
        assert [by_id[one.id] for one in sent] == [draft.body for draft in drafts]
        assert all(one.stored for one in sent)
    assert seen(store, "q") == [b"%d" % number for count in (1, 2, 300) for number in range(count)]


def test_several_queues_at_once(store: NetworkStore) -> None:
    express = store.begin_sends([("other", [Draft(b"1"), Draft(b"2")]), ("q", [Draft(b"3")])], NOW)
    assert express is not None
    sent = waited_for(express).end()
    assert sent is not None
    assert [[one.id for one in own] for own in sent] == [
        [message.id for message in messages(store, queue)] for queue in ("other", "q")
    ]
    assert (seen(store, "other"), seen(store, "q")) == ([b"1", b"2"], [b"3"])


def test_more_than_a_socket_takes_at_once(store: NetworkStore) -> None:
    send(store, "q", *[Draft(bytes([number]) * 100_000) for number in range(10)])
    assert [body[:1] for body in seen(store, "q")] == [bytes([number]) for number in range(10)]


@pytest.mark.parametrize(
    "drafts",
    [[Draft(b"x" * 600_000)] * 2, [Draft(b"x", "\ud800")], [Draft(b"x", deadline_at=2**63)]],
    ids=["too much", "not Unicode", "too late"],
)
def test_what_is_not_sent_like_this_wants_a_unit(store: NetworkStore, drafts: list[Draft]) -> None:
    assert store.begin_sends([("q", drafts)], NOW) is None
    send(store, "q", Draft(b"y"))
    assert seen(store, "q") == [b"y"]


@pytest.mark.parametrize("queue", ["once", "window", "lines", "nowhere"])
def test_a_queue_that_wants_more_than_an_insert(store: NetworkStore, queue: str) -> None:
    assert store.begin_sends([("q", [Draft(b"x")]), (queue, [Draft(b"y")])], NOW) is None
    assert seen(store, "q") == []


def test_without_a_connection_at_hand(store: NetworkStore, postgres_url: str) -> None:
    with store.unit():
        assert store.begin_sends([("q", [Draft(b"x")])], NOW) is None
    send(store, "q", Draft(b"x"))
    other = NetworkStore(postgres_url, PostgresDatabase(postgres_url), 1)
    assert other.begin_sends([("q", [Draft(b"x")])], NOW) is None
    other.close()


def test_nothing_is_stored_where_the_queues_have_changed(store: NetworkStore, postgres_url: str) -> None:
    other = NetworkStore(postgres_url, PostgresDatabase(postgres_url), 1)
    with other.unit() as unit:
        unit.delete_queue("q", NOW)
        unit.create_queue("q", Settings(delay_ms=1_000), NOW)
    other.close()
    express = store.begin_sends([("q", [Draft(b"x")])], NOW)
    assert express is not None
    assert waited_for(express).end() is None
    assert seen(store, "q") == []
    know(store)
    send(store, "q", Draft(b"y"))
    assert [message.ready_at for message in messages(store, "q")] == [NOW + 1_000]


def test_what_the_database_refuses_wants_a_unit(store: NetworkStore) -> None:
    express = store.begin_sends([("q", [Draft(b"x"), Draft(b"y", "nul\x00")])], NOW)
    assert express is not None
    assert waited_for(express).end() is None
    send(store, "q", Draft(b"z"))
    assert seen(store, "q") == [b"z"]


def test_a_connection_that_was_cut_off_before(store: NetworkStore, postgres_url: str) -> None:
    for number in range(3):
        with observing(postgres_url) as sessions:
            before = sessions()
        cut_off(postgres_url)
        with observing(postgres_url) as sessions:
            # The one that listens for notices is soon back.
            wait_until(lambda sessions=sessions, before=before: not sessions() & before)
        assert store.begin_sends([("q", [Draft(b"x")])], NOW) is None
        know(store)
        send(store, "q", Draft(b"%d" % number))
    assert seen(store, "q") == [b"0", b"1", b"2"]


def test_a_connection_that_is_cut_off_meanwhile(store: NetworkStore, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as stranger:
        stranger.execute("LOCK TABLE penstock.tally IN EXCLUSIVE MODE")
        express = store.begin_sends([("q", [Draft(b"x")])], NOW)
        assert express is not None
        assert not express.go_on()
        with observing(postgres_url, "%WITH here%") as senders:
            wait_until(senders)
            stranger.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid", (list(senders()),))
        with pytest.raises(StoreUnavailable):
            waited_for(express).end()
    know(store)
    send(store, "q", Draft(b"y"))
    assert seen(store, "q") == [b"y"]


def test_the_time_is_told_with_every_answer(postgres_url: str) -> None:
    ahead = 0

    def clock() -> int:
        return system_clock() + ahead

    store = NetworkStore(postgres_url, PostgresDatabase(postgres_url), 1, clock=clock)
    with store.unit() as unit:
        unit.create_queue("q", Settings(), NOW)
    with store.unit() as unit:
        unit.find_queue("q")
    ahead = 3_600_000
    send(store, "q", Draft(b"x"))
    assert abs(store.ahead_ms + 3_600_000) < 60_000
    store.close()


# Through the broker


async def test_callers_are_told_their_own_results(store: NetworkStore) -> None:
    broker = LocalBroker(store, system_clock, asyncio.get_running_loop(), PATIENT)
    for turn in range(3):
        told = await results(
            *(
                broker.send(queue, [Draft(b"%d %d" % (turn, number))] * (number % 3 + 1))
                for number in range(20)
                for queue in ("q", "other", "once", "nowhere")
            )
        )
        by_id = {message.id: message.body for name in ("q", "other", "once") for message in messages(store, name)}
        for place, own in enumerate(told):
            number, queue = divmod(place, 4)
            if queue == 3:
                assert isinstance(own, QueueNotFound)
            else:
                assert [by_id[sent.id] for sent in own] == [b"%d %d" % (turn, number)] * (number % 3 + 1)
    assert len(seen(store, "q")) == 3 * sum(number % 3 + 1 for number in range(20))


def test_callers_are_told_of_a_database_that_hangs(store: NetworkStore, postgres_url: str) -> None:
    with asyncio.Runner(loop_factory=ShiftedLoop) as runner:
        runner.run(are_told_of_a_database_that_hangs(store, postgres_url))


async def are_told_of_a_database_that_hangs(store: NetworkStore, postgres_url: str) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ShiftedLoop)
    broker = LocalBroker(store, system_clock, loop, PATIENT)
    assert len(await result(broker.send("q", [Draft(b"1")]))) == 1
    with psycopg.connect(postgres_url) as stranger:
        stranger.execute("LOCK TABLE penstock.tally IN EXCLUSIVE MODE")
        hanging = result(broker.send("q", [Draft(b"2")]))
        while not stranger.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall():
            await asyncio.sleep(0.01)
        loop.ahead_s += PATIENT.store_timeout_s
        with pytest.raises(StoreUnavailable):
            await hanging
        [refused_at_once] = await results(broker.send("q", [Draft(b"2")]))
        assert isinstance(refused_at_once, StoreUnavailable)
    while isinstance((await results(broker.send("q", [Draft(b"3")])))[0], StoreUnavailable):
        await asyncio.sleep(0.01)
    # What hung for so long was given up, and may have been stored.
    assert [body for body in seen(store, "q") if body != b"2"] == [b"1", b"3"]
    assert await broker.finish(60) == 0


async def test_a_send_without_a_thread_wakes_those_who_wait(store: NetworkStore, postgres_url: str) -> None:
    """In this process and in another."""
    other = NetworkStore(postgres_url, PostgresDatabase(postgres_url), 1)
    wait_until(other.changed_elsewhere)  # of what was said before it listened
    broker = LocalBroker(store, system_clock, asyncio.get_running_loop(), PATIENT)
    waiting = result(broker.claim("other", 1, wait_ms=60_000))
    await result(broker.send("q", [Draft(b"x")]))
    wait_until(lambda: "q" in other.changed_elsewhere())
    await result(broker.send("other", [Draft(b"y")]))
    assert [message.body for message in await waiting] == [b"y"]
    broker.stop()
    other.close()
