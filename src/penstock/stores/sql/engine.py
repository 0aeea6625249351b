"""What the verbs need of a database: its driver, and the few places where it works otherwise than the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from penstock.model import Sizes
from penstock.stores.protocol import Store
from penstock.stores.sql.statements import Statements

Row = tuple[Any, ...]

# A queue, the latest claims of messages by their numbers, an outcome, and the instant.
FinishClaimed = Callable[[int, Mapping[int, int], int, int], "Later"]

# Of a message that arrives; it has not been received yet.
ARRIVING = (
    "seq",
    "queue",
    "ready_at",
    "sent_at",
    "deadline_at",
    "content_type",
    "attributes",
    "grp",
    "dedup_key",
    "body_hash",
    "body",
)


@dataclass(frozen=True, slots=True)
class Alike:
    """Messages that arrive and differ in nothing but their numbers, which follow each other, and what comes last in
    `ARRIVING`. `shared` is all that lies between. Either each has a key of `KEY_BYTES`, or none."""

    first: int
    shared: Row
    keys: Sequence[bytes] | None
    hashes: Sequence[bytes]
    bodies: Sequence[bytes]


class Later(Protocol):
    """A statement that is executed by the end of the unit, or as soon as its rows are asked for."""

    def rows(self) -> list[Row]: ...


class Executed:
    """A statement that was executed at once."""

    __slots__ = ("_rows",)

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def rows(self) -> list[Row]:
        return self._rows


class Engine(Protocol):
    """One connection with one open transaction. Errors of the driver come out as `penstock.errors`.

    Statements are taken as `statements` has rendered them.
    """

    # A plain attribute of each engine; read-only here.
    @property
    def statements(self) -> Statements: ...

    @property
    def shared(self) -> bool:
        """Whether units of other processes run at the same time as ours. Then a unit has to lock what it reads in order
        to change it."""

    @property
    def finish_claimed(self) -> FinishClaimed | None:
        """Where what a DELETE returns can go into the ledger in the same statement: finish those messages whose latest
        claims are still these, locked or not; its rows are their numbers. None elsewhere."""

    def rows(self, sql: str, params: Sequence[object] = ()) -> list[Row]: ...

    def later(self, sql: str, params: Sequence[object] = ()) -> Later:
        """Execute it before whatever else this unit executes, and together with that where the driver can: a round trip
        is spared. What it has to complain about is raised then, by whatever it travels with."""

    def look_for_due(self, sql: str, queue: int, since: int, now: int, limit: int) -> Later:
        """The same for a statement that looks for messages of a queue whose time has come since one instant and by
        another; mostly there are none. Those are its parameters."""

    def rows_within(self, sql: str, params: Sequence[object], budget: int) -> list[Row]:
        """The first messages, until their bodies come to `budget`: the bodies of the others are never read.

        The statement is `statements.Bounded`.
        """

    def run(self, sql: str, params: Sequence[object] = ()) -> int:
        """Execute, and say how many rows matched."""

    def add(self, sql: str, row: Sequence[object]) -> bool:
        """Insert one row, unless there is one with the same key: then say False, and the unit goes on. Where another
        unit has inserted it and not ended yet, this waits for the end. The statement ends with `{unless_there}`."""

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Execute once for each row of parameters."""

    def listed(self, numbers: Iterable[int]) -> object:
        """The parameter of `{among:…}`."""

    def insert_messages(self, rows: Sequence[Row]) -> None:
        """Rows of `ARRIVING`."""

    @property
    def insert_alike(self) -> Callable[[Alike], None] | None:
        """The same for many of a kind. None where storing them row by row is just as fast."""

    def next_seqs(self, count: int) -> Sequence[int]:
        """Sequence numbers that were never given out, ascending."""

    def last_seq(self) -> int:
        """The highest sequence number given out so far."""

    def forget_seqs(self) -> None:
        """Use no numbers that were taken ahead: this unit has waited for another, whose messages come first."""

    def add_to_tallies(self, changes: Mapping[int, Sequence[int]], stirring: bool) -> None:
        """Count what arrived in each queue and what has left it. `stirring` says that a claim may wait for it."""

    def has_table(self, name: str) -> bool: ...

    def change_queues(self) -> None:
        """Called before queues or their settings change: one unit does so at a time, and all others notice."""

    def enter_ledger(self) -> None:
        """Called before this unit writes rows into the ledger."""

    def prove_writable(self) -> None:
        """See the verb."""

    def sizes(self) -> Sizes:
        """How much the store takes."""

    def shrink(self, limit: int) -> int:
        """See the verb. A database server sees to its own files."""

    def ledger_end(self) -> int:
        """Up to which number the ledger is complete: no row can appear any more among those before it.

        It does not wait for the units of others, nor do they wait for it. In a unit that only reads, the answers to
        statements are of a new moment from here on.
        """


SomeEngine = TypeVar("SomeEngine", bound=Engine, covariant=True)


class RawSql(Generic[SomeEngine]):
    """The database below the verbs, for the copying of a whole store: statements without a name, with `?` for each
    parameter."""

    def __init__(self, engine: SomeEngine) -> None:
        self.engine = engine
        self._text = engine.statements.dialect.with_parameters

    def rows(self, sql: str, params: Sequence[object] = ()) -> list[Row]:
        return self.engine.rows(self._text(sql), params)

    def run(self, sql: str, params: Sequence[object] = ()) -> int:
        return self.engine.run(self._text(sql), params)

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        self.engine.many(self._text(sql), rows)

    def has_table(self, name: str) -> bool:
        return self.engine.has_table(name)

    def last_seq(self) -> int:
        return self.engine.last_seq()


class SqlStore(Store, Protocol):
    """What the copying of a whole store needs beyond the verbs."""

    def raw(self, write: bool = True) -> AbstractContextManager[RawSql[Engine]]:
        """The same as `unit`, below the verbs."""

    def probe_other_users(self) -> bool:
        """Try whether another process or program has the store open now, and say so. Outside of any unit: to find out,
        the store may be locked for a moment."""
