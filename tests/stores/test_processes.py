"""Real processes that race for one SQLite file: the store is shared, and none of them has it alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, contextmanager, suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from penstock.clock import system_clock
from penstock.errors import QueueExists
from penstock.model import Dedup, Draft, Receipt, Sent, Settings
from penstock.stores import Store, open_store

SENDERS, CLAIMERS = 2, 4
EACH = 1_200
KEYS = 150
FILES = 25
NAP_S = 0.001

# Longer than any run: no claim runs out, so whatever comes twice was handed out twice.
HOLD_MS = 3_600_000

# The race takes its time where other tests keep the machine busy.
pytestmark = pytest.mark.timeout(600)

processes = multiprocessing.get_context("spawn")


def join(barrier: Barrier) -> None:
    """Runs first in each process."""
    global start
    start = barrier


def open_together(path: Path) -> Store:
    """All processes open files that none of them has made yet, and all try to create the queues."""
    for number in range(FILES):
        start.wait()
        open_store(f"sqlite:///{path}.{number}", patience_ms=60_000).close()
    start.wait()
    store = open_store(f"sqlite:///{path}", patience_ms=60_000)
    for name, settings in (("q", Settings()), ("once", Settings(dedup=Dedup.SEND))):
        with suppress(QueueExists), store.unit() as unit:
            unit.create_queue(name, settings, system_clock())
    return store


@contextmanager
def part_of_the_race() -> Iterator[None]:
    """A process that fails calls the race off: else the others would wait for its messages forever."""
    try:
        yield
    except BaseException:
        start.abort()
        raise


def run_sender(path: Path, sender: int) -> list[Sent]:
    """Numbered messages in batches of many sizes; between them, the same keys as every other sender."""
    twins: list[Sent] = []
    with part_of_the_race(), closing(open_together(path)) as store:
        numbers = list(range(EACH))
        size = 1
        while numbers:
            batch, numbers = numbers[:size], numbers[size:]
            size = size % 17 + 1
            with store.unit() as unit:
                unit.send("q", [Draft(b"%d %d" % (sender, number)) for number in batch], system_clock())
                keys = range(len(twins), min(len(twins) + 2, KEYS))
                twins += unit.send("once", [Draft(b"%d" % key) for key in keys], system_clock())
    return twins


def run_claimer(path: Path) -> list[tuple[int, int, int, int, bool]]:
    """(sender, number, seq, claim, whether it was released) of every delivery, in the order they came."""
    deliveries = []
    with part_of_the_race(), closing(open_together(path)) as store:
        while not start.broken:
            with store.unit() as unit:
                messages = unit.claim("q", 7, system_clock(), HOLD_MS).messages
            if not messages:
                with store.unit(write=False) as unit:
                    if unit.ledger.tally("q").departed == SENDERS * EACH:
                        break
                time.sleep(NAP_S)
                continue
            # Every tenth message goes back once, for anybody to take.
            again = {message.id for message in messages if message.seq % 10 == 0 and message.receives == 1}
            done = [Receipt(message.id, message.claim) for message in messages if message.id not in again]
            back = [Receipt(message.id, message.claim) for message in messages if message.id in again]
            with store.unit() as unit:
                assert all(unit.ack(done, system_clock()))
                assert all(unit.messages.release(back, system_clock()))
            for message in messages:
                sender, number = map(int, message.body.split())
                deliveries.append((sender, number, message.seq, message.claim, message.id in again))
    return deliveries


@pytest.fixture(scope="module")
def race(tmp_path_factory) -> Iterator[tuple[Path, list[list[Sent]], list[list[tuple[int, int, int, int, bool]]]]]:
    path = tmp_path_factory.mktemp("race") / "penstock.db"
    workers = SENDERS + CLAIMERS
    barrier = processes.Barrier(workers)
    with ProcessPoolExecutor(workers, mp_context=processes, initializer=join, initargs=(barrier,)) as pool:
        claimers: list[Future] = [pool.submit(run_claimer, path) for _ in range(CLAIMERS)]
        senders: list[Future] = [pool.submit(run_sender, path, sender) for sender in range(SENDERS)]
        yield path, [sender.result() for sender in senders], [claimer.result() for claimer in claimers]


def test_every_message_is_processed_exactly_once(race):
    _, _, claimers = race
    processed = Counter(
        (sender, number) for claimer in claimers for sender, number, _, _, was_released in claimer if not was_released
    )
    assert processed == Counter((sender, number) for sender in range(SENDERS) for number in range(EACH))


def test_no_claim_is_given_to_two(race):
    _, _, claimers = race
    claims = Counter((seq, claim) for claimer in claimers for _, _, seq, claim, _ in claimer)
    assert set(claims.values()) == {1}
    released = {seq for claimer in claimers for _, _, seq, _, was_released in claimer if was_released}
    assert released
    for seq, claim in claims:
        assert claim <= (2 if seq in released else 1)


def test_each_claimer_sees_the_messages_of_each_sender_in_order(race):
    _, _, claimers = race
    for claimer in claimers:
        for sender in range(SENDERS):
            numbers = [number for sent_by, number, _, claim, _ in claimer if (sent_by, claim) == (sender, 1)]
            assert numbers == sorted(numbers)


def test_twins_sent_by_different_processes_are_stored_once(race):
    path, senders, _ = race
    for twins in zip(*senders, strict=True):
        assert len({twin.id for twin in twins}) == 1
        assert [twin.stored for twin in twins].count(True) == 1
    with closing(open_store(f"sqlite:///{path}")) as store, store.unit(write=False) as unit:
        assert [message.body for message in unit.messages.peek("once", 1_000)] == [b"%d" % key for key in range(KEYS)]


def test_nothing_was_lost_and_nothing_counted_twice(race):
    path, _, _ = race
    with closing(open_store(f"sqlite:///{path}")) as store, store.unit(write=False) as unit:
        tally = unit.ledger.tally("q")
        assert (tally.arrived, tally.departed) == (SENDERS * EACH, SENDERS * EACH)
        rows = unit.ledger.rows(0, 10_000)
        assert len({row.id for row in rows}) == len(rows) == SENDERS * EACH
        assert unit.messages.last_seq() == SENDERS * EACH + KEYS


def hold_a_unit(path: Path, held: Barrier) -> None:
    store = open_store(f"sqlite:///{path}")
    with store.unit() as unit:
        unit.send("q", [Draft(b"lost")], 1)
        unit.claim("q", 10, 1, None)
        held.wait()
        signal.pause()


def test_a_process_that_is_killed_inside_a_unit_leaves_nothing_of_it_and_holds_nothing_up(tmp_path):
    path = tmp_path / "penstock.db"
    with closing(open_store(f"sqlite:///{path}", patience_ms=60_000)) as store:
        with store.unit() as unit:
            unit.create_queue("q", Settings(), 1)
            unit.send("q", [Draft(b"kept")], 1)
        held = processes.Barrier(2)
        process = processes.Process(target=hold_a_unit, args=(path, held))
        process.start()
        held.wait()
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with store.unit() as unit:
            assert [(message.body, message.receives) for message in unit.messages.peek("q", 10)] == [(b"kept", 0)]
            unit.send("q", [Draft(b"after")], 1)
        assert not store.changed_elsewhere()
