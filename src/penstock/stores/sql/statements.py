"""Statements: written once, with a name, and rendered once for each kind of database.

The SQL of a verb stands above it, in a table: a frozen dataclass with a statement for each field. Its default is a
template. In a template, `?` stands for a parameter, and a word in braces for what the databases write differently (a
`Dialect`) or what several statements share (`_SHARED`). `Statements.of` gives the same table with the templates
rendered, as plain texts that a driver takes as they are. Nothing is put together when a verb is called.

`tests/stores/statements/` shows all of them as each database gets them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from inspect import cleandoc
from operator import itemgetter
from typing import Any, TypeVar

from msgspec import Struct

from penstock import limits
from penstock.model import LedgerMode

Table = TypeVar("Table")

# The columns of a message in the order in which they are read. `claim` is negative once that claim was released with a
# delay. It is 0 for a message that was renewed before it was ever received.
_MESSAGE = {
    "seq": "seq",
    "body": "body",
    "content_type": "content_type",
    "attributes": "attributes",
    "sent_at": "sent_at",
    "ready_at": "ready_at",
    "receives": "receives",
    "claim": "abs(claim) AS claim",
    "deadline_at": "deadline_at",
    "came_from": "came_from",
    "grp": "grp",
    "first_claimed_at": "first_claimed_at",
}
# What a message takes in memory.
_SIZE = "length(body) + coalesce(octet_length(attributes), 0)"
# The same columns with what a verdict needs, and instead of a body how long it is.
_MEASURED = {
    **_MESSAGE,
    "body": "length(body)",
    **dict.fromkeys(("content_type", "attributes", "came_from", "first_claimed_at"), "NULL"),
    **dict.fromkeys(("ready_at", "claim"), "0"),
}
# The same columns without a body that is longer than a parameter, and at the end how long each is.
_LEAVING_OUT = {**_MESSAGE, "body": "CASE WHEN length(body) <= ? THEN body END", "size": _SIZE}


def column_of_message(name: str) -> itemgetter[int]:
    """Takes a column from a row of `{message}` or `{measured}`. Rows stay the tuples of their driver."""
    return itemgetter(list(_MESSAGE).index(name))


# What several statements share.
_SHARED = {
    "measured": ", ".join(_MEASURED.values()),
    "queue": """q.number, q.name, q.created_at, q.visibility_ms, q.retention_ms, q.delay_ms, q.dedup, q.ledger,
        q.max_receives, (SELECT name FROM queue AS d WHERE d.number = q.dead_letter_queue),
        q.backoff_first_ms, q.backoff_most_ms,
        q.grouped, q.dedup_window_ms, q.dedup_scope, q.labels, q.modified_at,
        q.paused_at""",
    # A claim of 0 has no negative: it counts as the first.
    "put_off": "CASE claim WHEN 0 THEN -1 ELSE -abs(claim) END",
    "is_delayed": "(receives = 0 OR claim < 0)",
    "is_claimed": "receives > 0 AND claim >= 0",
    # A message in a shipment of the queue that follows. The sum keeps a database from reading the queue instead of the
    # messages that another condition names.
    "shipped": f"ready_at = {limits.SHIPPED} AND queue + 0",
    # The rows of the ledger for the messages `m` that follow; their parameters are the instant and the outcome.
    "into_ledger": f"""INSERT INTO ledger (queue, seq, sent_at, first_claimed_at, last_claimed_at, finished_at,
                        receives, outcome, size, body_hash, content_type, body)
    SELECT m.queue, m.seq, m.sent_at, m.first_claimed_at, m.last_claimed_at, ?,
           m.receives, ?, length(m.body), m.body_hash, m.content_type,
           CASE q.ledger WHEN {LedgerMode.BODIES:d} THEN m.body END""",
}
# The sum keeps a database from going through all queues, and through the messages of each.
_AS_THE_QUEUE_WANTS = f"ON q.number = m.queue + 0 WHERE q.ledger <> {LedgerMode.OFF:d}"


class _OfColumn:
    """What is written for a column, which a template names: `{among:seq}` says that the number is among those of one
    parameter, made by `Engine.listed`. One parameter, however many there are, so that the text of a statement stays the
    same."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __format__(self, column: str) -> str:
        return self._text.replace("COLUMN", column)


