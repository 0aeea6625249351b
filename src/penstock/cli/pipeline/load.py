"""`penstock pipeline load`: the rows of files into a queue."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.options import QueueName
from penstock.cli.pipeline.running import dry_run_option, imported, json_option, run, server_options, spark_options


@click.command()
@click.argument("source", nargs=-1, required=True)
@click.option("--queue", type=QueueName(), required=True, metavar="QUEUE", help="Where the messages go.")
@click.option("--create", is_flag=True, help="Create the queue if there is none.")
@click.option(
    "--format",
    type=click.Choice(["parquet", "json", "text", "csv"]),
    help="Format of the files; else their names say it.",
)
@click.option("--schema", metavar="DDL", help="Columns of JSON or CSV, such as 'id int, note string'.")
@click.option("--body-column", metavar="NAME", help="The column that is the body. [default: the row as JSON]")
@click.option("--content-type", metavar="TYPE", help="Content type of every message.")
@click.option("--content-type-column", metavar="NAME", help="The column that is the content type.")
@click.option("--attributes-column", metavar="NAME", help="The column with the attributes: a map, struct or JSON.")
@dry_run_option
@server_options
@spark_options
@json_option
def load(source: tuple[str, ...], as_json: bool, **options: Any) -> int | None:
    """Send the rows of files to a queue, each once.

    SOURCE is a file, a folder or a pattern, of any scheme that Spark reads: Parquet, JSON lines, CSV with a header,
    or text. The same files can be loaded again: what was sent is not stored again.
    """
    shape = imported("penstock.spark.jobs.load", "Shape")
    names = ("format", "schema", "body_column", "content_type", "content_type_column", "attributes_column")
    shaped = shape(**{name: options.pop(name) for name in names})
    job = imported("penstock.spark.jobs", "load")
    return run(job, as_json, spark=None, sources=source, shape=shaped, **options)
