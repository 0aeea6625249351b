"""Several servers on one database, at the same few groups at once: each line is handed out in its order, and none of
its messages is left behind."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from penstock.errors import StoreBusy
from penstock.model import Draft, Groups, Message, Receipt, Settings
from penstock.stores import Store, Unit, open_store
from tests.stores.conftest import check_conservation

NOW = 1_000_000
# Longer than any run: no claim runs out.
HOLD_MS = 3_600_000
GROUPS = ("a", "b", "c")
SENDERS, CLAIMERS, EACH = 2, 3, 60
NAP_S = 0.001
T = TypeVar("T")


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/penstock.db"
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(opened(url)) as store:
        with store.unit() as unit:
            unit.create_queue("q", Settings(groups=Groups.FIFO), NOW)
        yield store
        with store.unit(write=False) as unit:
            check_conservation(unit)


def opened(url: str) -> Store:
    """As a server of its own."""
    return open_store(url, patience_ms=60_000) if url.startswith("sqlite") else open_store(url)


def persistently(store: Store, work: Callable[[Unit], T]) -> T:
    """What it returns. A unit that met another is begun again; any other error is one."""
    while True:
        try:
            with store.unit() as unit:
                return work(unit)
        except StoreBusy:
            continue


class Books:
    """What a crowd has done, kept under one lock. `held` says who holds messages of a group: always one at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.held: dict[str, int] = {}
        self.finished: defaultdict[str, list[int]] = defaultdict(list)
        self.sent = 0
        self.senders = SENDERS
        # Claimers between the beginning of a claim and the end of what they do with it, and how often one came to that.
        self.at_work = 0
        self.turns = 0
        self.trouble: list[str] = []

    def send(self, count: int) -> None:
        with self._lock:
            self.sent += count

    def end_sending(self) -> None:
        with self._lock:
            self.senders -= 1

    def begin(self) -> int | None:
        """Before a claim. Where no other is at it, and no one sends any more, which turn it is."""
        with self._lock:
            self.at_work += 1
            return self.turns if self.at_work == 1 and not self.senders else None

    def end(self, begun: int | None, found: bool) -> None:
        """Of a claim that was alone, and found nothing although something was there, all must be told."""
        with self._lock:
            if not found and begun == self.turns and self.at_work == 1 and self._left():
                self.trouble.append("no one holds anything, and still nothing can be claimed")
            self.at_work -= 1
            self.turns += found

    def take(self, claimer: int, messages: list[Message]) -> None:
        with self._lock:
            for group in {message.group or "" for message in messages}:
                seqs = [message.seq for message in messages if message.group == group]
                if group in self.held:
                    self.trouble.append(f"{group} is in the hands of {self.held[group]} and {claimer}")
                if seqs != sorted(seqs) or (self.finished[group] and self.finished[group][-1] >= seqs[0]):
                    self.trouble.append(f"{group} out of order: {self.finished[group][-3:]}, then {seqs}")
                self.held[group] = claimer

    def give(self, messages: list[Message], done: list[Message]) -> None:
        """Before the unit that acks what is done and gives back the rest."""
        with self._lock:
            for message in done:
                self.finished[message.group or ""].append(message.seq)
            for group in {message.group or "" for message in messages}:
                del self.held[group]

    def is_over(self) -> bool:
        with self._lock:
            return bool(self.trouble) or (not self.senders and not self._left())

    def _left(self) -> int:
        return self.sent - sum(map(len, self.finished.values()))

    def complain(self, trouble: str) -> None:
        with self._lock:
            self.trouble.append(trouble)


def run_sender(url: str, number: int, books: Books) -> None:
    random = Random(number)
    with closing(opened(url)) as store:
        left = EACH
        while left and not books.trouble:
            batch = [Draft(b"x", group=random.choice(GROUPS)) for _ in range(min(left, random.randrange(1, 4)))]
            persistently(store, lambda unit, batch=batch: unit.send("q", batch, NOW))  # type: ignore[misc]
            books.send(len(batch))
            left -= len(batch)
    books.end_sending()


