"""The examples of docs/spark.md, on a real session and a real server."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.spark import demo, jobs, report
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


FROM_PYTHON = (DOCS / "pipeline" / "index.md").read_text().partition("## From Python")[2]


@pytest.mark.parametrize(("name", "parameters"), re.findall(r"`(\w+)\((\w+(?:, \w+)*)\)`", FROM_PYTHON))
def test_what_the_pipeline_takes_from_python(name: str, parameters: str) -> None:
    [taken] = [getattr(package, name) for package in (jobs, report, demo) if name in package.__all__]
    assert parameters.split(", ") == [it for it in inspect.signature(taken).parameters if it != "run"]


def test_every_job_is_on_the_page() -> None:
    for package in (jobs, report, demo):
        for name in package.__all__:
            assert not inspect.isfunction(getattr(package, name)) or f"`{name}(" in FROM_PYTHON, name
