"""The examples of docs/pipeline/lake.md: readers that know nothing of Penstock, on a lake that a drain has written."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devtools.object_store import ObjectStore
from penstock.client import Draft
from penstock.spark.jobs import Run, Server, drain
from penstock.spark.storage import Storage
from tests.docs.pages import DOCS, Block, blocks
from tests.docs.test_examples import run_python
from tests.lacking import not_installed
from tests.servers import ThreadServer

PYTHON = Path(__file__).parents[2] / ".venv-lakes" / "bin" / "python"
PAGE = DOCS / "pipeline" / "lake.md"
EXAMPLES = [block for block in blocks(PAGE) if block.language == "py"]
BY_SPARK = [block for block in EXAMPLES if "spark." in block.text]
BY_OTHERS = [block for block in EXAMPLES if "spark." not in block.text]
_PRINTED = re.compile(r"^print\(.*\)  # (.*)$", re.MULTILINE)


def _name(block: Block) -> str:
    """The first that it imports, or what it goes by."""
    found = re.findall(r"^(?:import|from) (\w+)", block.text, re.MULTILINE)
    name = "manifests" if "_manifests" in block.text else str(found[0])
    return f"{name} of delta" if "tables/" in block.text else name


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With the folders `lake` and `tables`, as the page describes them."""
    folder = tmp_path_factory.mktemp("readers")
    server = ThreadServer(f"sqlite:///{folder}/penstock.db")
    with Server(server.url).client() as client:
        for queue in ("orders", "007"):
            client.create_queue(queue)
            bodies = [f'{{"order": {n}, "total": {n * 10}}}' for n in (1, 2, 3)]
            for lake, kind in (("lake", "parquet"), ("tables", "delta")):
                client.send_many(queue, [Draft(body, attributes={"shop": "north"}) for body in bodies])
                place = str(folder / lake)
                drained = drain(Server(server.url), queue, place, consumer=lake, limit=2, format=kind, run=Run(spark))
                assert drained.messages == 3
    yield folder
    server.stop()


def _run(block: Block, folder: Path, text: str, environ: dict[str, str]) -> None:
    if not PYTHON.exists():
        not_installed(".venv-lakes", "make test makes it")
    ended = subprocess.run(
        [str(PYTHON), "-c", text], cwd=folder, env={**os.environ, **environ, "PYTHONPATH": ""},
        capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == _PRINTED.findall(block.text)


def test_there_is_an_example_for_each() -> None:
    assert sorted(map(_name, BY_OTHERS)) == [
        "deltalake of delta", "duckdb", "manifests", "pandas", "polars", "polars of delta", "pyarrow",
    ]  # fmt: skip
    assert len(BY_SPARK) == 1
    assert all(_PRINTED.search(block.text) for block in EXAMPLES)


@pytest.mark.parametrize("block", BY_OTHERS, ids=_name)
def test_a_reader(block: Block, folder: Path) -> None:
    _run(block, folder, block.text, {})


def test_plain_spark(spark: Any, server: ThreadServer, folder: Path) -> None:
    [block] = BY_SPARK
    before = spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled")
    placed = Block(block.language, block.text.replace('"lake/', f'"{folder}/lake/'), block.line)
    try:
        run_python(placed, {"spark": spark}, server.url)
    finally:
        spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", before)


@pytest.mark.parametrize("name", ["pandas", "polars", "pyarrow"])
def test_a_reader_of_an_object_store(
    name: str, folder: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same files, put there as a drain puts them, and what is left where one was removed."""
    for variable, value in object_store.environ.items():
        monkeypatch.setenv(variable, value)
    bucket = object_store.new_bucket()
    storage = Storage.at(f"s3://{bucket}/lake")
    for file in Storage.at(str(folder / "lake")).files(""):
        storage.put(file.path, (folder / "lake" / file.path).read_bytes())
    gone = "messages/queue=orders/consumer=drain/shipment=9/1.parquet"
    storage.put(gone, b"x")
    storage.remove(gone)
    assert f"lake/{gone.rpartition('/')[0]}/" in object_store.names(bucket)
    [block] = [block for block in BY_OTHERS if _name(block) == name]
    text = block.text.replace('"lake/', f'"s3://{bucket}/lake/')
    assert text != block.text
    _run(block, folder, text, object_store.environ)
