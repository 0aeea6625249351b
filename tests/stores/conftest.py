"""Every store under the same tests, and the verbs without the ceremony of a unit around each."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import Any, TypeGuard

import pytest

from devtools.databases import Databases, database_of
from penstock import limits as bounds
from penstock.errors import FeatureMissing
from penstock.limits import Limits
from penstock.model import (
    Claimed,
    Count,
    Counted,
    Draft,
    Export,
    ExportRef,
    Groups,
    Key,
    LedgerFilter,
    LedgerRow,
    Message,
    Move,
    MoveStatus,
    Outcome,
    PeekAfter,
    Purged,
    Queue,
    Receipt,
    Sent,
    SentOnce,
    Settings,
    Shipment,
    ShipmentRef,
    ShipmentState,
    Tally,
)
from penstock.stores import Store, Unit, open_store, protocol
from penstock.stores.protocol import NOUNS, Messages, Noun, needed
from penstock.stores.sql.engine import RawSql, SqlStore
from penstock.stores.verification.verification import verify


@dataclass(frozen=True)
class Kind:
    """How a new store of a kind is made, and what of that named by `needs` marks it does without.

    `databases` is the fixture with those to make it in.
    """

    url: str
    lacks: frozenset[str] = frozenset()
    databases: str | None = None


KINDS = {
    "memory": Kind("memory://", frozenset({"other processes"})),
    "sqlite": Kind("sqlite:///{folder}/penstock.db"),
    "postgresql": Kind("", frozenset({"numbers given back"}), "postgres_databases"),
    "mariadb": Kind("", frozenset({"numbers given back"}), "mariadb_databases"),
    "mqcore": Kind(
        "mqcore:///{folder}/mqcore",
        frozenset({"dedup", "redrive", "receives", "any name", "numbers", "numbers given back", "totals", *NOUNS}),
    ),
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*things): leave out the stores that lack one of these")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        needs = {thing for mark in metafunc.definition.iter_markers("needs") for thing in mark.args}
        names = [name for name, kind in KINDS.items() if needs.isdisjoint(kind.lacks)]
        metafunc.parametrize("kind", names, indirect=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    return (yield from _left_out_where_nouns_are_missing(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    return (yield from _left_out_where_nouns_are_missing(item))


def _left_out_where_nouns_are_missing(item: pytest.Item) -> Iterator[None]:
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


class Emptied:
    """Databases that are used again by the next test: to make the tables of a store takes longer than most tests."""

    def __init__(self, databases: Databases, number_anew: Callable[[RawSql], object]) -> None:
        self._databases = databases
        self._number_anew = number_anew
        self._at_hand: list[str] = []

    def take(self) -> str:
        return self._at_hand.pop() if self._at_hand else self._databases.new_url()

    def give_back(self, store: SqlStore) -> None:
        try:
            with store.raw() as raw:
                here = "SELECT table_name FROM information_schema.tables WHERE table_schema IN ('penstock', ?)"
                kept = "('store', 'ledger_size')"
                for (table,) in raw.rows(f"{here} AND table_name NOT IN {kept}", [database_of(store.url)]):
                    raw.run(f"DELETE FROM {table}")
                raw.run("UPDATE ledger_size SET through = 0, amount = 0, bytes = 0")
                self._number_anew(raw)
        except Exception:  # a test has left it in disorder
            self.drop(store.url)
        else:
            self._at_hand.append(store.url)

    def drop(self, url: str) -> None:
        self._databases.drop(url)


@pytest.fixture(scope="session")
def postgres_databases(shared_postgres: Databases) -> Emptied:
    def number_anew(raw: RawSql) -> None:
        name = "quote_ident(schemaname) || '.' || quote_ident(sequencename)"
        raw.rows(f"SELECT setval({name}, start_value, false) FROM pg_sequences WHERE last_value IS NOT NULL")

    return Emptied(shared_postgres, number_anew)


@pytest.fixture(scope="session")
def mariadb_databases(shared_mariadb: Databases) -> Emptied:
    def number_anew(raw: RawSql) -> None:
        here = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
        for (table,) in raw.rows(f"{here} AND auto_increment > 1"):
            raw.run(f"ALTER TABLE {table} AUTO_INCREMENT = 1")

    return Emptied(shared_mariadb, number_anew)


@contextmanager
def new_store(
    kind: Kind, folder: Path, limits: Limits, request: pytest.FixtureRequest, may_be_damaged: bool = False
) -> Iterator[Store]:
    databases: Emptied | None = request.getfixturevalue(kind.databases) if kind.databases else None
    url = databases.take() if databases else kind.url.format(folder=folder)
    store = open_store(url, limits=limits)
    yield store
    if databases and not may_be_damaged:
        databases.give_back(store)
    store.close()
    if databases and may_be_damaged:
        databases.drop(url)


@pytest.fixture
def store(kind: Kind, tmp_path: Path, limits: Limits, request: pytest.FixtureRequest) -> Iterator[Store]:
    with new_store(kind, tmp_path, limits, request) as store:
        yield store
        with store.unit(write=False) as unit:
            if unit.ledger is not None:
                check_conservation(unit)
        if kind_has_tables(store):
            assert verify(store.url, print, bodies=True).findings == []


@pytest.fixture
def other_store(kind: Kind, tmp_path: Path, limits: Limits, request: pytest.FixtureRequest) -> Iterator[Store]:
    """A second store of the same kind that has nothing to do with the first."""
    folder = tmp_path / "other"
    folder.mkdir()
    with new_store(kind, folder, limits, request) as store:
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
    """Whatever a test has done: what has arrived is there or has departed, and groups stand in line."""
    for queue in unit.list_queues(0, 1_000).queues:
        tally = unit.ledger.tally(queue.name)
        live = unit.count(queue.name, 0, 100_000).total
        seen = list(peek_all(unit, queue.name))
        assert (tally.arrived, live) == (live + tally.departed, len(seen))
        check_lines(queue, seen)


def kind_has_tables(store: Store) -> TypeGuard[SqlStore]:
    return hasattr(store, "raw")


def peek_all(unit: Unit, queue: str) -> Iterator[Message]:
    page = messages_of(unit).peek(queue, 10_000)
    while page:
        yield from page
        page = messages_of(unit).peek(queue, 10_000, PeekAfter(page[-1].ready_at, page[-1].seq))


def check_lines(queue: Queue, messages: Sequence[Message]) -> None:
    """Of a group, the first has an instant or is ready; the others have their own claim, or wait behind it."""
    lines: defaultdict[str, list[Message]] = defaultdict(list)
    for message in sorted(messages, key=lambda message: message.seq):
        if message.group is not None and queue.settings.groups is Groups.FIFO:
            lines[message.group].append(message)
        else:
            assert message.ready_at != bounds.BEHIND, message
    for first, *others in lines.values():
        assert first.ready_at != bounds.BEHIND, first
        assert all(other.ready_at != 0 for other in others), [first, *others]


def receipt(message: Message | Receipt) -> Receipt:
    return message if isinstance(message, Receipt) else Receipt(message.id, message.claim, message.queue)


# What a test need not say, by the name of the parameter.
USUAL: dict[str, object] = {
    "queue": "q",
    "consumer": None,
    "move_id": "m",
    "name": "k",
    "after": 0,
    "start": 0,
    "limit": 1_000,
    "hold_ms": 60_000,
    "rows": 1_000,
}
_CHANGES_NOTHING = {"find", "latest", "list", "scan", "unfinished", "read"}


class NounVerbs:
    """The verbs of one noun, each in a unit of its own: `verbs.moves.step(limit=2)`.

    `now` is the time of the test. What else a call does not say is as `USUAL`; a parameter that has to be said comes
    before one that need not, and `queue` is given by its name. A shipment or an export is told by its number, 1 unless
    the test says otherwise, and that of the consumer "c".
    """

    def __init__(self, verbs: Verbs, noun: Noun) -> None:
        self._verbs = verbs
        self._noun = noun

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(*args: object, **given: Any) -> Any:
            with self._verbs.unit(write=verb not in _CHANGES_NOTHING) as unit:
                method = getattr(needed(getattr(unit, self._noun), self._noun), verb)
                return method(**self._filled(self._parameters(verb), args, given))

        return call

    def _parameters(self, verb: str) -> list[Parameter]:
        """As the contract has them: compiled methods do not tell."""
        contract = getattr(protocol, self._noun.capitalize())
        return [*inspect.signature(getattr(contract, verb)).parameters.values()][1:]

    def _filled(self, parameters: list[Parameter], args: Sequence[object], given: dict[str, Any]) -> dict[str, Any]:
        names = [one.name for one in parameters if one.name not in ("now", "queue")]
        usual = [name for name in names if name in USUAL]
        optional = {one.name for one in parameters if one.default is not Parameter.empty}
        order = sorted(names, key=lambda name: (name in optional, name in usual))
        filled = {**dict(zip(order, args, strict=False)), **given}
        if "ref" in names:
            number = filled.pop("ref", None) or filled.pop("number", 1)
            whose = {"consumer": filled.pop("consumer", "c"), "number": number}
            ref = ExportRef(**whose) if self._noun == "exports" else ShipmentRef(filled.pop("queue", "q"), **whose)
            filled["ref"] = ref
        wanted = {name: value for name, value in USUAL.items() if name in {one.name for one in parameters}}
        times = {"now": self._verbs.now} if any(one.name == "now" for one in parameters) else {}
        return {**wanted, **times, **filled}


class Verbs:
    """Each verb in a unit of its own, on the queue "q" unless told otherwise, when the test says it is.

    `stirred` is that of the last unit that could write.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now = 1_000_000
        self.stirred: set[str] = set()
        self.messages = NounVerbs(self, "messages")
        self.ledger = NounVerbs(self, "ledger")
        self.moves = NounVerbs(self, "moves")
        self.shipments = NounVerbs(self, "shipments")
        self.leases = NounVerbs(self, "leases")
        self.exports = NounVerbs(self, "exports")
        self.keys = NounVerbs(self, "keys")
        self.actions = NounVerbs(self, "actions")

    @contextmanager
    def unit(self, write: bool = True) -> Iterator[Unit]:
        with self.store.unit(write) as unit:
            yield unit
            if write:
                self.stirred = set(unit.stirred)

    def create(self, name: str = "q", **settings: Any) -> Queue:
        with self.unit() as unit:
            return unit.create_queue(name, Settings(**settings), self.now)

    def update(self, name: str = "q", **settings: Any) -> Queue:
        with self.unit() as unit:
            return unit.update_queue(name, Settings(**settings), self.now)

    def delete(self, name: str = "q") -> Queue:
        with self.unit() as unit:
            return unit.delete_queue(name, self.now)

    def find(self, name: str = "q") -> Queue | None:
        with self.unit(write=False) as unit:
            return unit.find_queue(name)

    def names(self, offset: int = 0, limit: int = 100) -> list[str]:
        with self.unit(write=False) as unit:
            return [queue.name for queue in unit.list_queues(offset, limit).queues]

    def page(self, prefix: str = "", after: str = "", limit: int = 100) -> list[str]:
        """The names of queues, by name."""
        with self.unit(write=False) as unit:
            return [queue.name for queue in unit.page_queues(prefix, after, limit)]

    def sources(self, queue: str, after: str = "", limit: int = 100) -> list[str]:
        """The names of those whose dead letters go to a queue."""
        with self.unit(write=False) as unit:
            return [found.name for found in unit.dead_letter_sources(queue, after, limit)]

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

    def claim_once(self, attempt: str, limit: int = 100, hold_ms: int | None = None, queue: str = "q") -> list[Message]:
        with self.unit() as unit:
            return messages_of(unit).claim_once(queue, attempt, limit, self.now, hold_ms).messages

    def renew(self, *messages: Message | Receipt, until: int, shorten: bool = False) -> list[bool]:
        with self.unit() as unit:
            return messages_of(unit).renew([receipt(message) for message in messages], self.now, until, shorten)

    def release(self, *messages: Message | Receipt, delay_ms: int | None = 0) -> list[bool]:
        with self.unit() as unit:
            return messages_of(unit).release([receipt(message) for message in messages], self.now, delay_ms)

    def release_all(self, queue: str = "q", limit: int = 1_000) -> int:
        with self.unit() as unit:
            return messages_of(unit).release_all(queue, self.now, limit)

    def last_seq(self) -> int:
        with self.unit(write=False) as unit:
            return messages_of(unit).last_seq()

    def move(
        self, source: str, target: str, limit: int = 1_000, through: int | None = None, claimed: bool = False,
        as_new: bool = False,
    ) -> int:  # fmt: skip
        with self.unit() as unit:
            last = messages_of(unit).last_seq() if through is None else through
            return needed(unit.moves, "moves").move(source, target, self.now, limit, last, claimed, as_new)

    def end_move(self, limit: int = 1_000) -> Move:
        """The move "m" when it is over; time passes where it has to wait."""
        while (move := self.moves.step(limit=limit)).status is MoveStatus.IN_PROGRESS:
            self.now = max(self.now, move.next_at)
        return move

    def locate(self, *messages: Message | Receipt) -> list[str | None]:
        with self.unit(write=False) as unit:
            return messages_of(unit).locate([receipt(message) for message in messages])

    def send_once(self, key: str, *bodies: bytes, digest: bytes | None = None, to: str = "q") -> SentOnce:
        drafts = [Draft(body) for body in bodies]
        with self.unit() as unit:
            return messages_of(unit).send_once(
                to, key, b"".join(bodies) if digest is None else digest, drafts, self.now
            )

    def purge(self, queue: str = "q", limit: int = 1_000, through: int | None = None) -> int:
        with self.unit() as unit:
            return messages_of(unit).purge(
                queue, self.now, limit, messages_of(unit).last_seq() if through is None else through
            )

    def purge_older(
        self, sent_before: int, queue: str = "q", limit: int = 1_000, through: int | None = None,
        after: PeekAfter | None = None,
    ) -> Purged:  # fmt: skip
        with self.unit() as unit:
            seq = messages_of(unit).last_seq() if through is None else through
            return messages_of(unit).purge_older(queue, self.now, limit, seq, sent_before, after)

    def peek(self, queue: str = "q", limit: int = 10_000, after: PeekAfter | None = None) -> list[Message]:
        with self.unit(write=False) as unit:
            return messages_of(unit).peek(queue, limit, after)

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

    def sweep(
        self, limit: int = 1_000, ledger_before: int = 0, actions_before: int = 0, ledger_bytes: int | None = None
    ) -> int:
        with self.unit() as unit:
            return unit.sweep(self.now, limit, ledger_before, actions_before, ledger_bytes)

    def ship(
        self, number: int = 1, limit: int = 100, consumer: str = "c", queue: str = "q", max_bytes: int | None = None
    ) -> Shipment:
        """A shipment that has come to the end of its claim."""
        asked = {"consumer": consumer, "queue": queue, "max_bytes": max_bytes}
        shipment = self.shipments.claim(number, limit, **asked)
        while shipment is not None and shipment.state is ShipmentState.GATHERING:
            shipment = self.shipments.claim(number, limit, **asked)
        assert shipment is not None
        return shipment

    def shipped(self, number: int = 1, consumer: str = "c") -> list[bytes]:
        """The bodies of what a shipment holds."""
        return [message.body for message in self.shipments.read(number, consumer=consumer)]

    def claim_export(self, number: int = 1, limit: int = 100, consumer: str = "c") -> Export | None:
        """An export whose rows have been counted."""
        export = self.exports.claim(number, limit, consumer=consumer)
        while isinstance(export, Counted):
            export = self.exports.claim(number, limit, consumer=consumer, counted=export)
        return export

    def create_key(self, name: str = "k", digest: bytes = b"d" * 32, rules: tuple[str, ...] = ("queue|*|*",)) -> Key:
        key = Key(name, digest, rules, self.now)
        self.keys.create(key)
        return key

    def rows(self, after: int = 0, limit: int = 10_000, **wanted: Any) -> list[LedgerRow]:
        """The ledger."""
        with self.unit(write=False) as unit:
            return needed(unit.ledger, "ledger").rows(after, limit, LedgerFilter(**wanted) if wanted else None)

    def outcomes(self, queue: str = "q") -> list[Outcome]:
        return [row.outcome for row in self.rows() if row.queue == queue]

    def tally(self, queue: str = "q") -> Tally:
        with self.unit(write=False) as unit:
            return needed(unit.ledger, "ledger").tally(queue)


def messages_of(unit: Unit) -> Messages:
    return needed(unit.messages, "messages")
