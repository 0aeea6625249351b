"""`penstock pipeline archive`: the server's ledger into the lake."""

from __future__ import annotations

from typing import Any

import click

from penstock import limits
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
@lake_option
@click.option("--consumer", default="archive", show_default=True, metavar="NAME", help="In whose name it archives.")
@click.option(
    "--limit", type=click.IntRange(1, limits.EXPORT_ROWS), default=1_000_000, show_default=True, help="Rows per export."
)
@click.option("--max-rows", type=click.IntRange(min=1), metavar="N", help="Stop after so many.")
@dry_run_option
@server_options
@spark_options
@json_option
def archive(as_json: bool, **options: Any) -> int | None:
    """Copy the ledger's new rows to Parquet files in the lake, each once."""
    return run(imported("penstock.spark.jobs", "archive"), as_json, spark=None, **options)
