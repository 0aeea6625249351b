"""What every job's command shares: its options, how its failures are told, and what it prints at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any, Protocol, TypeVar

import click

from penstock.cli.options import DEFAULT_URL
from penstock.cli.output import note, print_json
from penstock.cli.program import NOT_ALL_DONE, REFUSED, WRONG_USAGE
from penstock.cli.text import printable
from penstock.errors import PenstockError
from penstock.extras import how_to_get

Command = TypeVar("Command", bound=Callable[..., Any])


class Summary(Protocol):
    @property
    def problems(self) -> list[str]: ...

    def lines(self) -> list[str]: ...


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
json_option = click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")


def run(job: Callable[..., Summary], as_json: bool, **options: Any) -> int | None:
    """Runs the job, prints its summary, and gives the exit code."""
    summary = called(job, **options)
    if as_json:
        print_json({**_plain(asdict(summary)), "problems": summary.problems})
    else:
        for line in summary.lines():
            click.echo(printable(line))
    for problem in summary.problems:
        note(problem)
    return NOT_ALL_DONE if summary.problems else None


def called(job: Callable[..., Summary], **options: Any) -> Any:
    if options.get("master") is not None and options.get("remote") is not None:
        raise click.UsageError("--master and --remote exclude each other")
    from penstock.spark.failures import Refused
    from penstock.spark.jobs.running import JobFailed
    from penstock.spark.progress import fitting
    from penstock.spark.session import SparkMissing

    try:
        return job(progress=fitting(), **options)
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
    from importlib import import_module

    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "pyarrow", "py4j"):
            raise
        raise Lacking(f"this needs Spark: {how_to_get('spark')}") from error


def _first_line(error: Exception) -> str:
    """Of the cause, where it is in Python: the last line of the traceback that Spark carries along."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("penstock.", "pyarrow."))]
    return (named or lines or [type(error).__name__])[0]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else value
