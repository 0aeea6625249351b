"""From what a job raises to one line and an exit code. What happened inside Spark is told by its cause, wherever that
was: in a task, in a Python worker, or in a Java that did not start.
"""

from __future__ import annotations

import re
import signal

import click

from penstock.cli.program import NOT_ALL_DONE, REFUSED, SERVER_FAILED, WRONG_USAGE, code_of, line_of
from penstock.errors import PenstockError

_PYTHON = "Traceback (most recent call last):"
_OURS = re.compile(r"^(?:.*Exception: )?penstock\.[\w.]*\.(\w+): (.+)$", re.MULTILINE)
_NAMED = re.compile(r"^(?:[\w$]+\.)*([\w$]+): (.+)$")
# What these say needs no name before it.
_PLAIN = ("SparkException", "PySparkRuntimeError", "PySparkException", "IOException", "OSError", "Exception", "Error")
_MAIN = re.compile(r'^Exception in thread "main" (.+)$', re.MULTILINE)
_LONGEST = 600
_NO_JAVA = ("JAVA_GATEWAY_EXITED",)


class JobEnded(click.ClickException):
    def __init__(self, message: str, exit_code: int = NOT_ALL_DONE) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]


def failure_of(error: BaseException, said: str = "", java: int | None = None) -> click.ClickException:
    """`said` is what Spark has written while the job ran, and `java` how its Java has ended, where it has."""
    from penstock.spark.errors import InvalidOption, JavaMissing, JobFailed, SparkMissing

    if java is not None and (_is_of_spark(error) or isinstance(error, ConnectionError)):
        how = f"by {signal.Signals(-java).name}" if java < 0 else f"with exit code {java}"
        return JobEnded(f"the Java that Spark runs on has ended {how}: was there too little memory?")
    match error:
        case click.ClickException():
            return error
        case JobFailed():
            return JobEnded(str(error))
        case SparkMissing() | JavaMissing() | InvalidOption():
            return JobEnded(str(error), WRONG_USAGE)
        case PenstockError() | OSError():
            return JobEnded(line_of(error), code_of(error))
        case ValueError():
            return click.UsageError(str(error))
    if not _is_of_spark(error):
        return JobEnded(f"this should not happen: {type(error).__name__}: {_short(str(error))}")
    return _of_spark(text_of(error), said)


def _is_of_spark(error: BaseException) -> bool:
    return type(error).__module__.startswith(("pyspark.", "py4j."))


def text_of(error: BaseException) -> str:
    """All that it says. An error of Java asks Java, which may have ended."""
    try:
        return str(error)
    except Exception:
        return type(error).__name__


def _of_spark(text: str, said: str) -> JobEnded:
    if any(words in text for words in _NO_JAVA):
        lines = [line for line in said.splitlines() if line.strip()]
        why = _MAIN.findall(said) or lines[:1] or ["Java ended at once"]
        return JobEnded(f"Spark did not start: {_short(_without_name(why[0]))}")
    if ours := _OURS.search(text):
        return JobEnded(_short(ours[2]), _code_of_name(ours[1]))
    return JobEnded(f"Spark failed: {_short(_without_name(_cause(text)))}")


def _code_of_name(name: str) -> int:
    """Of an error that a task has raised, of which only words are left."""
    from penstock.client import errors as client
    from penstock.spark import errors as spark

    kind = getattr(client, name, None) or getattr(spark, name, None)
    if not isinstance(kind, type):
        return NOT_ALL_DONE
    if issubclass(kind, client.Refused):
        return REFUSED
    if issubclass(kind, client.ClientError):
        return SERVER_FAILED
    return WRONG_USAGE if issubclass(kind, spark.InvalidOption) else NOT_ALL_DONE


def _cause(text: str) -> str:
    """The line that names it: the end of the last traceback of Python, else the last cause that Java knows, else the
    first line that says more than that something failed."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    traces = [place for place, line in enumerate(lines) if _PYTHON in line]
    if traces:
        after = [line for line in lines[traces[-1] + 1 :] if not line[0].isspace()]
        if after:
            return after[0]
    causes = [line.partition("Caused by: ")[2] for line in lines if line.startswith("Caused by: ")]
    if causes:
        return causes[-1]
    telling = [line for line in lines if not line.startswith("An error occurred while calling")]
    return (telling or lines or ["it did not say why"])[0].removeprefix(": ")


def _without_name(line: str) -> str:
    """`org.apache.spark.SparkException: why` is `why`, and `java.io.EOFException: why` `EOFException: why`."""
    named = _NAMED.match(line)
    if named is None or "." not in line.partition(":")[0]:
        return line
    return named[2] if named[1] in _PLAIN else f"{named[1]}: {named[2]}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
