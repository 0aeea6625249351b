"""`penstock ledger`: what became of messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING

import click

from penstock.cli.messages import body_as_json
from penstock.cli.options import Instant, QueueName, WholeNumber, talks_to_server
from penstock.cli.output import Table, line_width, note, print_json_line
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import instant, number

if TYPE_CHECKING:
    from penstock.client import Client, LedgerRow

_HEADER = ("number", "finished", "queue", "id", "outcome", "receives", "size")
_TOGETHER = 1_000


@click.command()
@click.option("--queue", type=QueueName(), help="Only messages of queues that had this name.")
@click.option("--id", "message_id", metavar="ID", help="Only this message.")
@click.option("--since", type=Instant(), help="Only what finished then or later.")
@click.option("--before", type=Instant(), help="Only what finished before.")
@click.option("--after", type=WholeNumber(min=0), default=0, metavar="NUMBER", help="Only rows behind this number.")
@click.option("--limit", type=WholeNumber(min=1), metavar="N", help="Rows at most.  [default: all]")
@talks_to_server
def ledger(
    client: Client,
    queue: str | None,
    message_id: str | None,
    since: int | None,
    before: int | None,
    after: int,
    limit: int | None,
    as_json: bool,
) -> int | None:
    """Show what became of messages: a row for each that has left a queue.

    With --json a row is a line. An INSTANT is written like 2026-05-01, 2026-05-01T12:30 (UTC, or with an offset), or
    2h for two hours ago.
    """
    per_page = _TOGETHER if limit is None else min(limit, _TOGETHER)
    found = client.ledger(after=after, per_page=per_page, queue=queue, id=message_id, since=since, before=before)
    count = 0
    table = Table(_HEADER, right=("number", "receives", "size"), width=line_width())
    for rows in _together(islice(found, limit)):
        count += len(rows)
        if as_json:
            for row in rows:
                print_json_line(_as_json(row))
        else:
            table.print([_cells(row) for row in rows])
    if not count:
        is_filtered = after or any(given is not None for given in (queue, message_id, since, before))
        note("the ledger has no such rows" if is_filtered else "the ledger is empty")
        return NOT_ALL_DONE
    return None


def _together(rows: Iterator[LedgerRow]) -> Iterator[list[LedgerRow]]:
    while some := list(islice(rows, _TOGETHER)):
        yield some


def _as_json(row: LedgerRow) -> dict[str, object]:
    """As the native API writes it."""
    value = asdict(row)
    del value["body"]
    return value if row.body is None else {**value, **body_as_json(row.body)}


def _cells(row: LedgerRow) -> tuple[str, ...]:
    what = (row.queue, row.id, row.outcome, number(row.receives), number(row.size))
    return (str(row.number), instant(row.finished_at), *what)
