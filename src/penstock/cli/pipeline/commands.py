"""The commands of `penstock pipeline`, one for each job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from penstock import limits
from penstock.cli.options import Duration, QueueName, WholeNumber, queue_argument
from penstock.cli.output import print_table
from penstock.cli.pipeline.job import (
    called,
    dry_run_option,
    format_option,
    imported,
    json_option,
    lake_option,
    log_option,
    run,
    server_of,
    server_options,
    spark_options,
)
from penstock.cli.text import number

_JOBS = "penstock.spark.jobs"
_REPORT = "penstock.spark.report"
# Of what the messages of a cluster have in common, so many are shown in a table.
_TRAIT_CHARACTERS = 60
_DAY_OR_INSTANT = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])


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
@click.option("--group-column", metavar="NAME", help="The column that is the group; it stays in the body.")
@click.option("--dedup-id-column", metavar="NAME", help="The column that is the dedup id; it stays in the body.")
@dry_run_option
@server_options
@spark_options
@json_option
def load(source: tuple[str, ...], as_json: bool, **options: Any) -> int | None:
    """Send the rows of files to a queue, each once.

    SOURCE is a file, a folder or a pattern, of any scheme that Spark reads: Parquet, JSON lines, CSV with a header,
    or text. The same files can be loaded again: what was sent is not stored again.
    """
    columns = ("body_column", "content_type_column", "attributes_column", "group_column", "dedup_id_column")
    names = ("format", "schema", "content_type", *columns)
    shape = imported(_JOBS, "Shape")(**{name: options.pop(name) for name in names})
    return run(imported(_JOBS, "load"), as_json, server_of(options), sources=source, shape=shape, **options)


@click.command()
@click.option("--queue", type=QueueName(), required=True, metavar="QUEUE", help="Whose messages it drains.")
@lake_option
@format_option
@click.option("--consumer", default="drain", show_default=True, metavar="NAME", help="In whose name it drains.")
@click.option(
    "--limit",
    type=WholeNumber(1, limits.SHIPMENT_ROWS),
    default=1_000_000,
    show_default=True,
    help="Messages per shipment, which is a file.",
)
@click.option("--max-messages", type=WholeNumber(min=1), metavar="N", help="Stop after N messages.")
@click.option("--lanes", type=WholeNumber(1, 1_000), metavar="N", help="Shipments at once; by cores if left out.")
@click.option(
    "--body",
    "body_format",
    type=click.Choice(["binary", "text", "json"]),
    default="binary",
    show_default=True,
    help="What the column body is to be.",
)
@click.option("--schema", metavar="DDL", help="Fields of JSON bodies, such as 'id int, note string'.")
@click.option(
    "--hold",
    "hold_ms",
    type=Duration(),
    default="1h",
    show_default=True,
    help="How long a silent drain keeps messages.",
)
@click.option("--wait", is_flag=True, help="Wait while another drain of the same consumer runs.")
@dry_run_option
@server_options
@spark_options
@json_option
def drain(as_json: bool, body_format: str, schema: str | None, hold_ms: int, **options: Any) -> int | None:
    """Move the ready messages of a queue to the lake, each once.

    A drain that was interrupted is finished by running it again.
    """
    if (body_format == "json") != (schema is not None):
        raise click.UsageError("--body json and --schema go together")
    if hold_ms < 1000:
        raise click.UsageError("--hold is at least 1s")
    body = imported(_JOBS, "Body")(body_format, schema)
    return run(imported(_JOBS, "drain"), as_json, server_of(options), body=body, hold_ms=hold_ms, **options)


@click.command()
@lake_option
@format_option
@click.option("--consumer", default="archive", show_default=True, metavar="NAME", help="In whose name it archives.")
@click.option(
    "--limit", type=WholeNumber(1, limits.EXPORT_ROWS), default=1_000_000, show_default=True, help="Rows per export."
)
@click.option("--max-rows", type=WholeNumber(min=1), metavar="N", help="Stop after N rows.")
@dry_run_option
@server_options
@spark_options
@json_option
def archive(as_json: bool, **options: Any) -> int | None:
    """Copy the ledger's new rows to the lake, each once."""
    return run(imported(_JOBS, "archive"), as_json, server_of(options), **options)


@click.command()
@lake_option
@click.option("--to", default="report.html", show_default=True, metavar="PATH", help="The page to write.")
@click.option("--since", type=_DAY_OR_INSTANT, help="Only what was finished from then on, in UTC.")
@click.option("--until", type=_DAY_OR_INSTANT, help="Only what was finished before, in UTC.")
@click.option("--queue", metavar="QUEUE", help="Only this queue.")
@click.option("--consumer", metavar="NAME", help="Whose archive, where the lake has several.")
@click.option("--queues", type=WholeNumber(1, 100), default=12, show_default=True, help="Queues shown one by one.")
@click.option("--figures", metavar="PATH", help="Write the page's figures there as well, as Parquet.")
@click.option("--live", is_flag=True, help="Show what the queues of the server hold now, and held during the last day.")
@dry_run_option
@server_options
@spark_options
@json_option
def report(as_json: bool, live: bool, since: datetime | None, until: datetime | None, **options: Any) -> int | None:
    """Write one HTML page about the ledger that was archived in a lake: throughput, latency, outcomes."""
    job, scope = imported(_REPORT, "report"), imported(_REPORT, "Scope")
    server = server_of(options)
    wanted = scope(_utc(since), _utc(until), options.pop("queue"), options.pop("consumer"))
    return run(job, as_json, scope=wanted, server=server if live else None, **options)


def _utc(when: datetime | None) -> datetime | None:
    return None if when is None else when.replace(tzinfo=UTC)


