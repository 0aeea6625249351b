"""`penstock pipeline replay`: messages of the lake or of a dead-letter queue into a queue."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.options import QueueName
from penstock.cli.pipeline.running import dry_run_option, imported, json_option, run, server_options, spark_options


@click.command()
@click.option("--lake", metavar="PATH", help="Replay drained messages, which stay in the lake.")
@click.option(
    "--queue", type=QueueName(), metavar="QUEUE", help="Replay the ready messages of a queue, which leave it."
)
@click.option("--to", type=QueueName(), required=True, metavar="QUEUE", help="Where the messages go.")
@click.option("--where", metavar="SQL", help="Only those of which this holds, such as \"body LIKE '%late%'\".")
@click.option("--label", default="", metavar="TEXT", help="Another label sends from the lake once more.")
@click.option("--yes", is_flag=True, help="Send; without it, matches are only counted.")
@dry_run_option
@server_options
@spark_options
@json_option
def replay(as_json: bool, dry_run: bool, yes: bool, **options: Any) -> int | None:
    """Send messages once more, from a lake or from a dead-letter queue.

    Without --yes it only says how many match. The filter may use id, sent_at, content_type, attributes, receives,
    queue and body, which is text there.
    """
    if (options["lake"] is None) == (options["queue"] is None):
        raise click.UsageError("name either --lake or --queue")
    return run(imported("penstock.spark.jobs", "replay"), as_json, spark=None, yes=yes and not dry_run, **options)
