"""How JVMs for tests are started. Every query here is new and small: compiling it well takes longer than running
it, and most of Spark's usual 200 partitions would be empty.

`python -m devtools.jvm` makes an archive of the classes that Spark loads, which halves what it takes to start a
session. A JVM that finds none, or one of another Java or Spark, loads its classes as ever.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ARCHIVE = Path(__file__).parents[1] / "build" / "spark-classes.jsa"

_PLAIN_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# That an archive does not fit would be said on stdout.
FLAGS = f"{_PLAIN_FLAGS} -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else _PLAIN_FLAGS
QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.defaultJavaOptions": FLAGS,
    "spark.executor.defaultJavaOptions": FLAGS,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def options(settings: Mapping[str, str]) -> list[str]:
    """As `spark-submit` takes them."""
    return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]


def defaults(settings: Mapping[str, str] = QUICK) -> dict[str, str]:
    """The environment in which every program's session has these settings. A folder of settings would be in the class
    path, to which the archive then would not fit."""
    return {"PYSPARK_SUBMIT_ARGS": shlex.join([*options(settings), "pyspark-shell"])}


def make_archive() -> None:
    """Of what a session loads that reads and writes files, batch by batch too."""
    from pyspark import SparkContext

    from penstock.spark import open_session

    ARCHIVE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        made = Path(folder) / ARCHIVE.name
        flags = f"{_PLAIN_FLAGS} -XX:ArchiveClassesAtExit={made} -Xlog:disable"
        settings = QUICK | {"spark.driver.defaultJavaOptions": flags, "spark.driver.memory": "1g"}
        spark = open_session("archive", "local[2,2]", None, settings)
        rows = spark.range(100).selectExpr("id % 3 AS kind", "concat('row ', id) AS text")
        rows.groupBy("kind").count().write.partitionBy("kind").parquet(f"{folder}/kinds")
        rows.write.parquet(f"{folder}/rows")
        spark.read.parquet(f"{folder}/rows").join(spark.read.parquet(f"{folder}/kinds"), "kind").collect()
        stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/rows").writeStream.format("parquet")
        stream = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
        stream.start(f"{folder}/sink").awaitTermination()
        gateway = SparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        if made.exists():
            made.replace(ARCHIVE)
        else:
            sys.stderr.write("this Java makes no archive of classes; Spark's tests take longer\n")


if __name__ == "__main__":
    make_archive()
