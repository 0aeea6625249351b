"""`penstock pipeline drain`: messages of a queue into the lake."""

from __future__ import annotations

from typing import Any

import click

from penstock import limits
from penstock.cli.options import Duration, QueueName
from penstock.cli.pipeline.running import (
    dry_run_option,
    imported,
    json_option,
    lake_option,
    run,
    server_options,
    spark_options,
)


@click.command()
@click.option("--queue", type=QueueName(), required=True, metavar="QUEUE", help="Whose messages it drains.")
@lake_option
@click.option("--consumer", default="drain", show_default=True, metavar="NAME", help="In whose name it drains.")
@click.option(
    "--limit",
    type=click.IntRange(1, limits.SHIPMENT_ROWS),
    default=100_000,
    show_default=True,
    help="Messages per shipment.",
)
@click.option("--max-messages", type=click.IntRange(min=1), metavar="N", help="Stop after so many.")
@click.option(
    "--format",
    type=click.Choice(["binary", "text", "json"]),
    default="binary",
    show_default=True,
    help="What the column body is to be.",
)
@click.option("--schema", metavar="DDL", help="Fields of JSON bodies, such as 'id int, note string'.")
@click.option("--partitions", type=click.IntRange(1, 10_000), help="Files per shipment; one a core if left out.")
@click.option(
    "--hold",
    "hold_ms",
    type=Duration(),
    default="1h",
    show_default=True,
    help="How long a silent drain keeps messages.",
)
@dry_run_option
@server_options
@spark_options
@json_option
def drain(as_json: bool, format: str, schema: str | None, hold_ms: int, **options: Any) -> int | None:
    """Move the ready messages of a queue to Parquet files in the lake, each once.

    A drain that was interrupted is finished by running it again.
    """
    if (format == "json") != (schema is not None):
        raise click.UsageError("--format json and --schema go together")
    if hold_ms < 1000:
        raise click.UsageError("--hold is at least 1s")
    job = imported("penstock.spark.jobs", "drain")
    return run(job, as_json, spark=None, format=format, schema=schema, hold_ms=hold_ms, **options)
