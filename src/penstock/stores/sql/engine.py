"""What the verbs need of a database: its driver, and the few places where its SQL differs from the others'."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

Row = tuple[Any, ...]


class Engine(Protocol):
    """One connection with one open transaction. Errors of the driver come out as `penstock.errors`.

    Statements are written with `?` for each parameter.
    """

    # Whether units of other processes run at the same time as ours. Then whatever a unit reads in order to change it,
    # it has to lock.
    shared: bool
    # How a SELECT ends whose rows this unit is about to change: it waits for those that others are changing.
    lock: str
    # The same, but it passes over the rows that others are changing.
    lock_free: str
    # Whether what a DELETE returns can go into the ledger in the same statement.
    deletes_into: bool
    # How a statement names the messages, and a message's sequence number, where it goes through a queue by age. Some
    # databases need to be told not to go through all messages of all queues instead.
    walk: str
    age: str
    # The same for the rows of one queue in the ledger.
    ledger_of_queue: str

    def rows(self, sql: str, params: Sequence[object] = ()) -> list[Row]: ...

    def rows_within(self, sql: str, params: Sequence[object], budget: int) -> list[Row]:
        """The first messages, until their bodies come to `budget`: the bodies of the others are never read.

        The statement selects `session.MESSAGE_COLUMNS`, ordered by `ready_at` and `seq`.
        """

    def run(self, sql: str, params: Sequence[object] = ()) -> int:
        """Execute, and say how many rows matched."""

    def add(self, table: str, columns: Sequence[str], row: Sequence[object]) -> bool:
        """Insert one row, unless there is one with the same key: then say False, and the unit goes on. Where another
        unit has inserted it and not ended yet, this waits for the end."""

    def many(self, sql: str, params: Iterable[Sequence[object]]) -> None:
        """Execute once for each row of parameters."""

    def among(self, column: str) -> str:
        """A condition on a column: its value is among the numbers of one parameter, made by `listed`.

        One parameter, whatever their number, so that the text of a statement stays the same."""

    def listed(self, numbers: Iterable[int]) -> object: ...

    def insert_messages(self, rows: Sequence[Row]) -> None:
        """Rows of `arrivals.COLUMNS`."""

    def next_seqs(self, count: int) -> Sequence[int]:
        """Sequence numbers that nobody has had, ascending."""

    def last_seq(self) -> int:
        """The highest sequence number given out so far."""

    def add_to_tallies(self, changes: Mapping[int, Sequence[int]], stirring: bool) -> None:
        """Count what arrived in each queue and what has left it. `stirring` says that somebody may wait for it."""

    def has_table(self, name: str) -> bool: ...

    def enter_ledger(self) -> None:
        """Called before this unit writes rows into the ledger."""

    def prove_writable(self) -> None:
        """See the verb."""

    def ledger_end(self) -> int:
        """Up to which number the ledger is complete: no row can appear any more among those before it.

        It does not wait for the units of others, nor do they wait for it. In a unit that only reads, the answers to
        statements are of a new moment from here on.
        """
