"""What a stream has written to files, as Spark's log of the sink has it: a crash leaves files that are not in it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tests.spark.faults.truth import Messages


def in_sink(spark: Any, folder: Path) -> Messages:
    rows = spark.read.parquet(str(folder / "sink")).select("id", "body").collect()
    return Counter((row.id, bytes(row.body)) for row in rows)
