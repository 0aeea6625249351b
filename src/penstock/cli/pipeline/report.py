"""`penstock pipeline report`: a page about the archived ledger."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

import click

from penstock.cli.pipeline.running import (
    dry_run_option,
    imported,
    json_option,
    lake_option,
    run,
    server_options,
    spark_options,
)

_DAY_OR_INSTANT = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])


@click.command()
@lake_option
@click.option("--to", default="report.html", show_default=True, metavar="PATH", help="The page to write.")
@click.option("--since", type=_DAY_OR_INSTANT, help="Only what was finished from then on, in UTC.")
@click.option("--until", type=_DAY_OR_INSTANT, help="Only what was finished before, in UTC.")
@click.option("--queue", metavar="QUEUE", help="Only this queue.")
@click.option("--consumer", metavar="NAME", help="Whose archive, where the lake has several.")
@click.option("--live", is_flag=True, help="Show what the queues of the server hold now.")
@dry_run_option
@server_options
@spark_options
@json_option
def report(
    as_json: bool,
    url: str,
    api_key: str | None,
    live: bool,
    since: datetime | None,
    until: datetime | None,
    **options: Any,
) -> int | None:
    """Write one HTML page about the ledger that was archived in a lake: throughput, latency, outcomes."""
    job = imported("penstock.spark.report.job", "report")
    wire = imported("penstock.spark.wire", "Wire")(url, api_key) if live else None
    with wire or nullcontext():
        return run(job, as_json, spark=None, wire=wire, since=_utc(since), until=_utc(until), **options)


def _utc(when: datetime | None) -> datetime | None:
    return None if when is None else when.replace(tzinfo=UTC)
