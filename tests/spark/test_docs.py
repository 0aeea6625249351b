"""The examples of docs/spark.md, on a real session and a real server."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.docs.pages import DOCS, blocks
from tests.docs.test_examples import run_python
from tests.servers import ThreadServer


def test_the_examples(spark: SparkSession, server: ThreadServer, tmp_path: Path) -> None:
    names: dict[str, object] = {"folder": str(tmp_path)}
    examples = [block for block in blocks(DOCS / "spark.md") if block.language == "py"]
    assert len(examples) > 4
    for block in examples:
        run_python(block, names, server.url)


def test_every_option_is_explained() -> None:
    from penstock.spark.options import NAMES

    page = (DOCS / "spark.md").read_text()
    rows = {line.split("`")[1] for line in page.partition("## Options")[2].splitlines() if line.startswith("| `")}
    assert rows == set(NAMES)
