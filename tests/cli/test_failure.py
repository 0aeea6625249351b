"""One line of what Spark says: these are its own words, shortened only in the middle of stacks."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkRuntimeError, PythonException, SparkRuntimeException

from penstock.cli.pipeline.failure import failure_of
from penstock.client import QueueNotFound, Unavailable
from penstock.spark.errors import JavaMissing, JobFailed

OF_A_TASK = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/opt/penstock/client/client.py", line 230, in _ask
    raise error
penstock.client.errors.Unreachable: cannot reach http://127.0.0.1:9: Connection refused; tried 9 times in 5 s

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:574)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""
OF_PYTHON = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3
 in stage 0.0 (TID 3) (127.0.0.1 executor driver): org.apache.spark.api.python.PythonException: Traceback (most recent
Traceback (most recent call last):
  File "worker.py", line 12, in main
    process()
FileExistsError: [Errno 17] File exists: '/data/lake'
\tat org.apache.spark.scheduler.Task.run(Task.scala:141)
"""
OF_JAVA = """An error occurred while calling o117.parquet.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.sql.DataFrameWriter.parquet(DataFrameWriter.scala:402)
Caused by: java.io.IOException: Job aborted due to stage failure
\t... 22 more
Caused by: org.apache.hadoop.fs.ParentNotDirectoryException: Parent path is not a directory: file:/data/lake
\t... 43 more
"""
NOT_STARTED = """WARNING: Using incubator modules: jdk.incubator.vector
Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or start with spark or local
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)
"""


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (PythonException(OF_A_TASK), "cannot reach http://127.0.0.1:9: Connection refused; tried 9 times in 5 s", 4),
        (
            PythonException(OF_A_TASK.replace("Unreachable: cannot reach", "ShipmentEnded: it was lost,")),
            "it was lost, http://127.0.0.1:9: Connection refused; tried 9 times in 5 s",
            3,
        ),
        (PythonException(OF_PYTHON), "Spark failed: FileExistsError: [Errno 17] File exists: '/data/lake'", 1),
        (
            SparkRuntimeException(OF_JAVA),
            "Spark failed: ParentNotDirectoryException: Parent path is not a directory: file:/data/lake",
            1,
        ),
        (
            SparkRuntimeException(
                "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: no such thing"
            ),
            "Spark failed: no such thing",
            1,
        ),
        (JobFailed("stop here"), "stop here", 1),
        (JavaMissing(), str(JavaMissing()), 2),
        (QueueNotFound("queue 'q' does not exist", 404), "queue 'q' does not exist", 3),
        (Unavailable("too busy", 7), "too busy; try again in 7 s", 4),
        (ValueError("not both"), "not both", 2),
        (KeyError("x"), "this should not happen: KeyError: 'x'", 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_lines_and_exit_codes(error: Exception, line: str, code: int) -> None:
    failure = failure_of(error)
    assert (failure.format_message(), failure.exit_code) == (line, code)


def test_a_java_that_does_not_start_has_said_why() -> None:
    error = PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
    line = "Spark did not start: Master must either be yarn or start with spark or local"
    assert failure_of(error, NOT_STARTED).format_message() == line
    assert failure_of(error).format_message() == "Spark did not start: Java ended at once"


def test_a_java_that_ends_is_the_cause_of_what_follows() -> None:
    line = "the Java that Spark runs on has ended by SIGKILL: was there too little memory?"
    assert failure_of(ConnectionRefusedError(111, "Connection refused"), java=-9).format_message() == line
    assert failure_of(SparkRuntimeException("Answer from Java side is empty"), java=-9).format_message() == line
    assert failure_of(JobFailed("stop here"), java=-9).format_message() == "stop here"
