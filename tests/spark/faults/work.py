"""Work for a driver that is to be killed: `python -m tests.spark.faults.work drain '{"url": …}'`. Not a test."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from devtools.jvm import QUICK
from devtools.programs import Program

# Of a process that finds the tests, and the same source as this one.
PATH = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])])


def start(place: Path, name: str, what: str, environ: dict[str, str] | None = None, **options: object) -> Program:
    """A process of its own that does `what`: one of the functions of this module."""
    command = (sys.executable, "-m", "tests.spark.faults.work", what, json.dumps(options))
    return Program(place, name, *command, environ={"PYTHONPATH": PATH, **(environ or {})})


def stream(spark: Any, url: str, folder: str, limit: int = 1000, consumer: str = "stream") -> None:
    """What is in the queue "q" now, to files, in micro-batches."""
    _be_active(spark)
    reader = spark.readStream.format("penstock").option("url", url).option("queue", "q")
    messages = reader.option("consumer", consumer).option("maxMessagesPerTrigger", limit).option("partitions", 2).load()
    writer = messages.select("id", "body").writeStream.format("parquet").trigger(availableNow=True)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start(f"{folder}/sink")
    query.awaitTermination()


def fold(spark: Any, url: str, folder: str, limit: int = 1000, consumer: str = "stream") -> None:
    """What is in the queues "q-…" now, to a folder for each micro-batch."""
    _be_active(spark)

    def store(batch: Any, number: int) -> None:
        batch.write.mode("overwrite").parquet(f"{folder}/sink/batch={number}")

    reader = spark.readStream.format("penstock").option("url", url).option("queues", "q-*").option("consumer", consumer)
    messages = reader.option("maxMessagesPerTrigger", limit).option("partitions", 2).load()
    writer = messages.select("id", "body").writeStream.foreachBatch(store).trigger(availableNow=True)
    writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()


def write(spark: Any, url: str, rows: int, partitions: int, key: str) -> None:
    """Rows with bodies of their own into the queue "q"."""
    _be_active(spark)
    frame = spark.range(0, rows, 1, partitions).selectExpr("concat('row ', id) AS body")
    options = {"url": url, "queue": "q", "idempotencyKey": key}
    frame.write.format("penstock").options(**options).mode("append").save()


def _be_active(spark: Any) -> None:
    """Spark looks for a source that is written in Python in the active session, which a new thread does not have."""
    spark.createDataFrame([], "nothing INT")


def read(spark: Any, url: str) -> None:
    """Says which bodies are in the queue "q"."""
    rows = spark.read.format("penstock").option("url", url).option("queue", "q").load().collect()
    sys.stdout.write(json.dumps(sorted(bytes(row.body).decode() for row in rows)))


def others(spark: Any, url: str, folder: str, lake: str | None = None) -> None:
    """The rest of the jobs, on JSON messages in the queue "q"; says what each came to."""
    from penstock.spark.jobs import Body, Run, Server, Source, archive, audit, dedup, drain, replay, triage
    from penstock.spark.report import report

    server, run, lake = Server(url), Run(spark), lake or f"{folder}/lake"
    told: dict[str, object] = {"triaged": triage(server, "q", run=run).messages}
    drained = drain(server, "q", lake, body=Body("json", "n INT"), run=run)
    told |= {"drained": drained.messages, "bad": drained.bad_records, "archived": archive(server, lake, run=run).rows}
    told |= {"kept": dedup(lake, f"{folder}/single", run=run).kept}
    told |= {"replayed": replay(server, Source(lake=lake), "q", yes=True, run=run).sent}
    report(lake, f"{folder}/page.html", run=run)
    told |= {"findings": audit(server, lake, run=run).findings}
    sys.stdout.write(json.dumps(told))


def drain(spark: Any, url: str, lake: str, limit: int) -> None:
    """The queue "q" to the lake, in shipments of the limit."""
    from penstock.spark.jobs import Run, Server, drain

    drain(Server(url), "q", lake, limit=limit, run=Run(spark))


def drain_and_read(spark: Any, url: str, lake: str, limit: int) -> None:
    """Says which ids the lake then holds, as often as it does."""
    from penstock.spark.lake import Lake

    drain(spark, url, lake, limit)
    sys.stdout.write(json.dumps(sorted(row.id for row in Lake(spark, lake).read_messages("id").collect())))


def main() -> None:
    from penstock.spark import open_session

    what, options = sys.argv[1], json.loads(sys.argv[2])
    remote = options.pop("remote", None)
    master = options.pop("master", None if remote else "local[2,2]")
    # A server of Spark Connect, and a cluster's executors, have their own.
    settings = {**({} if remote else QUICK), **options.pop("settings", {})}
    spark = open_session("faults", master, remote, settings)
    globals()[what](spark, **options)
    spark.stop()


if __name__ == "__main__":
    main()
