"""`penstock actions`: who has administered what."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING

import click

from penstock.cli.options import Instant, QueueName, WholeNumber, talks_to_server
from penstock.cli.output import Table, line_width, note, print_json_line
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import instant, number

if TYPE_CHECKING:
    from penstock.client import Action, Client

_HEADER = ("number", "at", "key", "via", "what", "queue", "count", "detail")


@click.command()
@click.option("--queue", type=QueueName(), help="Only actions on queues that had this name.")
@click.option("--key", metavar="NAME", help="Only actions by this API key.")
@click.option("--what", metavar="KIND", help="Only actions of this kind, such as queue.purge.")
@click.option("--since", type=Instant(), help="Only what was done then or later.")
@click.option("--until", type=Instant(), help="Only what was done before.")
@click.option("--limit", type=WholeNumber(min=1), default=100, metavar="N", help="Actions at most.  [default: 100]")
@talks_to_server
def actions(
    client: Client,
    queue: str | None,
    key: str | None,
    what: str | None,
    since: int | None,
    until: int | None,
    limit: int,
    as_json: bool,
) -> int | None:
    """Show who has administered what, the latest first.

    With --json an action is a line. An INSTANT is written like 2026-05-01, 2026-05-01T12:30 (UTC, or with an offset),
    or 2h for two hours ago.
    """
    found = client.actions(per_page=min(limit, 1_000), queue=queue, key=key, what=what, since=since, until=until)
    some = list(islice(found, limit))
    if as_json:
        for one in some:
            print_json_line(asdict(one))
    elif some:
        Table(_HEADER, right=("number", "count"), width=line_width()).print([_cells(one) for one in some])
    if not some:
        is_filtered = any(given is not None for given in (queue, key, what, since, until))
        note("there are no such actions" if is_filtered else "there are no actions")
        return NOT_ALL_DONE
    return None


def _cells(one: Action) -> tuple[str, ...]:
    who = (one.key or "", one.via, one.what)
    count = "" if one.count is None else number(one.count)
    return (str(one.number), instant(one.at), *who, one.queue or "", count, one.detail or "")
