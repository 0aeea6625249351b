"""Whether two stores hold the same rows, by reading all of them; and whether one has changed, by reading few."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from penstock.stores.sql import schema
from penstock.stores.sql.engine import Row
from penstock.stores.transfer.side import Counters, Side
from penstock.stores.transfer.tables import LEDGER, MESSAGE, SHORT, Table, pages

# Instants are added up modulo this: the sum of whole ones would be too large for SQLite.
_MODULUS = 1_000_000_007
# What a claim, a renewal, a release or a move changes in a message. Rows of the ledger never change.
_CHANGING = {MESSAGE: ("queue", "ready_at", "receives", "claim"), LEDGER: ()}

_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True)
class Digest:
    """A hash of all rows of a table, in the order of their keys."""

    rows: int
    hash: bytes


def digest(side: Side, table: Table, advance: Callable[[int], None] | None = None) -> Digest:
    """It depends neither on where the pages end nor on the database."""
    hashed = sha256()
    count = 0
    for page in pages(side, table):
        hashed.update(b"".join(map(_encode, page)))
        count += len(page)
        if advance is not None:
            advance(len(page))
    return Digest(count, hashed.digest())


@dataclass(frozen=True)
class Fingerprint:
    """`text` differs after every change to a store that can be noticed. No body is read for it."""

    text: str
    counters: Counters
    messages: int
    ledger: int
    short: int

    @property
    def is_of_nothing(self) -> bool:
        return not (self.messages or self.ledger or self.short)


def fingerprint(side: Side) -> Fingerprint:
    with side.read() as raw:
        counters = side.dialect.counters(raw)
    # A newer program may read other columns: it must not continue the copy of an older one.
    seen: list[object] = [len(schema.scripts("sqlite")), counters.seq, counters.ledger]
    digests = [digest(side, table) for table in SHORT]
    seen += [found.hash for found in digests]
    rows = {}
    for table, changing in _CHANGING.items():
        spans = list(_spans(side, table, changing))
        rows[table] = sum(span[0] for span in spans)
        seen += spans
    return Fingerprint(
        sha256(_encode(seen)).hexdigest(), counters, rows[MESSAGE], rows[LEDGER], sum(found.rows for found in digests)
    )


def count(side: Side, table: Table) -> int:
    return sum(span[0] for span in _spans(side, table, ()))


def _spans(side: Side, table: Table, changing: tuple[str, ...]) -> Iterator[Row]:
    """The sums of span after span, because a database ends a statement that takes too long."""
    key = table.columns[0]
    columns = ", ".join((key, *changing))
    sums = ", ".join(f"sum({column} % {_MODULUS})" for column in (key, *changing))
    last = 0
    while True:
        with side.read() as raw:
            [span] = raw.rows(
                f"""SELECT count(*), max({key}), {sums} FROM
                    (SELECT {columns} FROM {table.name} WHERE {key} > ? ORDER BY {key} LIMIT ?) AS span""",
                (last, side.paging.span_rows),
            )
        if not span[0]:
            return
        yield tuple(map(int, span))
        last = int(span[1])
