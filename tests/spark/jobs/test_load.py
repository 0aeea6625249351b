"""`load`: every row of the files in the queue once, however often it is run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812

from penstock.spark import folders
from penstock.spark.folders import File
from penstock.spark.jobs import JobFailed, Shape
from penstock.spark.jobs.load import format_of
from penstock.spark.jobs.sends import key_of


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "lines.jsonl"
    path.parent.mkdir()
    path.write_bytes(b'{"a": 1}\n\n{"a": 2, "b": "\xc3\xa9"}\nnot json\n')
    return path


def test_lines_of_json_as_they_stand(plant, lines: Path) -> None:
    summary = plant.load(lines)
    assert (summary.files, summary.messages, summary.stored, summary.repeated) == (1, 3, 3, 0)
    assert plant.bodies("q") == [b"not json", b'{"a": 1}', b'{"a": 2, "b": "\xc3\xa9"}']
    assert {message.content_type for message in plant.client.peek("q").messages} == {"application/json"}


def test_a_second_run_sends_nothing_and_a_new_file_is_sent(plant, lines: Path) -> None:
    plant.load(lines.parent)
    again = plant.load(lines.parent)
    assert (again.stored, again.repeated) == (0, 3)
    (lines.parent / "more.txt").write_bytes(b"a line\n\n")
    assert plant.load(lines.parent).stored == 2
    assert plant.client.queue("q").count.total == 5


def test_a_file_that_has_changed_is_sent(plant, lines: Path) -> None:
    plant.load(lines)
    os.utime(lines, (1_000_000_000, 1_000_000_000))
    assert plant.load(lines).stored == 3


def test_the_number_of_cores_and_the_settings_do_not_matter(plant, tmp_path: Path) -> None:
    rows = plant.spark.range(0, 25_000, 1, 1).select(F.col("id").cast("string").alias("body"))
    rows.write.option("parquet.block.size", 16_384).parquet(str(tmp_path / "rows"))
    shape = Shape(body_column="body")
    assert plant.load(tmp_path / "rows", shape=shape).stored == 25_000
    changed = {
        "spark.sql.files.maxPartitionBytes": "4096",
        "spark.sql.files.openCostInBytes": "1",
        "spark.sql.files.minPartitionNum": "7",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
        "spark.sql.adaptive.enabled": "false",
    }
    before = {name: plant.spark.conf.get(name, None) for name in changed}
    for name, value in changed.items():
        plant.spark.conf.set(name, value)
    try:
        again = plant.load(tmp_path / "rows", shape=shape)
        assert plant.spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "100"
    finally:
        for name, value in before.items():
            plant.spark.conf.unset(name) if value is None else plant.spark.conf.set(name, value)
    assert (again.stored, again.repeated) == (0, 25_000)
    assert plant.client.queue("q").count.total == 25_000


def test_a_run_that_was_cut_short_is_finished(plant, tmp_path: Path) -> None:
    """One of two files was sent; the other follows, and the first is not stored again."""
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{name}\n")
    plant.load(tmp_path / "a.txt")
    summary = plant.load(tmp_path / "a.txt", tmp_path / "b.txt")
    assert (summary.stored, summary.repeated) == (1, 1)
    assert plant.bodies("q") == [b"a", b"b"]


def test_whole_rows_and_columns(plant, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,kind,note\n1,a/b,x\n2,,y\n")
    plant.load(tmp_path / "t.csv")
    plant.load(tmp_path / "t.csv", queue="other", shape=Shape(body_column="note", content_type_column="kind"))
    assert [json.loads(body) for body in plant.bodies("q")] == [
        {"id": "1", "kind": "a/b", "note": "x"},
        {"id": "2", "kind": None, "note": "y"},
    ]
    found = {(message.body, message.content_type) for message in plant.client.peek("other").messages}
    assert found == {(b"x", "a/b"), (b"y", None)}


def test_attributes_and_bytes(plant, tmp_path: Path) -> None:
    rows = plant.spark.createDataFrame(
        [(bytearray(b"\xff\x00"), {"k": "v", "none": None}), (bytearray(b""), None)],
        "data binary, about map<string,string>",
    )
    rows.write.parquet(str(tmp_path / "rows"))
    plant.load(tmp_path / "rows", shape=Shape(body_column="data", attributes_column="about", content_type="x/y"))
    found = {(it.body, str(it.attributes), it.content_type) for it in plant.client.peek("q").messages}
    assert found == {(b"\xff\x00", "{'k': 'v'}", "x/y"), (b"", "{}", "x/y")}


def test_groups_and_dedup_ids(plant, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("customer,order\n7,a\n7,b\n8,a\n,c\n")
    plant.client.create_queue("line", groups="fifo", dedup="window")
    shape = Shape(group_column="customer", dedup_id_column="order")
    summary = plant.load(tmp_path / "t.csv", queue="line", shape=shape)
    assert (summary.messages, summary.stored) == (4, 3)
    found = [(message.json, message.group) for message in plant.client.claim("line", 9)]
    assert sorted(found, key=str) == [
        ({"customer": "7", "order": "a"}, "7"),
        ({"customer": "7", "order": "b"}, "7"),
        ({"customer": None, "order": "c"}, None),
    ]
    assert plant.load(tmp_path / "t.csv", queue="line", shape=shape).repeated == 4


def test_a_shape_is_known_by_what_it_names() -> None:
    assert set(Shape().known()) == {
        "format", "schema", "body_column", "content_type", "content_type_column", "attributes_column",
    }  # fmt: skip
    assert Shape(group_column="a").known() == {**Shape().known(), "group_column": "a"}


def test_a_dry_run_changes_nothing(plant, lines: Path) -> None:
    summary = plant.load(lines, queue="new", create=True, dry_run=True)
    assert (summary.files, summary.stored, summary.created) == (1, 0, True)
    assert {queue.name for queue in plant.client.queues()} == {"q", "other"}


def test_what_cannot_be_loaded(plant, lines: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing at"):
        plant.load(tmp_path / "nowhere")
    with pytest.raises(JobFailed, match="no column x; there are"):
        plant.load(lines.parent / "lines.jsonl", shape=Shape(schema="a int", body_column="x"))
    rows = plant.spark.createDataFrame([(None,)], "body string")
    rows.write.parquet(str(tmp_path / "null"))
    with pytest.raises(JobFailed, match="must not be null"):
        plant.load(tmp_path / "null", shape=Shape(body_column="body"))
    assert plant.bodies("q") == []


@pytest.mark.parametrize(
    ("path", "format_"),
    [("/x/a.parquet", "parquet"), ("a.JSONL", "json"), ("s3a://b/c.csv.gz", "csv"), ("a.log.zst", "text")],
)
def test_the_format_by_the_name(path: str, format_: str) -> None:
    assert format_of(path) == format_


def test_a_name_without_a_format() -> None:
    with pytest.raises(JobFailed, match="does not say its format"):
        format_of("/x.csv/a")


def test_a_key_is_of_the_file_and_nothing_else() -> None:
    file = File("file:/a", 1, 2)
    assert key_of(file, "q", []) == key_of(File("file:/a", 1, 2), "q", [])
    others = [File("file:/b", 1, 2), File("file:/a", 2, 2), File("file:/a", 1, 3)]
    assert len({key_of(it, "q", []) for it in [file, *others]} | {key_of(file, "p", []), key_of(file, "q", [1])}) == 6


def test_files_are_found_with_what_they_are(spark, lines: Path) -> None:
    [found] = folders.files(spark, str(lines.parent))
    assert (found.path, found.bytes) == (f"file:{lines}", lines.stat().st_size)
    assert found.modified_at == lines.stat().st_mtime_ns // 1_000_000