def run_claimer(url: str, number: int, books: Books) -> None:
    random = Random(100 + number)
    with closing(opened(url)) as store:
        while not books.is_over():
            begun = books.begin()
            limit = random.randrange(1, 6)
            messages = persistently(store, lambda unit, limit=limit: unit.claim("q", limit, NOW, HOLD_MS).messages)  # type: ignore[misc]
            if messages:
                books.take(number, messages)
                finish_some(store, messages, random, books)
            books.end(begun, bool(messages))
            if not messages:
                threading.Event().wait(NAP_S)


def finish_some(store: Store, messages: list[Message], random: Random, books: Books) -> None:
    """The first of them are done, the others go back into their lines."""
    done = messages[: random.randrange(len(messages) + 1)]
    back = messages[len(done) :]
    books.give(messages, done)

    def end(unit: Unit) -> None:
        if not all(unit.ack([Receipt(one.id, one.claim, "q") for one in done], NOW)):
            books.complain("an ack of what was held was refused")
        if not all(unit.messages.release([Receipt(one.id, one.claim) for one in back], NOW, 0)):
            books.complain("a release of what was held was refused")

    persistently(store, end)


@pytest.mark.timeout(600)
def test_a_crowd_at_the_same_groups(url: str, store: Store) -> None:
    books = Books()
    with ThreadPoolExecutor(SENDERS + CLAIMERS) as pool:
        work = [pool.submit(run_sender, url, number, books) for number in range(SENDERS)]
        work += [pool.submit(run_claimer, url, number, books) for number in range(CLAIMERS)]
        try:
            for one in work:
                one.result()
        except BaseException as error:
            books.complain(f"failed: {error!r}")
            raise
    assert books.trouble == []
    assert sum(map(len, books.finished.values())) == SENDERS * EACH
    for seqs in books.finished.values():
        assert seqs == sorted(seqs)
    with store.unit(write=False) as unit:
        assert unit.messages.peek("q", 10) == []


# Two units at once, in either order


def overlapping(url: str, store: Store, first: Callable[[Unit], object], second: Callable[[Unit], object]) -> None:
    """The second unit begins, on another server, while the first is open: it may have to wait for its end."""
    begun = threading.Event()

    def work(other: Store) -> None:
        begun.set()
        persistently(other, second)

    with closing(opened(url)) as other, ThreadPoolExecutor(1) as pool:
        with store.unit() as unit:
            first(unit)
            unit.count("q", NOW, 10)  # a unit may keep back what it has to say until it asks for something
            working = pool.submit(work, other)
            assert begun.wait(60)
            threading.Event().wait(0.05)  # most likely it waits by then, or is done
        working.result()


def put(*groups: str) -> Callable[[Unit], object]:
    return lambda unit: unit.send("q", [Draft(b"x", group=group) for group in groups], NOW)


def taken(store: Store, limit: int = 100) -> list[Message]:
    return persistently(store, lambda unit: unit.claim("q", limit, NOW, HOLD_MS).messages)


def finishing(messages: list[Message], named: bool) -> Callable[[Unit], object]:
    receipts = [Receipt(one.id, one.claim, "q" if named else None) for one in messages]
    return lambda unit: unit.ack(receipts, NOW)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("sends_first", [True, False])
def test_a_send_and_the_ack_of_the_only_one_do_not_miss_each_other(
    url: str, store: Store, sends_first: bool, named: bool
) -> None:
    persistently(store, put("a"))
    ack = finishing(taken(store), named)
    overlapping(url, store, *((put("a"), ack) if sends_first else (ack, put("a"))))
    assert len(taken(store)) == 1


