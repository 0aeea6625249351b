"""Opens a Spark session: quiet, in UTC, with a Java that was found for it and the source `penstock` registered.

It leaves nothing in the working directory, and never changes a session that is open already.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.spark.classes import Draft, archive_for
from penstock.spark.errors import SparkMissing
from penstock.spark.java import Java, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Four attempts: plain `local[*]` never tries a failed task again.
DEFAULT_MASTER = "local[*,4]"
_GIB = 2**30
_STDERR = 2
_LONGEST_END_S = 30

# What may be set on any session, local or remote.
_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark's default is a type that other readers of Parquet have deprecated, and that is slower to read.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Spark would show the API key among a source's options.
    "spark.sql.redaction.options.regex": "(?i)url|key|secret|password|token",
}


@dataclass(frozen=True)
class Start:
    """What the start of a session is to care for. `source`: registering the format `penstock`, for which Spark starts
    a Python process. `brief`: a session for which Java's best compiler takes longer than what it could save, since no
    rows pass through Java. `prepare`: leaving an archive of classes behind for the sessions after it, which is there
    when `end_java` returns."""

    source: bool = True
    brief: bool = False
    prepare: bool = False


ANY = Start()
# For jobs whose tasks fetch and store rows themselves.
WITHOUT_ROWS = Start(source=False, brief=True)
_BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_drafts: list[Draft] = []


def open_session(
    app_name: str = "penstock",
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
    log: str | None = None,
    *,
    start: Start = ANY,
) -> SparkSession:
    """A session on `master`, or one of the Spark Connect server at `remote` (`sc://host:15002`). `settings` take
    precedence over the defaults. What Spark and its workers have to say is added to the file `log`; without one it goes
    to standard error.

    Where this process already has a session, that one is returned, with the settings that a running session can take.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SparkMissing from None
    from penstock.spark.source import register

    if remote is not None and master is not None:
        raise ValueError("either a master or a remote, not both")
    if remote is not None:
        builder = SparkSession.builder.remote(remote)  # the server names it
        with without_pandas_warning():
            session: SparkSession = _configured(builder, {**_EVERYWHERE, **(settings or {})}).getOrCreate()
    else:
        java = None if _is_running() else find_java()
        ours = _EVERYWHERE | _for_a_driver(master or DEFAULT_MASTER) | _flags(java, start) | dict(settings or {})
        builder = _configured(SparkSession.builder.appName(app_name).master(master or DEFAULT_MASTER), ours)
        with _environment(java), _stderr_to(log):
            session = builder.getOrCreate()
    if start.source:
        register(session)
    return session


def _configured(builder: Any, settings: Mapping[str, str]) -> Any:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _for_a_driver(master: str) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        # How long either side waits for the other to connect with what was collected, which may be more than Spark's
        # fifteen seconds on a machine that is very busy.
        "spark.python.authenticate.socketTimeout": "5m",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_log_settings()}",
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.memory": _driver_memory(),
            # Only loopback: a name that the machine cannot resolve must not keep a local session from starting.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / f"penstock-warehouse-{os.getuid()}"),
        }
    return settings


def _flags(java: Java | None, start: Start) -> dict[str, str]:
    """For the Java that is started, if one is."""
    if java is None:
        return {}
    flags = [_BRIEF] if start.brief else []
    archive = archive_for(java)
    if archive is not None and start.prepare:
        _drafts.append(archive.draft())
        flags.append(_drafts[-1].flags())
    elif archive is not None:
        flags.append(archive.flags())
    return {"spark.driver.defaultJavaOptions": " ".join(filter(None, flags))} if any(flags) else {}


def _log_settings() -> str:
    return Path(str(files("penstock.spark") / "log4j2.properties")).as_uri()


def _driver_memory() -> str:
    """A quarter of the machine, between one and four gigabytes: the executors of a local session live in the driver."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{min(max(total // 4, _GIB), 4 * _GIB) // 2**20}m"


@contextmanager
def without_pandas_warning() -> Iterator[None]:
    """PySpark loads pandas only to see which version there is. Nothing here uses it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


@contextmanager
def _environment(java: Java | None) -> Iterator[None]:
    """What the Java process inherits at its start. The Python ones stay: later workers are started by them."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    names = ("JAVA_HOME", "SPARK_LAUNCHER_OPTS")
    before = {name: os.environ.get(name) for name in names}
    if java is not None:
        os.environ["JAVA_HOME"] = str(java.launcher())
        # A Java that only puts together the command line of the other.
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", _BRIEF)
    try:
        with without_pandas_warning():
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _stderr_to(log: str | None) -> Iterator[None]:
    """The Java process keeps the standard error that it inherits at its start, and its Python workers with it. PySpark
    has no other way to choose it."""
    if log is None or _is_running():
        yield
        return
    _quieten_queries()
    before = os.dup(_STDERR)
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, _STDERR)
        os.close(file)
        yield
    finally:
        os.dup2(before, _STDERR)
        os.close(before)


def _quieten_queries() -> None:
    """PySpark writes the error of a query down as JSON, on standard error, besides raising it."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def end_java(at_once: bool = False) -> None:
    """End the Java process that sessions of this process have run on, unless one is still open, and wait until it is
    gone. A session that is opened afterwards starts another one. `at_once`: without an archive of classes."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None or SparkContext._active_spark_context is not None:
        return
    with suppress(Exception):  # it may be gone already
        gateway.shutdown()
    if at_once and _drafts:
        process.kill()
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(_LONGEST_END_S * 4 if _drafts else _LONGEST_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = SparkContext._jvm = None
    while _drafts:
        draft = _drafts.pop()
        if process.returncode == 0:
            draft.keep()
        else:
            draft.drop()


def how_java_ended(error: BaseException) -> int | None:
    """The exit code of the Java process, less than 0 for a signal; None where there is none, or it still runs.

    One that is cut off from its Java is often earlier than the end of that process.
    """
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
            return int(process.wait(_LONGEST_END_S))
    code: int | None = process.poll()
    return code


def has_session() -> bool:
    """Whether this process has one that is open, of its own Java or of Spark Connect."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None or _has_context()


def _has_context() -> bool:
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def _is_running() -> bool:
    from pyspark import SparkContext

    return SparkContext._gateway is not None
