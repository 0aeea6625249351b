"""Units that overlap in a store on a database server, and what becomes of their connections."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import count
from random import Random
from typing import ClassVar

import psycopg
import pytest
from msgspec import Struct

from devtools.databases import mariadb_connection
from penstock.broker import LocalBroker
from penstock.clock import system_clock
from penstock.errors import CallerError, QueueNotFound, StoreBusy, StoreUnavailable
from penstock.limits import Limits
from penstock.model import Dedup, Draft, ExportRef, LedgerRow, Receipt, Settings
from penstock.stores import Store, Unit, open_store
from penstock.stores.sql.engine import RawSql
from penstock.stores.sql.engines.mariadb import MariaDatabase, MariaEngine
from penstock.stores.sql.engines.network import Database, NetworkStore
from penstock.stores.sql.engines.postgresql import PostgresDatabase
from penstock.stores.transfer.mariadb import MariaDialect
from penstock.stores.transfer.postgresql import PostgresDialect
from penstock.stores.transfer.side import Counters
from penstock.timings import Timings
from tests.broker.conftest import result
from tests.faults.crowd import opened, peek_all
from tests.faults.sessions import cut_off, observing
from tests.stores.conftest import check_conservation
from tests.waiting import wait_until

NOW = 1_000_000
# For tests that are not about time: no machine is too slow for it.
PATIENT = Timings(busy_patience_s=300.0, store_timeout_s=300.0)


@pytest.fixture(params=["postgres", "mariadb"])
def url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with opened(url) as store:
        with store.unit() as unit:
            unit.create_queue("q", Settings(), NOW)
            for name in ("a", "b"):
                unit.create_queue(name, Settings(dedup=Dedup.SEND), NOW)
        yield store
        with store.unit(write=False) as unit:
            check_conservation(unit)


def send(store: Store, *bodies: bytes, to: str = "q") -> None:
    with store.unit() as unit:
        unit.send(to, [Draft(body) for body in bodies], NOW)


def claim(unit: Unit, limit: int = 1) -> list[bytes]:
    return [message.body for message in unit.claim("q", limit, NOW, 1_000).messages]


def test_two_units_are_open_at_once_and_see_nothing_of_each_other(store: Store) -> None:
    send(store, b"1", b"2", b"3")
    meet = threading.Barrier(2, timeout=60)

    def work(body: bytes) -> tuple[list[bytes], list[bytes]]:
        with store.unit() as unit:
            claimed = claim(unit)
            unit.send("q", [Draft(body)], NOW)
            meet.wait()
            seen = peek_all(unit, "q")
            meet.wait()
        return claimed, seen

    with ThreadPoolExecutor(2) as pool:
        [(one, seen_by_one), (two, seen_by_two)] = pool.map(work, [b"one", b"two"])
    assert sorted(one + two) == [b"1", b"2"]
    assert (b"one" in seen_by_one, b"two" in seen_by_one) == (True, False)
    assert (b"one" in seen_by_two, b"two" in seen_by_two) == (False, True)
    with store.unit(write=False) as unit:
        assert len(peek_all(unit, "q")) == 5


def test_a_third_unit_waits_for_its_turn_and_takes_no_third_connection(store: Store, url: str) -> None:
    entered, go_on = threading.Semaphore(0), threading.Event()

    def hold() -> None:
        with store.unit():
            entered.release()
            assert go_on.wait(60)

    with observing(url) as others, ThreadPoolExecutor(3) as pool:
        units = [pool.submit(hold) for _ in range(3)]
        for _ in range(store.lanes):
            assert entered.acquire(timeout=60)
        assert not entered.acquire(timeout=0.3)
        assert len(others()) <= store.lanes + 1
        go_on.set()
        for unit in units:
            unit.result()


@pytest.mark.parametrize("error", [QueueNotFound("no"), ValueError("a bug"), KeyboardInterrupt()])
def test_a_unit_that_raises_leaves_its_connection_as_good_as_new(store: Store, url: str, error: BaseException) -> None:
    with observing(url) as others:
        wait_until(lambda: len(others()) == 1)  # the one that prepared the store may not have left yet
        before = others()
        for _ in range(5):
            with suppress(type(error)), store.unit() as unit:
                unit.send("q", [Draft(b"lost")], NOW)
                raise error
        assert others() == before
    send(store, b"kept")
    with store.unit(write=False) as unit:
        assert peek_all(unit, "q") == [b"kept"]


def test_a_unit_whose_connection_is_cut_off_is_lost_and_the_next_is_not(store: Store, url: str) -> None:
    def lose() -> None:
        with store.unit() as unit:
            unit.send("q", [Draft(b"lost")], NOW)
            cut_off(url)
            unit.send("q", [Draft(b"lost too")], NOW)

    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            lose()
        send(store, b"kept")
    with store.unit(write=False) as unit:
        assert peek_all(unit, "q") == [b"kept"] * 3


def test_connections_that_are_cut_off_between_units_are_replaced_without_a_word(store: Store, url: str) -> None:
    for number in range(5):
        cut_off(url)
        send(store, b"%d" % number)
    with store.unit(write=False) as unit:
        assert peek_all(unit, "q") == [b"%d" % number for number in range(5)]


def test_what_is_open_when_the_store_is_closed_is_closed_after_it(url: str) -> None:
    with opened(url) as store:
        with store.unit() as unit:
            unit.create_queue("q", Settings(), NOW)
        with store.unit() as unit:
            store.close()
            unit.send("q", [Draft(b"still in time")], NOW)
        with observing(url) as others:
            wait_until(lambda: not others())
    with opened(url) as store, store.unit(write=False) as unit:
        assert peek_all(unit, "q") == [b"still in time"]


def test_long_bodies_and_short_ones_are_read_until_they_come_to_the_limit(url: str, store: Store) -> None:
    bodies = [b"s" * 10, b"a" * 20_000, b"", b"b" * 40_000, b"", b"c" * 30_000]
    send(store, *bodies)
    with closing(open_store(url, limits=Limits(claim_bytes=50_000))) as small, small.unit() as unit:
        assert [message.body for message in unit.messages.peek("q", 10)] == bodies[:4]
        assert claim(unit, 10) == bodies[:4]
        assert claim(unit, 10) == bodies[4:]


def test_a_name_that_no_database_holds_is_not_found_and_does_no_harm(store: Store) -> None:
    with store.unit() as unit:
        unit.send("q", [Draft(b"in the unit")], NOW)
        assert unit.find_queue("a\0b") is None
        assert unit.moves.find("\0", 0) is None
        with pytest.raises(QueueNotFound):
            unit.claim("a\0b", 1, NOW, None)
        with pytest.raises(CallerError):
            unit.keys.revoke("\0", NOW)
    with store.unit(write=False) as unit:
        assert peek_all(unit, "q") == [b"in the unit"]


def cross(unit: Unit, first: str, second: str, meet: Callable[[], object]) -> str:
    """Take turns at two queues, in this order."""
    unit.send(first, [Draft(first.encode())], NOW)
    meet()
    unit.send(second, [Draft(second.encode())], NOW)
    return first


def test_a_deadlock_is_told_as_a_busy_store(store: Store) -> None:
    meet = threading.Barrier(2, timeout=60)

    def work(first: str, second: str) -> str:
        try:
            with store.unit() as unit:
                return cross(unit, first, second, meet.wait)
        except StoreBusy:
            return "busy"

    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(work, ["a", "b"], ["b", "a"]))
    assert told in (["a", "busy"], ["busy", "b"])
    with store.unit(write=False) as unit:
        assert (peek_all(unit, "a"), peek_all(unit, "b")) == ([b"a"], [b"b"])


async def test_the_broker_tries_again_after_a_deadlock(store: Store) -> None:
    loop = asyncio.get_running_loop()
    patient = LocalBroker(store, system_clock, loop, PATIENT)._commit
    meet, tries = threading.Barrier(2, timeout=60), Counter[str]()

    class Cross(Struct):
        first: str
        second: str
        writes: ClassVar[bool] = True

        def apply(self, unit: Unit, _now: int, _limits: Limits) -> str:
            tries[self.first] += 1
            return cross(unit, self.first, self.second, meet.wait if tries[self.first] == 1 else lambda: None)

    one = result(patient.work(Cross("a", "b")))
    while not tries:  # else they would share a unit
        await asyncio.sleep(0.01)
    two = result(patient.work(Cross("b", "a")))
    assert await asyncio.gather(one, two) == ["a", "b"]
    assert tries.total() > 2  # the one that tries again may even be quicker, and meet the other again


async def test_patience_ends_although_others_are_served(url: str, store: Store) -> None:
    """A stranger has locked a queue, and goes for lunch."""
    is_postgres = url.startswith("postgresql")
    database: Database = (PostgresDatabase if is_postgres else MariaDatabase)(url, lock_timeout_ms=200)
    stranger = psycopg.connect(url) if is_postgres else mariadb_connection(url)
    with stranger, stranger.cursor() as cursor, closing(NetworkStore(url, database, 2)) as hurried:
        cursor.execute("BEGIN")
        cursor.execute(f"SELECT number FROM {'penstock.' if is_postgres else ''}queue WHERE name = 'a' FOR UPDATE")
        patient = LocalBroker(
            hurried, system_clock, asyncio.get_running_loop(), Timings(busy_patience_s=0.5, store_timeout_s=300.0)
        )
        sent = result(patient.send("a", [Draft(b"x")]))

        async def look() -> None:
            while not sent.done():
                await result(patient.find_queues(["q"]))
                await asyncio.sleep(0.01)

        await asyncio.gather(*(look() for _ in range(5)))
        assert isinstance(sent.exception(), StoreBusy)
        stranger.rollback()


def with_clock(url: str, clock: Callable[[], int]) -> NetworkStore:
    return NetworkStore(url, (PostgresDatabase if url.startswith("postgresql") else MariaDatabase)(url), 2, clock=clock)


def test_the_time_is_the_databases(url: str) -> None:
    ahead_ms = 0
    with closing(with_clock(url, lambda: system_clock() + ahead_ms)) as store:
        for ahead_ms in (0, 300_000, -300_000):
            with store.unit(write=False):
                pass
            assert abs(store.ahead_ms + ahead_ms) < 60_000


def finish_some(store: Store, random: Random, wanted: int) -> Counter[str]:
    """Messages sent, claimed and acked, in units that end in another order than they began."""
    finished: Counter[str] = Counter()
    while finished.total() < wanted:
        with suppress(StoreBusy):  # a deadlock, which MariaDB finds wherever two units meet in an index
            finished.update(finish(store, random))
    return finished


def finish(store: Store, random: Random) -> list[str]:
    with store.unit() as unit:
        unit.send("q", [Draft(b"x")] * random.randrange(1, 5), NOW)
        messages = unit.claim("q", random.randrange(1, 5), NOW, 60_000).messages
        unit.ack([Receipt(message.id) for message in messages], NOW)
        threading.Event().wait(random.random() / 200)
    return [message.id for message in messages]


def read_on(store: Store, after: int, limit: int = 1_000) -> list[LedgerRow]:
    with store.unit(write=False) as unit:
        return unit.ledger.rows(after, limit)


@pytest.mark.timeout(600)  # MariaDB's deadlocks take their time where other tests keep the machine busy
def test_a_reader_of_the_ledger_misses_no_row_and_sees_none_twice(url: str, store: Store) -> None:
    rows: list[LedgerRow] = []
    is_over = threading.Event()

    def read() -> None:
        with opened(url, lanes=1) as reader:
            while True:
                was_over = is_over.is_set()
                page = read_on(reader, rows[-1].number if rows else 0, 7)
                rows.extend(page)
                if was_over and not page:
                    return

    with opened(url) as other, opened(url) as third, ThreadPoolExecutor(7) as pool:
        reading = pool.submit(read)
        writers = [
            pool.submit(finish_some, writer, Random(seed), 60)
            for seed, writer in enumerate((store, other, third, store, other, third))
        ]
        try:
            finished = sum((writer.result() for writer in writers), Counter())
        finally:
            is_over.set()
        reading.result()
    assert Counter(row.id for row in rows) == finished
    assert [row.number for row in rows] == sorted({row.number for row in rows})


def process_one(unit: Unit) -> str:
    [message] = unit.claim("q", 1, NOW, 60_000).messages
    assert unit.ack([Receipt(message.id)], NOW) == [True]
    return message.id


def speak_up(unit: Unit) -> None:
    """A unit may keep back what it has to say until it asks for something."""
    unit.ledger.rows(0, 1)


@pytest.mark.parametrize("reached", [0, 2**32 - 2])
def test_a_row_that_is_not_committed_yet_holds_up_only_the_rows_behind_it(url: str, store: Store, reached: int) -> None:
    """It has the lower number: a reader that went past it would never see it. But a server that is frozen in the middle
    of a unit must not hold up the others because one reads the ledger."""
    if reached:
        skip_ledger_numbers(store, reached)
    send(store, *[b"x"] * 5)
    with opened(url) as reader, opened(url) as quick:
        with quick.unit() as unit:
            before = process_one(unit)
        with store.unit() as frozen:
            slow = process_one(frozen)
            speak_up(frozen)
            with quick.unit() as unit:
                behind = [process_one(unit)]
            seen = read_on(reader, 0)
            assert [row.id for row in seen] == [before]
            with quick.unit() as unit:
                export = unit.exports.claim(ExportRef("c", 1), 100, NOW)
                behind.append(process_one(unit))
                unit.create_queue("new", Settings(), NOW)
            assert export is not None
            assert export.rows == 1
            assert read_on(reader, seen[-1].number) == []
        seen += read_on(reader, seen[-1].number)
    assert [row.id for row in seen] == [before, slow, *behind]


def skip_ledger_numbers(store: Store, reached: int) -> None:
    with store.unit() as unit:
        dialect = MariaDialect() if isinstance(unit.session.engine, MariaEngine) else PostgresDialect()
        dialect.go_on_after(RawSql(unit.session.engine), Counters(0, reached))


def test_a_unit_sees_its_own_rows_of_the_ledger(store: Store) -> None:
    send(store, b"x")
    with store.unit() as unit:
        finished = process_one(unit)
        assert [row.id for row in unit.ledger.rows(0, 10)] == [finished]


def test_a_unit_that_has_written_into_the_ledger_leaves_nothing_behind_for_long(mariadb_url: str) -> None:
    store, other = (NetworkStore(mariadb_url, MariaDatabase(mariadb_url, entries_kept=3), 2) for _ in range(2))
    with closing(store), closing(other):
        with store.unit() as unit:
            unit.create_queue("q", Settings(), NOW)
            unit.send("q", [Draft(b"x")] * 30, NOW)
        with store.unit() as slow:
            process_one(slow)
            speak_up(slow)
            for _ in range(20):
                with other.unit() as unit:
                    process_one(unit)
            assert read_on(other, 0) == []
        assert len(read_on(other, 0)) == 21
        with other.unit(write=False) as unit:
            [(entries,)] = unit.session.engine.rows("SELECT count(*) FROM ledger_writer")
        assert entries <= 8


def test_the_database_ends_a_transaction_that_is_left_open(store: Store) -> None:
    with store.unit() as unit:
        engine = unit.session.engine
        ask = (
            "@@idle_transaction_timeout" if isinstance(engine, MariaEngine) else "'idle_in_transaction_session_timeout'"
        )
        shown = engine.rows(f"SELECT {ask}" if ask.startswith("@") else f"SELECT current_setting({ask})")
    assert shown in ([(20,)], [("1min",)])


def test_all_of_one_answer_is_of_one_moment(url: str, store: Store) -> None:
    send(store, b"1", b"2", b"3")
    with opened(url) as other, store.unit(write=False) as unit:
        count = unit.count("q", NOW, 100)
        send(other, b"4")
        with other.unit() as writer:
            process_one(writer)
            claim(writer)
        tally = unit.ledger.tally("q")
        assert (tally.arrived, tally.departed) == (3, 0)
        assert unit.count("q", NOW, 100) == count
        assert len(peek_all(unit, "q")) == 3
    with store.unit(write=False) as unit:
        assert unit.ledger.tally("q").arrived == 4


def test_a_clock_that_is_set_while_a_unit_is_open_changes_nothing(url: str) -> None:
    ahead_ms = 0
    with closing(with_clock(url, lambda: system_clock() + ahead_ms)) as store, store.unit():
        ahead_ms = 3_600_000
        assert abs(store.ahead_ms + 3_600_000) < 60_000


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
async def test_a_clock_that_is_set_between_two_readings_is_read_again(url: str, jump_ms: int) -> None:
    readings = count()

    def clock() -> int:
        return system_clock() + (jump_ms if next(readings) else 0)

    with closing(with_clock(url, clock)) as store:
        broker = LocalBroker(store, clock, asyncio.get_running_loop(), PATIENT)
        created = await result(broker.create_queue("now", Settings()))
        assert abs(created.created_at - system_clock()) < 60_000