@click.command()
@queue_argument
@click.option("--samples", type=WholeNumber(0, 100), default=3, show_default=True, help="Messages shown per cluster.")
@click.option("--clusters", type=WholeNumber(1, 10_000), default=20, show_default=True, help="Clusters shown.")
@click.option("--to", metavar="PATH", help="Write all clusters there, as Parquet.")
@dry_run_option
@server_options
@spark_options
@json_option
def triage(as_json: bool, dry_run: bool, **options: Any) -> int | None:
    """Sort the messages of QUEUE into clusters that failed alike, and say how to replay each. Nothing is claimed."""
    job = imported(_JOBS, "triage")
    server = server_of(options)
    if as_json or dry_run:
        return run(job, as_json, server, dry_run=dry_run, **options)
    summary = called(job, server, **options)
    header = ("cluster", "messages", "first seen", "last seen", "content type", "shape", "error", "source")
    print_table([_row(cluster) for cluster in summary.clusters], header, right=("messages",))
    for cluster in summary.clusters:
        click.echo()
        if cluster["samples"]:
            print_table([(sample["id"], sample["text"]) for sample in cluster["samples"]], ("id", cluster["cluster"]))
        click.echo(cluster["replay"])
    click.echo()
    for line in summary.lines():
        click.echo(line)
    return None


def _row(cluster: dict[str, Any]) -> tuple[str, ...]:
    instants = (cluster[name].strftime("%Y-%m-%d %H:%M:%S") for name in ("oldest_at", "newest_at"))
    rest = (cluster[name][:_TRAIT_CHARACTERS] or "–" for name in ("content_type", "shape", "error", "source"))
    return (cluster["cluster"], number(cluster["messages"]), *instants, *rest)


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
def replay(as_json: bool, yes: bool, **options: Any) -> int | None:
    """Send messages once more, from a lake or from a dead-letter queue.

    Without --yes it only says how many match. The filter may use id, sent_at, content_type, attributes, receives,
    queue, group, body, which is text there, and cluster, which triage tells.
    """
    if (options["lake"] is None) == (options["queue"] is None):
        raise click.UsageError("name either --lake or --queue")
    source = imported(_JOBS, "Source")(*(options.pop(name) for name in ("lake", "queue", "where", "label")))
    return run(imported(_JOBS, "replay"), as_json, server_of(options), source, yes=yes, **options)


@click.command()
@click.option("--lake", multiple=True, metavar="PATH", help="Also compare what was drained and archived there.")
@click.option(
    "--elsewhere",
    multiple=True,
    metavar="CONSUMER",
    help="Whose shipments need not be in the lakes; or QUEUE/CONSUMER.",
)
@click.option("--full", is_flag=True, help="Look at all rows again, not only at what is new since the last audit.")
@click.option("--deep", is_flag=True, help="As --full, and read every file as a whole.")
@click.option("--to", metavar="PATH", help="Write the verdict there, as JSON.")
@click.option("--metrics", metavar="FILE", help="Write figures there, for Prometheus' node exporter.")
@dry_run_option
@server_options
@spark_options
@json_option
def audit(as_json: bool, **options: Any) -> int | None:
    """Compare the server's counters, its ledger, its shipments and lakes. Exit code 1 when they do not agree."""
    return run(imported(_JOBS, "audit"), as_json, server_of(options), **options)


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
    return run(imported(_JOBS, "dedup"), as_json, **options)


@click.command()
@lake_option
@click.option("--queue", type=QueueName(), metavar="QUEUE", help="Only messages of this queue.")
@click.option(
    "--target-size",
    "target_mib",
    type=WholeNumber(1, 100_000),
    default=128,
    show_default=True,
    metavar="MIB",
    help="Up to which size files are merged.",
)
@click.option(
    "--older-than",
    "older_than_ms",
    type=Duration(),
    default="7d",
    show_default=True,
    help="For how long a file has not been part of the lake before it is removed; at least 1h.",
)
@dry_run_option
@spark_options
@json_option
def compact(as_json: bool, target_mib: int, **options: Any) -> int | None:
    """Merge the small files of a lake of format delta, beside drains, and remove files that are not part of it."""
    return run(imported(_JOBS, "compact"), as_json, target_size=target_mib * 1024 * 1024, **options)


@click.command()
@lake_option
@click.option("--days", type=WholeNumber(0, 100_000), required=True, metavar="N", help="Keep today and N days before.")
@click.option("--queue", type=QueueName(), metavar="QUEUE", help="Only messages of this queue.")
@dry_run_option
@spark_options
@json_option
def retire(as_json: bool, **options: Any) -> int | None:
    """Remove from a lake what is older than N days, and note it for audits."""
    return run(imported(_JOBS, "retire"), as_json, **options)


@click.command()
@click.option("--folder", metavar="PATH", help="An empty folder for everything. [default: a new temporary one]")
@click.option("--messages", type=WholeNumber(min=1), default=5_000, show_default=True, help="Orders to make up.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed makes up the same day.")
@click.option("--master", metavar="MASTER", help="Where Spark runs. [default: local[*,4]]")
@log_option
@json_option
def demo(as_json: bool, **options: Any) -> int | None:
    """Run a private server, a made-up day of orders through it, and every job; say where to look."""
    return run(imported("penstock.spark.demo", "demo"), as_json, **options)


@click.command()
@log_option
@json_option
def prepare(as_json: bool, **options: Any) -> int | None:
    """Let every later job of this user start faster: put the classes that Spark loads into an archive."""
    return run(imported("penstock.spark.prepare", "prepare"), as_json, **options)
