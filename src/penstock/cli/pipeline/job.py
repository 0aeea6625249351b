"""What every job's command shares: its options, how its failures are reported, and what it prints at the end.

Spark is imported when a job runs, and only then: `penstock --help` neither needs it nor waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli.options import DEFAULT_URL
from penstock.cli.output import note, print_json
from penstock.cli.program import NOT_ALL_DONE, REFUSED, WRONG_USAGE
from penstock.errors import PenstockError
from penstock.extras import how_to_get
from penstock.terminal import printable

if TYPE_CHECKING:
    from penstock.spark.jobs import Run, Server

Command = TypeVar("Command", bound=Callable[..., Any])
# What the extra `spark` brings.
_OF_SPARK = ("pyspark", "pyarrow", "py4j")


class Failed(click.ClickException):
    exit_code = NOT_ALL_DONE


class Declined(click.ClickException):
    exit_code = REFUSED


class Lacking(click.ClickException):
    exit_code = WRONG_USAGE


def server_options(command: Command) -> Command:
    """As the other commands that talk to a server have them; the job opens the connection itself."""
    command = click.option(
        "--api-key", envvar="PENSTOCK_API_KEY", metavar="KEY", show_envvar=True, help="Key for the server."
    )(command)
    return click.option(
        "--url", envvar="PENSTOCK_URL", default=DEFAULT_URL, show_default=True, show_envvar=True,
        help="Address of the server.",
    )(command)  # fmt: skip


def spark_options(command: Command) -> Command:
    command = click.option("--remote", metavar="URL", help="A Spark Connect server, such as sc://host:15002.")(command)
    return click.option("--master", metavar="MASTER", help="Where Spark runs. [default: local[*,4]]")(command)


lake_option = click.option("--lake", required=True, metavar="PATH", help="The lake: a folder of any scheme.")
format_option = click.option(
    "--format",
    type=click.Choice(["parquet", "delta"]),
    help="What the lake's tables are to be. [default: what they are; parquet in a new lake]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")


def run(job: Callable[..., Any], as_json: bool, *arguments: Any, **options: Any) -> int | None:
    """Run the job, print its summary, and return the exit code."""
    summary = called(job, *arguments, **options)
    if as_json:
        print_json({**_plain(asdict(summary)), "problems": summary.problems})
    else:
        for line in summary.lines():
            click.echo(printable(line))
    for problem in summary.problems:
        note(problem)
    return NOT_ALL_DONE if summary.problems else None


def called(job: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The job's summary. The options of Spark become its `Run`, the others are its own."""
    from penstock.client import Refused
    from penstock.spark.errors import JobFailed, SparkMissing

    try:
        return job(*arguments, run=_run_of(options), **options)
    except JobFailed as error:
        raise Failed(str(error)) from error
    except Refused as error:
        raise Declined(str(error)) from error
    except SparkMissing as error:
        raise Lacking(str(error)) from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except (PenstockError, OSError, click.ClickException):
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        raise Failed(f"Spark failed: {_first_line(error)}") from error


def imported(module: str, name: str) -> Any:
    """A job, or one line that says what to install for it."""
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_SPARK:
            raise
        raise Lacking(f"this needs Spark: {how_to_get('spark')}") from error


def server_of(options: dict[str, Any]) -> Server:
    """Takes what `server_options` adds out of the options."""
    server: Server = imported("penstock.spark.jobs", "Server")(options.pop("url"), options.pop("api_key"))
    return server


def _run_of(options: dict[str, Any]) -> Run:
    """Takes what `spark_options`, `dry_run_option` and `--partitions` add out of the options."""
    from penstock.terminal import fitting

    names = ("master", "remote", "dry_run", "partitions")
    given = {name: options.pop(name) for name in names if name in options}
    if given.get("master") is not None and given.get("remote") is not None:
        raise click.UsageError("--master and --remote exclude each other")
    run: Run = imported("penstock.spark.jobs", "Run")(progress=fitting(), **given)
    return run


def _first_line(error: Exception) -> str:
    """Of the cause, where it is in Python: the last line of the traceback that Spark passes on."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("penstock.", "pyarrow."))]
    return (named or lines or [type(error).__name__])[0]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else value
