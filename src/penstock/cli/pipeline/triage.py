"""`penstock pipeline triage`: what lies in a dead-letter queue."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.options import queue_argument
from penstock.cli.output import print_table
from penstock.cli.pipeline.running import (
    called,
    dry_run_option,
    imported,
    json_option,
    run,
    server_options,
    spark_options,
)
from penstock.cli.text import number


@click.command()
@queue_argument
@click.option("--samples", type=click.IntRange(0, 100), default=3, show_default=True, help="Messages shown per group.")
@click.option("--groups", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Groups shown.")
@click.option("--to", metavar="PATH", help="Write all groups there, as Parquet.")
@dry_run_option
@server_options
@spark_options
@json_option
def triage(as_json: bool, dry_run: bool, **options: Any) -> int | None:
    """Group, count and sample the messages of QUEUE. Nothing is claimed."""
    job = imported("penstock.spark.jobs", "triage")
    if as_json or dry_run:
        return run(job, as_json, spark=None, dry_run=dry_run, **options)
    summary = called(job, spark=None, **options)
    header = ("messages", "oldest", "newest", "content type", "shape", "error", "source")
    print_table([_row(group) for group in summary.groups], header, right=("messages",))
    for group in summary.groups:
        if group["samples"]:
            click.echo()
            print_table([(sample["id"], sample["text"]) for sample in group["samples"]], ("id", group["shape"]))
    click.echo()
    for line in summary.lines():
        click.echo(line)
    return None


def _row(group: dict[str, Any]) -> tuple[str, ...]:
    instants = (group[name].strftime("%Y-%m-%d %H:%M:%S") for name in ("oldest_at", "newest_at"))
    rest = (group[name] or "–" for name in ("content_type", "shape", "error", "source"))
    return (number(group["messages"]), *instants, *rest)
