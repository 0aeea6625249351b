"""`penstock pipeline demo`: the whole pipeline on a day of made-up orders."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.pipeline.running import imported, json_option, run


@click.command()
@click.option("--folder", metavar="PATH", help="An empty folder for everything. [default: a new temporary one]")
@click.option("--messages", type=click.IntRange(min=1), default=5_000, show_default=True, help="Orders to make up.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed makes up the same day.")
@click.option("--master", metavar="MASTER", help="Where Spark runs. [default: local[*,4]]")
@json_option
def demo(as_json: bool, **options: Any) -> int | None:
    """Run a private server, a made-up day of orders through it, and every job; say where to look."""
    return run(imported("penstock.spark.demo", "run"), as_json, spark=None, **options)