class Bounded(str):
    """A statement for `Engine.rows_within`. It selects `{message}`, ordered by `ready_at` and `seq`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ByRuns:
    """A statement on messages by their numbers: `between` for the first and the last number of one run, `among` for
    many numbers in one parameter."""

    between: str
    among: str


def by_runs(template: str) -> ByRuns:
    """Of a template with `{which}` for the condition."""
    kind = type(template)
    return ByRuns(
        kind(template.replace("{which}", "seq BETWEEN ? AND ?")), kind(template.replace("{which}", "{among:seq}"))
    )


def repeated(template: str, times: int) -> tuple[str, ...]:
    """The same question asked up to so many times in one statement: the first text asks once, the second twice."""
    return tuple("\nUNION ALL\n".join([cleandoc(template)] * number) for number in range(1, times + 1))


class Dialect(Struct, frozen=True, kw_only=True):
    """What one kind of database writes otherwise than the others."""

    name: str
    # What stands for a parameter.
    parameter: str
    # A condition on COLUMN: see `_OfColumn`.
    among: str
    # How an INSERT ends that does nothing where there is a row with the same key: see `Engine.add`.
    unless_there: str
    # How an INSERT goes on that changes the row with the same COLUMN, which may be several: assignments follow. And the
    # value that it has for a COLUMN.
    if_there: str
    new: str
    # How a SELECT ends whose rows this unit is about to change: it waits for those that others are changing.
    lock: str
    # The same, but it passes over the rows that others are changing.
    lock_free: str
    # How a statement names the messages, and a message's sequence number, where it goes through a queue by age. Some
    # databases need to be told not to go through all messages of all queues instead.
    walk: str
    age: str
    # The same for the rows of one queue in the ledger.
    ledger_of_queue: str
    # Whether the driver hands out rows one by one, so that `Engine.rows_within` just stops reading. Elsewhere the
    # statement itself adds up the bodies, and has one parameter more, the budget.
    streams: bool
    # Whether it leaves out long bodies instead: then its first parameter is how long a body may be, and its last column
    # how long each is.
    leaves_out: bool = False
    # How a statement names the messages that it finds by their group; the queues that it finds by their name, and that
    # name where names are compared.
    by_group: str = "message"
    queue_by_name: str = "queue AS q"
    queue_name: str = "q.name"
    # How a statement names the messages `t` that it finds by their dedup key.
    by_key: str = "message AS t"
    # How the queue joins the messages that go into the ledger. Some databases need to be told to begin with those.
    join_queue: str = "JOIN queue AS q"

    def render(self, template: str) -> str:
        leaves_out = self.leaves_out and isinstance(template, Bounded)
        message = _LEAVING_OUT if leaves_out else _MESSAGE
        text = cleandoc(
            template.format(
                **_SHARED,
                message=", ".join(message.values()),
                as_the_queue_wants=f"{self.join_queue} {_AS_THE_QUEUE_WANTS}",
                among=_OfColumn(self.among),
                unless_there=self.unless_there,
                if_there=_OfColumn(self.if_there),
                new=_OfColumn(self.new),
                lock=self.lock,
                lock_free=self.lock_free,
                walk=self.walk,
                by_key=self.by_key,
                by_group=self.by_group,
                queue_by_name=self.queue_by_name,
                queue_name=self.queue_name,
                age=self.age,
                ledger_of_queue=self.ledger_of_queue,
            )
        )
        if isinstance(template, Bounded) and not self.streams and not leaves_out:
            text = _within_budget(text)
        return self.with_parameters(text)

    def with_parameters(self, text: str) -> str:
        """A statement that is written with `?` for each parameter, as the driver wants it."""
        return text if self.parameter == "?" else text.replace("%", "%%").replace("?", self.parameter)


def _within_budget(text: str) -> str:
    """The messages a statement finds, while the bodies before them come to less than one more parameter."""
    return f"""SELECT {", ".join(_MESSAGE.values())} FROM (
SELECT found.*, sum({_SIZE}) OVER (ORDER BY ready_at, seq) - ({_SIZE}) AS before_it
FROM ({text}) AS found) AS measured
WHERE before_it < ? ORDER BY ready_at, seq"""


class Statements:
    """The tables of statements for one kind of database, each rendered when it is first asked for: when the first
    connection opens."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._tables: dict[type, Any] = {}

    def of(self, table: type[Table]) -> Table:
        found: Table | None = self._tables.get(table)
        if found is None:
            templates = {field.name: field.default for field in fields(table)}  # type: ignore[arg-type]
            found = self._tables[table] = table(**{name: self._rendered(of) for name, of in templates.items()})
        return found

    def _rendered(self, template: Any) -> object:
        render = self.dialect.render
        if isinstance(template, ByRuns):
            return ByRuns(render(template.between), render(template.among))
        if isinstance(template, tuple):
            return tuple(map(render, template))
        return render(template)


def named(table: object) -> Iterator[tuple[str, str]]:
    """All texts of a rendered table by name. A statement with several texts has a name for each."""
    for field in fields(table):  # type: ignore[arg-type]
        match getattr(table, field.name):
            case ByRuns(between, among):
                yield f"{field.name}.between", between
                yield f"{field.name}.among", among
            case tuple() as texts:
                yield from ((f"{field.name}[{index}]", text) for index, text in enumerate(texts))
            case text:
                yield field.name, text
