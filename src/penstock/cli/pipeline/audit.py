"""`penstock pipeline audit`: nothing lost, nothing twice."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.pipeline.running import dry_run_option, imported, json_option, run, server_options, spark_options


@click.command()
@click.option("--lake", metavar="PATH", help="Also compare what was drained and archived there.")
@dry_run_option
@server_options
@spark_options
@json_option
def audit(as_json: bool, **options: Any) -> int | None:
    """Compare the server's counters, its ledger, its shipments and a lake. Exit code 1 when they do not agree."""
    return run(imported("penstock.spark.jobs", "audit"), as_json, spark=None, **options)
