"""`dedup`: the earliest of each key, and the lake as it was."""

from __future__ import annotations

import pytest

from penstock.spark import folders
from penstock.spark.jobs import JobFailed, Run, dedup


def single(plant) -> list[bytes]:
    return sorted(bytes(row.body) for row in plant.spark.read.parquet(str(plant.folder / "single")).collect())


def test_by_content(plant) -> None:
    plant.send("q", "a", "b", "a")
    plant.send("other", "a")
    plant.drain()
    plant.drain("other")
    before = folders.files(plant.spark, plant.root)
    assert plant.dedup(dry_run=True).duplicates == 1
    assert not (plant.folder / "single").exists()
    for _ in range(2):
        summary = plant.dedup()
        assert (summary.messages, summary.kept, summary.duplicates) == (4, 3, 1)
        assert single(plant) == [b"a", b"a", b"b"]
    assert plant.dedup(queue="q").kept == 2
    assert folders.files(plant.spark, plant.root) == before


def test_by_attribute_and_by_json(plant) -> None:
    for number, key in enumerate(["x", "x", "y"]):
        plant.send("q", f'{{"o": {{"id": "{key}"}}, "n": {number}}}', attributes={"order": key})
    plant.send("q", "none", "other")
    plant.drain()
    for by in ("attribute:order", "json:$.o.id", "json:o.id"):
        summary = plant.dedup(by=by)
        assert (summary.kept, summary.without_key) == (4, 2)
        assert single(plant) == [b"none", b"other", b'{"o": {"id": "x"}, "n": 0}', b'{"o": {"id": "y"}, "n": 2}']


def test_what_it_refuses(plant) -> None:
    with pytest.raises(JobFailed, match="is not a key"):
        plant.dedup(by="colour")
    for to in (plant.root, f"{plant.root}/messages/x", f"{plant.root}/ledger/"):
        with pytest.raises(JobFailed, match="never changes"):
            dedup(plant.root, to, run=Run(plant.spark))
