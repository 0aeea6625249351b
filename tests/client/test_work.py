"""A worker of the library, in threads and in tasks: what becomes of each message, whatever its handler does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from penstock.client import (
    AsyncClient,
    ClaimedMessage,
    Client,
    Discard,
    QueueNotFound,
    Retry,
    Unavailable,
    Unreachable,
    Worked,
)
from penstock.client.patience import ONCE, Pauses
from penstock.client.work import Plan
from tests.waiting import wait_until


class Stop(threading.Event):
    """Also reaches a worker in tasks, whose event belongs to its loop."""

    tell: Callable[[], object] = staticmethod(lambda: None)

    def set(self) -> None:
        super().set()
        self.tell()


class Running:
    """`work` in a thread of its own, until it is stopped."""

    def __init__(self, client: Client, handle: Callable[[ClaimedMessage], object], **options: object) -> None:
        self.stop = Stop()
        self._ended: list[Worked | BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(client, handle, options))
        self._thread.start()

    def _run(self, client: Client, handle: Callable[[ClaimedMessage], object], options: dict[str, object]) -> None:
        try:
            self._ended.append(client.work("jobs", handle, stop=self.stop, wait_ms=50, **options))
        except BaseException as error:
            self._ended.append(error)

    def join(self) -> Worked:
        self._thread.join()
        [ended] = self._ended
        if isinstance(ended, BaseException):
            raise ended
        return ended

    def finish(self) -> Worked:
        self.stop.set()
        return self.join()


@pytest.fixture
def other(server) -> Iterator[Client]:
    """Another client of the same server, to look on."""
    with Client(server.url) as other:
        other.create_queue("jobs")
        yield other


@pytest.fixture
def run(client, other) -> Iterator[Callable[..., Running]]:
    started = []

    def run(handle: Callable[[ClaimedMessage], object], **options: object) -> Running:
        started.append(Running(client, handle, **options))
        return started[-1]

    yield run
    for running in started:
        running.stop.set()
        with contextlib.suppress(Exception):
            running.join()


def worked_off(client: Client, handle: Callable[[ClaimedMessage], object], **options: object) -> Worked:
    return client.work("jobs", handle, until_empty=True, wait_ms=0, **options)


def test_each_message_is_handled_and_acked(client, other):
    other.send_many("jobs", [{"n": number} for number in range(25)])
    seen = []
    worked = worked_off(client, lambda message: seen.append(message.json["n"]), concurrency=4, limit=10)
    assert sorted(seen) == list(range(25))
    assert worked == Worked(acked=25)
    assert other.queue("jobs").count.total == 0


def test_one_failure_repeats_one_message(client, other, caplog):
    other.send_many("jobs", ["1", "2", "3", "4", "5"])
    seen = []

    def handle(message: ClaimedMessage) -> None:
        seen.append((message.text, message.receives))
        if message.text == "3" and message.receives == 1:
            raise ArithmeticError("cannot do 3")

    worked = worked_off(client, handle, limit=5, backoff_ms=0)
    assert sorted(seen) == [("1", 1), ("2", 1), ("3", 1), ("3", 2), ("4", 1), ("5", 1)]
    assert worked == Worked(acked=5, released=1)
    [told] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "its handler failed" in told.getMessage()
    assert "cannot do 3" in caplog.text


def test_a_message_that_fails_waits_longer_each_time(client, other, server):
    other.send("jobs", "never")

    def fail(_message: ClaimedMessage) -> None:
        raise ArithmeticError

    for delay_ms in (60_000, 120_000, 150_000, 150_000):
        before = server.clock()
        assert worked_off(client, fail, backoff_ms=60_000, longest_backoff_ms=150_000) == Worked(released=1)
        [message] = other.peek("jobs").messages
        assert before + delay_ms <= message.ready_at <= server.clock() + delay_ms
        server.clock.advance(delay_ms / 1000 + 1)


def test_a_handler_may_say_when_to_come_again_and_when_not_to(client, other, server):
    other.send_many("jobs", ["later", "never", "now"])

    def handle(message: ClaimedMessage) -> None:
        if message.text == "later":
            raise Retry("closed until noon", delay_ms=3_600_000)
        if message.text == "never":
            raise Discard("an address that does not exist")

    assert worked_off(client, handle) == Worked(acked=1, discarded=1, released=1)
    [left] = other.peek("jobs").messages
    assert left.text == "later"
    assert left.ready_at > server.clock() + 3_500_000
    assert other.queue("jobs").count.delayed == 1


def test_a_claim_is_renewed_while_its_handler_runs(other, run):
    other.send("jobs", "slow")
    begun, go_on = threading.Event(), threading.Event()

    def handle(_message: ClaimedMessage) -> None:
        begun.set()
        go_on.wait()

    running = run(handle, hold_ms=1_500)
    begun.wait()
    for _ in range(3):
        [before] = other.peek("jobs").messages
        wait_until(lambda before=before: other.peek("jobs").messages[0].ready_at > before.ready_at)
    go_on.set()
    wait_until(lambda: other.queue("jobs").count.total == 0)
    assert running.finish() == Worked(acked=1)


def test_what_another_worker_has_by_now_is_not_called_done(other, run, server, caplog):
    other.send("jobs", "slow")
    begun, go_on = threading.Event(), threading.Event()

    def handle(message: ClaimedMessage) -> None:
        if message.receives == 1:
            begun.set()
            go_on.wait()

    running = run(handle, hold_ms=60_000)
    begun.wait()
    server.clock.advance(61)
    [again] = other.claim("jobs", hold_ms=600_000)
    go_on.set()
    wait_until(lambda: "too late" in caplog.text)
    assert running.finish() == Worked(lost=1)
    assert other.ack("jobs", again) == [True]


def test_a_renewal_that_finds_the_claim_lost_says_so(other, run, server, caplog):
    other.send("jobs", "slow")
    begun, go_on = threading.Event(), threading.Event()

    def handle(_message: ClaimedMessage) -> None:
        begun.set()
        go_on.wait()

    running = run(handle, hold_ms=1_500)
    begun.wait()
    found: list[ClaimedMessage] = []
    while not found:
        # A renewal may come between the two, and hold it again.
        server.clock.advance(2)
        found = other.claim("jobs", hold_ms=600_000)
    wait_until(lambda: "lost the claim" in caplog.text)
    go_on.set()
    wait_until(lambda: "too late" in caplog.text)
    assert running.finish() == Worked(lost=1)
    assert other.queue("jobs").count.claimed == 1


def test_a_stop_gives_back_what_was_not_begun_and_finishes_the_rest(other, run):
    other.send_many("jobs", ["1", "2", "3", "4", "5"])
    begun, go_on = threading.Event(), threading.Event()

    def handle(_message: ClaimedMessage) -> None:
        begun.set()
        go_on.wait()

    running = run(handle, limit=5)
    begun.wait()
    wait_until(lambda: other.queue("jobs").count.claimed == 5)
    running.stop.set()
    wait_until(lambda: other.queue("jobs").count.ready == 4)
    go_on.set()
    assert running.join() == Worked(acked=1, returned=4)
    assert [message.text for message in other.claim("jobs", limit=9)] == ["2", "3", "4", "5"]


def test_a_handler_that_takes_longer_than_the_grace_is_not_waited_for(other, run, connect):
    other.send("jobs", "slow")
    begun, go_on = threading.Event(), threading.Event()

    def handle(_message: ClaimedMessage) -> None:
        begun.set()
        go_on.wait()

    running = run(handle, grace_s=0.05)
    begun.wait()
    worked = running.finish()
    # A task can be cancelled, and its message goes back at once. A thread cannot.
    assert worked == (Worked(unfinished=1) if connect is Client else Worked(returned=1))
    assert other.queue("jobs").count.total == 1
    go_on.set()


def test_an_empty_queue_ends_the_work_that_was_to_empty_it(client, other):
    assert worked_off(client, print) == Worked()


def test_a_queue_that_does_not_exist_is_an_error(client):
    with pytest.raises(QueueNotFound):
        client.work("nope", print)


def test_a_queue_that_is_deleted_ends_the_work(other, run):
    other.send("jobs", "last")
    seen = threading.Event()
    running = run(lambda _message: seen.set())
    seen.wait()
    wait_until(lambda: other.queue("jobs").count.total == 0)
    other.delete_queue("jobs")
    with pytest.raises(QueueNotFound):
        running.join()


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"concurrency": 4, "limit": 3},
        {"limit": 0},
        {"limit": 10_001},
        {"hold_ms": 99},
        {"wait_ms": -1},
        {"backoff_ms": -1},
        {"grace_s": -1},
    ],
)
def test_options_that_make_no_sense_are_refused(client, options):
    with pytest.raises(ValueError, match=r"worker|negative"):
        client.work("jobs", print, **options)


def test_a_server_that_asks_for_patience_gets_it():
    pausing = Pauses(ONCE)
    assert 7 <= pausing.after(Unavailable("busy", 7)) <= 8
    pauses = [pausing.after(Unreachable("away", sent=False)) for _ in range(20)]
    assert pauses[0] < 0.5
    assert 2.5 <= pauses[-1] <= 5


@pytest.mark.parametrize(
    ("concurrency", "limit", "wanted"),
    [
        (1, 1, [1, 0]),
        (3, 3, [3, 2, 1, 0]),
        # Two lie ahead: more is claimed while one of them or none is left.
        (2, 4, [4, 3, 2, 1, 0]),
        (1, 7, [7, 6, 5, 4, 3, 0, 0, 0]),
    ],
)
def test_how_much_is_claimed(concurrency, limit, wanted):
    plan = Plan("jobs", concurrency, limit, 30_000, 0, 0, 0, 0, until_empty=False)
    assert [plan.wanted(held) for held in range(limit + 1)] == wanted


def test_threads_do_not_take_a_coroutine_function(server, other):
    async def handle(_message: ClaimedMessage) -> None:
        pass

    with Client(server.url) as client:
        with pytest.raises(TypeError, match=r"AsyncClient\.work"):
            client.work("jobs", handle)
        other.send("jobs", "hidden")
        assert worked_off(client, lambda _message: Hidden()) == Worked(released=1)


class Hidden:
    """What a partial or a lambda around a coroutine function gives."""

    def __await__(self) -> Iterator[None]:
        yield


def test_an_exit_in_a_handler_ends_the_program(server, other):
    other.send_many("jobs", ["exit", "more"])
    with Client(server.url) as client, pytest.raises(SystemExit):
        client.work("jobs", lambda _message: sys.exit(3), wait_ms=50, backoff_ms=0)
    assert other.queue("jobs").count.ready == 2


def test_the_signals_are_as_they_were_afterwards(server, other):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    within: list[object] = []
    other.send("jobs", "look")
    with Client(server.url) as client:
        worked_off(client, lambda _message: within.append(signal.getsignal(signal.SIGTERM)))
    assert within != [before[0]]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


async def test_a_worker_that_is_cancelled_gives_everything_back(server, other):
    other.send_many("jobs", ["1", "2", "3"])
    begun = asyncio.Event()

    async def handle(_message: ClaimedMessage) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with AsyncClient(server.url) as client:
        working = asyncio.create_task(client.work("jobs", handle, concurrency=2, limit=3, wait_ms=50))
        await begun.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
    count = other.queue("jobs").count
    assert (count.ready, count.claimed) == (3, 0)


def test_a_server_that_is_away_is_waited_for(serve, connect, caplog):
    first = serve()
    with Client(first.url) as other, connect(first.url) as client:
        other.create_queue("jobs", visibility_ms=600_000)
        other.send_many("jobs", ["1", "2", "3"])
        away, back = threading.Event(), threading.Event()
        seen = []

        def handle(message: ClaimedMessage) -> None:
            seen.append(message.text)
            if message.text == "2" and not away.is_set():
                first.kill()
                away.set()
                # Not before the ack has found no server.
                threading.Thread(target=lambda: (wait_until(lambda: "trying until" in caplog.text), back.set())).start()

        caplog.set_level(logging.INFO, "penstock.worker")
        running = Running(client, handle)
        away.wait()
        with pytest.raises(Unreachable):
            other.queue("jobs")
        back.wait()
        with first.kept_port() as port:
            serve(port=port)
        wait_until(lambda: other.queue("jobs").count.total == 0)
        assert running.finish() == Worked(acked=3)
        assert seen == ["1", "2", "3"]
        assert "the server answers again" in caplog.text