@pytest.mark.parametrize("sends_first", [True, False])
def test_a_send_and_the_release_of_the_only_one(url: str, store: Store, sends_first: bool) -> None:
    persistently(store, put("a"))
    [head] = taken(store)

    def release(unit: Unit) -> object:
        return unit.messages.release([Receipt(head.id, head.claim)], NOW, 0)

    overlapping(url, store, *((put("a"), release) if sends_first else (release, put("a"))))
    assert [message.claim for message in taken(store)] == [2, 1]


@pytest.mark.parametrize("sends_first", [True, False])
def test_a_send_and_a_purge(url: str, store: Store, sends_first: bool) -> None:
    persistently(store, put("a", "a"))
    with store.unit(write=False) as unit:
        through = unit.messages.last_seq()

    def purge(unit: Unit) -> object:
        return unit.messages.purge("q", NOW, 10, through)

    overlapping(url, store, *((put("a"), purge) if sends_first else (purge, put("a"))))
    assert len(taken(store)) == 1


def test_two_sends_into_an_empty_line(url: str, store: Store) -> None:
    overlapping(url, store, put("a", "a"), put("a"))
    [first] = taken(store, 1)
    assert taken(store) == []
    persistently(store, finishing([first], True))
    rest = taken(store)
    assert [message.seq for message in rest] == sorted(message.seq for message in rest)
    assert len(rest) == 2


def test_two_claims_of_one_line(url: str, store: Store) -> None:
    """What one has taken, up to where, keeps the other from what is behind."""
    persistently(store, put("a", "a", "a"))
    found: list[list[Message]] = []
    overlapping(
        url,
        store,
        lambda unit: found.append(unit.claim("q", 1, NOW, HOLD_MS).messages),
        lambda unit: found.append(unit.claim("q", 5, NOW, HOLD_MS).messages),
    )
    assert [len(messages) for messages in found] == [1, 0]


def test_a_claim_that_is_lost_leaves_the_line_as_it_was(url: str, store: Store) -> None:
    persistently(store, put("a", "a"))

    def lose() -> None:
        with store.unit() as unit:
            unit.claim("q", 1, NOW, HOLD_MS)
            raise KeyError

    with pytest.raises(KeyError):
        lose()
    assert len(taken(store)) == 2


@pytest.mark.parametrize("moves_first", [True, False])
def test_a_send_and_a_move_into_an_empty_line(url: str, store: Store, moves_first: bool) -> None:
    with store.unit() as unit:
        unit.create_queue("p", Settings(groups=Groups.FIFO), NOW)
        unit.send("p", [Draft(b"older", group="a")], NOW)
        through = unit.messages.last_seq()

    def move(unit: Unit) -> object:
        return unit.moves.move("p", "q", NOW, 10, through)

    overlapping(url, store, *((move, put("a")) if moves_first else (put("a"), move)))
    assert [message.body for message in taken(store)] == [b"older", b"x"]


def test_moves_there_and_back_at_once(url: str, store: Store) -> None:
    """They lock the two queues in one order."""
    with store.unit() as unit:
        unit.create_queue("p", Settings(groups=Groups.FIFO), NOW)
        unit.send("p", [Draft(b"%d" % number, group="a") for number in range(20)], NOW)
        unit.send("q", [Draft(b"%d" % number, group="a") for number in range(20)], NOW)

    def shift(here: str, there: str, seed: int) -> None:
        random = Random(seed)
        with closing(opened(url)) as other:
            for _ in range(15):
                limit = random.randrange(1, 5)
                persistently(
                    other,
                    lambda unit, limit=limit: unit.moves.move(  # type: ignore[misc]
                        here, there, NOW, limit, unit.messages.last_seq()
                    ),
                )

    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(shift, "p", "q", 1), pool.submit(shift, "q", "p", 2)]:
            one.result()
    left = 0
    for queue in ("p", "q"):
        messages = persistently(store, lambda unit, queue=queue: unit.claim(queue, 100, NOW, HOLD_MS).messages)  # type: ignore[misc]
        assert [message.seq for message in messages] == sorted(message.seq for message in messages)
        left += len(messages)
    assert left == 40
