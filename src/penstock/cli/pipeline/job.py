"""What every job's command shares: its options, how its failures are reported, and what it prints at the end.

Spark is imported when a job runs, and only then: `penstock --help` neither needs it nor waits for it.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli.options import DEFAULT_URL, Duration
from penstock.cli.output import note, print_json
from penstock.cli.pipeline.failure import JobEnded, failure_of
from penstock.cli.pipeline.log import JobLog
from penstock.cli.pipeline.look import look
from penstock.cli.pipeline.stopping import Stopping, ToldToStop, kill_descendants
from penstock.cli.program import NOT_ALL_DONE, WRONG_USAGE
from penstock.durations import duration
from penstock.extras import how_to_get
from penstock.terminal import fitting, printable

if TYPE_CHECKING:
    from penstock.spark.jobs import Run, Server
    from penstock.terminal import Progress

Command = TypeVar("Command", bound=Callable[..., Any])
# What the extra `spark` brings.
_OF_SPARK = ("pyspark", "pyarrow", "py4j")
_SAY_AGAIN_S = 60.0


def server_options(command: Command) -> Command:
    """As the other commands that talk to a server have them; the job opens the connection itself."""
    command = click.option(
        "--patience", "patience_ms", type=Duration(), default="5m", show_default=True,
        help="How long to wait for a server that goes away; if given, also for one that is not there at the start.",
    )(command)  # fmt: skip
    command = click.option(
        "--api-key", envvar="PENSTOCK_API_KEY", metavar="KEY", show_envvar=True, help="Key for the server."
    )(command)
    return click.option(
        "--url", envvar="PENSTOCK_URL", default=DEFAULT_URL, show_default=True, show_envvar=True,
        help="Address of the server.",
    )(command)  # fmt: skip


def spark_options(command: Command) -> Command:
    command = log_option(command)
    command = click.option("--remote", metavar="URL", help="A Spark Connect server, such as sc://host:15002.")(command)
    return click.option("--master", metavar="MASTER", help="Where Spark runs. [default: local[*,4]]")(command)


log_option = click.option("--log", metavar="FILE", help="Keep what Spark says there, and the stack trace of a failure.")
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
    """The job's summary. The options of Spark become its `Run`, the others are its own.

    Whatever ends it becomes one line, and leaves no process behind.
    """
    context = click.get_current_context()
    log = JobLog(context.info_name or "job", options.pop("log", None))
    progress = fitting()
    server = next((it for it in (*arguments, *options.values()) if hasattr(it, "api_key")), None)
    failure: click.ClickException | None = None
    with Stopping() as stopping, log.taking_the_rest():
        try:
            run = _run_of(options, progress, str(log.path))
            look(context, server, run)
            return _started(job, *arguments, run=run, **options)
        except (Exception, KeyboardInterrupt) as error:
            progress.end()
            if stopping.signal is None and isinstance(error, KeyboardInterrupt):
                stopping.signal = signal.SIGINT
            if stopping.signal is not None:
                failure = ToldToStop(stopping.signal)
                raise failure from error
            failure = failure_of(error, log.said(), _how_java_ended(error))
            log.add(error, () if server is None or not server.api_key else (server.api_key,))
            if not isinstance(failure, click.UsageError):
                failure = JobEnded(f"{failure.format_message()} (stack trace: {log.path})", failure.exit_code)
            raise failure from error
        finally:
            if failure is None or isinstance(failure, ToldToStop | click.UsageError):
                log.drop()
            _leave_nothing(stopping, at_once=failure is not None)


def _started(job: Callable[..., Any], *arguments: Any, run: Run, **options: Any) -> Any:
    """Jobs can be run again at any time, so one whose Python process Spark did not wait for is."""
    from penstock.spark.slow_start import TRIES, is_slow_start, said_of

    tried = 0
    while True:
        tried += 1
        try:
            return job(*arguments, run=run, **options)
        except Exception as error:
            if tried >= TRIES or not is_slow_start(error):
                raise
        run.progress.say(said_of(tried))


def _leave_nothing(stopping: Stopping, at_once: bool) -> None:
    """No Java, and none of its Python workers. One that was interrupted at its start cannot be asked to end."""
    if "pyspark" in sys.modules:
        from penstock.spark.session import end_java

        end_java(at_once)
    if stopping.signal is not None:
        kill_descendants()


def _how_java_ended(error: BaseException) -> int | None:
    if "pyspark" not in sys.modules:
        return None
    from penstock.spark.session import how_java_ended

    return how_java_ended(error)


def imported(module: str, name: str) -> Any:
    """A job, or one line that says what to install for it."""
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_SPARK:
            raise
        raise JobEnded(f"this needs Spark: {how_to_get('spark')}", WRONG_USAGE) from error


def server_of(options: dict[str, Any]) -> Server:
    """Takes what `server_options` adds out of the options."""
    url, api_key, patience_s = options.pop("url"), options.pop("api_key"), options.pop("patience_ms") / 1000
    server: Server = imported("penstock.spark.jobs", "Server")(url, api_key, patience_s, waiting=_Waiting())
    return server


class _Waiting:
    """Says that a server is waited for: once in a while, however many calls wait."""

    def __init__(self) -> None:
        self._said_at = -_SAY_AGAIN_S

    def __call__(self, error: Exception, patience_s: float) -> None:
        if time.monotonic() - self._said_at >= _SAY_AGAIN_S:
            self._said_at = time.monotonic()
            note(f"{error}; waiting up to {duration(round(patience_s * 1000))} for it")


def _run_of(options: dict[str, Any], progress: Progress, log: str) -> Run:
    """Takes what `spark_options`, `dry_run_option` and `--partitions` add out of the options."""
    names = ("master", "remote", "dry_run", "partitions")
    given = {name: options.pop(name) for name in names if name in options}
    if given.get("master") is not None and given.get("remote") is not None:
        raise click.UsageError("--master and --remote exclude each other")
    run: Run = imported("penstock.spark.jobs", "Run")(progress=progress, log=log, **given)
    return run


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else value
