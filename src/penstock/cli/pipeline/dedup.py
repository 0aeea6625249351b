"""`penstock pipeline dedup`: one message per content or key."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.pipeline.running import dry_run_option, imported, json_option, lake_option, run, spark_options


@click.command()
@lake_option
@click.option("--to", required=True, metavar="PATH", help="Where the messages are written, as Parquet.")
@click.option("--by", default="content", show_default=True, metavar="KEY", help="content, attribute:NAME or json:PATH.")
@click.option("--queue", metavar="QUEUE", help="Only messages of this queue.")
@dry_run_option
@spark_options
@json_option
def dedup(as_json: bool, **options: Any) -> int | None:
    """Write the earliest drained message of each key to a new place. The lake is not changed."""
    return run(imported("penstock.spark.jobs", "dedup"), as_json, spark=None, **options)
