"""Every store under the same tests, and the verbs without the ceremony of a unit around each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import FeatureMissing
from penstock.model import (
    WHOLE,
    Claimed,
    Count,
    Counted,
    Draft,
    Export,
    Key,
    LedgerFilter,
    LedgerRow,
    Message,
    Move,
    MoveTerms,
    Outcome,
    PeekAfter,
    Purged,
    Queue,
    Receipt,
    Sent,
    SentOnce,
    Settings,
    Shipment,
    ShipmentState,
    Tally,
)
from penstock.stores import Store, Unit, open_store
from penstock.stores.features import Feature


@dataclass(frozen=True)
class Kind:
    """How a new store of a kind is made, and which of the verbs and features in `needs` marks it does without.

    `server` is the fixture with the databases to make it in.
    """

    url: str
    lacks: frozenset[str] = frozenset()
    server: str | None = None


KINDS = {
    "memory": Kind("memory://"),
    "sqlite": Kind("sqlite:///{folder}/penstock.db"),
    "postgresql": Kind("", frozenset({"numbers given back"}), "shared_postgres"),
    "mariadb": Kind("", frozenset({"numbers given back"}), "shared_mariadb"),
    "mqcore": Kind(
        "mqcore:///{folder}/mqcore",
        frozenset({"dedup", "keys", "move", "redrive", "receives", "any name", "numbers", "numbers given back"}),
    ),
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*features): leave out the stores that lack one of these")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        needs = {feature for mark in metafunc.definition.iter_markers("needs") for feature in mark.args}
        names = [name for name, kind in KINDS.items() if needs.isdisjoint(kind.lacks)]
        metafunc.parametrize("kind", names, indirect=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    return (yield from _left_out_where_features_are_missing(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    return (yield from _left_out_where_features_are_missing(item))


def _left_out_where_features_are_missing(item: pytest.Item) -> Iterator[None]:
    """A store that does not keep what a test needs says so. Only the one that keeps less than the others may."""
    try:
        return (yield)
    except FeatureMissing as lack:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        if params.get("kind") != "mqcore":
            raise
        pytest.skip(str(lack))


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@contextmanager
def new_store(kind: Kind, folder: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    databases = request.getfixturevalue(kind.server) if kind.server else None
    url = databases.new_url() if databases else kind.url.format(folder=folder)
    store = open_store(url)
    yield store
    store.close()
    if databases:
        databases.drop(url)


@pytest.fixture
def store(kind: Kind, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    with new_store(kind, tmp_path, request) as store:
        yield store
        if Feature.LEDGER in store.features:
            with store.unit(write=False) as unit:
                check_conservation(unit)


@pytest.fixture
def other_store(kind: Kind, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    """A second store of the same kind that has nothing to do with the first."""
    folder = tmp_path / "other"
    folder.mkdir()
    with new_store(kind, folder, request) as store:
        yield store


@pytest.fixture
def verbs(store: Store) -> Verbs:
    return Verbs(store)


@pytest.fixture
def three(verbs: Verbs) -> Verbs:
    """Three messages are ready in "q"."""
    verbs.create()
    verbs.send(b"a", b"bb", b"ccc")
    return verbs


def check_conservation(unit: Unit) -> None:
    """Whatever a test has done: what has arrived is there or has departed."""
    for queue in unit.list_queues(0, 1_000).queues:
        tally = unit.tally(queue.name)
        live = unit.count(queue.name, 0, 100_000).total
        seen = 0
        page = unit.peek(queue.name, 10_000)
        while page:
            seen += len(page)
            page = unit.peek(queue.name, 10_000, PeekAfter(page[-1].ready_at, page[-1].seq))
        assert (tally.arrived, live) == (live + tally.departed, seen)


def receipt(message: Message | Receipt) -> Receipt:
    return message if isinstance(message, Receipt) else Receipt(message.id, message.claim, message.queue)


class Verbs:
    """Each verb in a unit of its own, on the queue "q" unless told otherwise, when the test says it is.

    `stirred` is that of the last unit that could write.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now = 1_000_000
        self.stirred: set[str] = set()

    @contextmanager
    def unit(self, write: bool = True) -> Iterator[Unit]:
        with self.store.unit(write) as unit:
            yield unit
            if write:
                self.stirred = unit.stirred

    def create(self, name: str = "q", **settings: Any) -> Queue:
        with self.unit() as unit:
            return unit.create_queue(name, Settings(**settings), self.now)

    def update(self, name: str = "q", **settings: Any) -> Queue:
        with self.unit() as unit:
            return unit.update_queue(name, Settings(**settings))

    def delete(self, name: str = "q") -> Queue:
        with self.unit() as unit:
            return unit.delete_queue(name, self.now)

    def find(self, name: str = "q") -> Queue | None:
        with self.unit(write=False) as unit:
            return unit.find_queue(name)

    def names(self, offset: int = 0, limit: int = 100) -> list[str]:
        with self.unit(write=False) as unit:
            return [queue.name for queue in unit.list_queues(offset, limit).queues]

    def send(self, *drafts: Draft | bytes, to: str = "q") -> list[Sent]:
        made = [Draft(draft) if isinstance(draft, bytes) else draft for draft in drafts]
        with self.unit() as unit:
            return unit.send(to, made, self.now)

    def claim(self, limit: int = 100, hold_ms: int | None = None, queue: str = "q") -> list[Message]:
        return self.claimed(limit, hold_ms, queue).messages

    def claimed(self, limit: int = 100, hold_ms: int | None = None, queue: str = "q") -> Claimed:
        with self.unit() as unit:
            return unit.claim(queue, limit, self.now, hold_ms)

    def bodies(self, limit: int = 100, hold_ms: int | None = None, queue: str = "q") -> list[bytes]:
        """The bodies of what a claim hands out."""
        return [message.body for message in self.claim(limit, hold_ms, queue)]

    def ack(self, *messages: Message | Receipt) -> list[bool]:
        with self.unit() as unit:
            return unit.ack([receipt(message) for message in messages], self.now)

    def renew(self, *messages: Message | Receipt, until: int, shorten: bool = False) -> list[bool]:
        with self.unit() as unit:
            return unit.renew([receipt(message) for message in messages], self.now, until, shorten)

    def release(self, *messages: Message | Receipt, delay_ms: int | None = 0) -> list[bool]:
        with self.unit() as unit:
            return unit.release([receipt(message) for message in messages], self.now, delay_ms)

    def release_all(self, queue: str = "q", limit: int = 1_000) -> int:
        with self.unit() as unit:
            return unit.release_all(queue, self.now, limit)

    def last_seq(self) -> int:
        with self.unit(write=False) as unit:
            return unit.last_seq()

    def move(
        self, source: str, target: str, limit: int = 1_000, through: int | None = None, claimed: bool = False
    ) -> int:
        with self.unit() as unit:
            return unit.move(source, target, self.now, limit, unit.last_seq() if through is None else through, claimed)

    def locate(self, *messages: Message | Receipt) -> list[str | None]:
        with self.unit(write=False) as unit:
            return unit.locate([receipt(message) for message in messages])

    def start_move(
        self, source: str, target: str | None, move_id: str = "m", claimed: bool = False, terms: MoveTerms = WHOLE
    ) -> Move:
        with self.unit() as unit:
            return unit.start_move(move_id, source, target, self.now, claimed, terms)

    def cancel_move(self, move_id: str = "m") -> Move:
        with self.unit() as unit:
            return unit.cancel_move(move_id, self.now)

    def list_moves(self, limit: int = 100) -> list[Move]:
        with self.unit(write=False) as unit:
            return unit.list_moves(limit)

    def step_move(self, limit: int = 1_000, move_id: str = "m") -> Move:
        with self.unit() as unit:
            return unit.step_move(move_id, self.now, limit)

    def find_move(self, move_id: str = "m") -> Move | None:
        with self.unit(write=False) as unit:
            return unit.find_move(move_id)

    def unfinished_moves(self) -> list[str]:
        with self.unit(write=False) as unit:
            return unit.unfinished_moves()

    def claim_shipment(
        self, number: int = 1, limit: int = 100, hold_ms: int = 60_000, consumer: str = "c", queue: str = "q"
    ) -> Shipment | None:
        with self.unit() as unit:
            return unit.claim_shipment(queue, consumer, number, limit, self.now, hold_ms)

    def ship(self, number: int = 1, limit: int = 100, consumer: str = "c", queue: str = "q") -> Shipment:
        """A shipment that has come to the end of its claim."""
        shipment = self.claim_shipment(number, limit, consumer=consumer, queue=queue)
        while shipment is not None and shipment.state is ShipmentState.GATHERING:
            shipment = self.claim_shipment(number, limit, consumer=consumer, queue=queue)
        assert shipment is not None
        return shipment

    def find_shipment(self, number: int = 1, consumer: str = "c", queue: str = "q") -> Shipment | None:
        with self.unit(write=False) as unit:
            return unit.find_shipment(queue, consumer, number)

    def list_shipments(
        self, consumer: str | None = None, after: int = 0, limit: int = 100, queue: str = "q"
    ) -> list[Shipment]:
        with self.unit(write=False) as unit:
            return unit.list_shipments(queue, consumer, after, limit)

    def read_shipment(
        self, number: int = 1, start: int = 0, limit: int = 10_000, consumer: str = "c", queue: str = "q"
    ) -> list[Message]:
        with self.unit(write=False) as unit:
            return unit.read_shipment(queue, consumer, number, start, limit)

    def shipped(self, number: int = 1, consumer: str = "c") -> list[bytes]:
        """The bodies of what a shipment holds."""
        return [message.body for message in self.read_shipment(number, consumer=consumer)]

    def settle_shipment(
        self, number: int = 1, limit: int = 1_000, keep: bool = False, consumer: str = "c", queue: str = "q"
    ) -> int:
        with self.unit() as unit:
            return unit.settle_shipment(queue, consumer, number, self.now, limit, keep)

    def release_shipment(self, number: int = 1, limit: int = 1_000, consumer: str = "c", queue: str = "q") -> int:
        with self.unit() as unit:
            return unit.release_shipment(queue, consumer, number, self.now, limit)

    def beat_shipment(self, number: int = 1, hold_ms: int = 60_000, consumer: str = "c", queue: str = "q") -> Shipment:
        with self.unit() as unit:
            return unit.beat_shipment(queue, consumer, number, self.now, hold_ms)

    def claim_export(self, number: int = 1, limit: int = 100, consumer: str = "c") -> Export | None:
        with self.unit() as unit:
            export = unit.claim_export(consumer, number, limit, self.now)
        while isinstance(export, Counted):
            with self.unit() as unit:
                export = unit.claim_export(consumer, number, limit, self.now, export)
        return export

    def list_exports(self, consumer: str | None = None, after: int = 0, limit: int = 100) -> list[Export]:
        with self.unit(write=False) as unit:
            return unit.list_exports(consumer, after, limit)

    def read_export(self, number: int = 1, after: int = 0, limit: int = 10_000, consumer: str = "c") -> list[LedgerRow]:
        with self.unit(write=False) as unit:
            return unit.read_export(consumer, number, after, limit)

    def settle_export(self, number: int = 1, consumer: str = "c") -> Export:
        with self.unit() as unit:
            return unit.settle_export(consumer, number, self.now)

    def send_once(self, key: str, *bodies: bytes, digest: bytes | None = None, to: str = "q") -> SentOnce:
        drafts = [Draft(body) for body in bodies]
        with self.unit() as unit:
            return unit.send_once(to, key, b"".join(bodies) if digest is None else digest, drafts, self.now)

    def create_key(self, name: str = "k", digest: bytes = b"d", rules: tuple[str, ...] = ("queue|*|*",)) -> Key:
        key = Key(name, digest, rules, self.now)
        with self.unit() as unit:
            unit.create_key(key)
        return key

    def revoke_key(self, name: str = "k") -> None:
        with self.unit() as unit:
            unit.revoke_key(name, self.now)

    def list_keys(self) -> list[Key]:
        with self.unit(write=False) as unit:
            return unit.list_keys()

    def purge(self, queue: str = "q", limit: int = 1_000, through: int | None = None) -> int:
        with self.unit() as unit:
            return unit.purge(queue, self.now, limit, unit.last_seq() if through is None else through)

    def purge_older(
        self, sent_before: int, queue: str = "q", limit: int = 1_000, through: int | None = None,
        after: PeekAfter | None = None,
    ) -> Purged:  # fmt: skip
        with self.unit() as unit:
            seq = unit.last_seq() if through is None else through
            return unit.purge_older(queue, self.now, limit, seq, sent_before, after)

    def peek(self, queue: str = "q", limit: int = 10_000, after: PeekAfter | None = None) -> list[Message]:
        with self.unit(write=False) as unit:
            return unit.peek(queue, limit, after)

    def seen(self, queue: str = "q") -> list[bytes]:
        """The bodies of what a peek shows."""
        return [message.body for message in self.peek(queue)]

    def count(self, queue: str = "q", limit: int = 10_000) -> Count:
        with self.unit(write=False) as unit:
            return unit.count(queue, self.now, limit)

    def counts(self, *queues: str, limit: int = 10_000) -> list[Count]:
        with self.unit(write=False) as unit:
            found = [queue for queue in unit.list_queues(0, 10_000).queues if queue.name in queues]
            return unit.counts(found, self.now, limit)

    def next_due(self, queue: str = "q") -> int | None:
        with self.unit(write=False) as unit:
            return unit.next_due(queue, self.now)

    def sweep(self, limit: int = 1_000, ledger_before: int = 0) -> int:
        with self.unit() as unit:
            return unit.sweep(self.now, limit, ledger_before)

    def ledger(self, after: int = 0, limit: int = 10_000, **wanted: Any) -> list[LedgerRow]:
        with self.unit(write=False) as unit:
            return unit.ledger(after, limit, LedgerFilter(**wanted) if wanted else None)

    def outcomes(self, queue: str = "q") -> list[Outcome]:
        return [row.outcome for row in self.ledger() if row.queue == queue]

    def tally(self, queue: str = "q") -> Tally:
        with self.unit(write=False) as unit:
            return unit.tally(queue)
