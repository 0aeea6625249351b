"""`load`: every row of the files in the queue once, however often it is run."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.spark import folders
from penstock.spark.folders import File
from penstock.spark.jobs import JobFailed, Run, Shape, load, parts
from penstock.spark.jobs.drafts import Drafting
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


def test_the_number_of_cores_and_the_files_beside_do_not_matter(plant, tmp_path: Path) -> None:
    """In one job of two tasks with other files, and in another by itself."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for name in "abc":
        bodies = pa.array([f"{name} {number}" for number in range(25_000)], pa.string())
        pq.write_table(pa.table({"body": bodies}), folder / f"{name}.parquet", row_group_size=7_000)
    shape = Shape(body_column="body")
    server, sources = plant.server, [str(folder)]
    loaded = load(server, sources, "q", shape=shape, run=Run(plant.spark, partitions=1))
    assert (loaded.files, loaded.stored) == (3, 75_000)
    again = load(server, [f"{folder}/b.parquet"], "q", shape=shape, run=Run(plant.spark, partitions=7))
    assert (again.stored, again.repeated) == (0, 25_000)
    assert plant.client.queue("q").count.total == 75_000


def test_all_files_are_one_job(plant, tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.txt").write_text(f"{number}\n")
    context = plant.spark.sparkContext
    context.setJobGroup("load", "of this test")
    plant.load(tmp_path / "*.txt")
    context.setLocalProperty("spark.jobGroup.id", None)
    # One job lists the files, one sends them.
    assert len(context.statusTracker().getJobIdsForGroup("load")) == 2
    assert plant.client.queue("q").count.total == 20


@pytest.mark.parametrize("format_", ["text", "csv", "parquet"])
def test_the_parts_of_a_file_are_the_file(format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 1_000)
    monkeypatch.setattr(parts, "_BLOCK_BYTES", 77)
    rows = [f"{number},{'x' * (number % 50)}" for number in range(500)]
    path = tmp_path / "file"
    if format_ == "parquet":
        pq.write_table(pa.table({"a": rows}), path, row_group_size=20)
    else:
        path.write_text("\ufeffa,b\n" + "\r\n".join(rows))
    found = parts.parts_of(File(str(path), path.stat().st_size, 0))
    assert len(found) > 5
    assert [found[0].start, found[-1].stop] == [0, path.stat().st_size]
    if format_ == "text":
        read = [line.decode() for part in found for lines in parts.read_lines(part) for line in lines][1:]
    elif format_ == "csv":
        read = [
            f"{row['a']},{row['b'] or ''}"
            for part in found
            for batch in parts.read_csv(part)
            for row in batch.to_pylist()
        ]
    else:
        read = [value for part in found for batch in parts.read_parquet(part) for value in batch["a"].to_pylist()]
    assert read == rows


@pytest.mark.parametrize("ending", ["gz", "bz2", "zst", "lz4", "deflate"])
def test_packed_files(plant, ending: str, tmp_path: Path) -> None:
    text = b"".join(b"line %d\n" % number for number in range(3_000))
    path = tmp_path / f"lines.txt.{ending}"
    if ending == "deflate":
        path.write_bytes(zlib.compress(text))
    else:
        with pa.output_stream(str(path), compression=parts.PACKED[ending]) as packing:
            packing.write(text)
    if ending in ("gz", "bz2"):  # as `cat` makes it of two
        path.write_bytes(path.read_bytes() * 2)
        text *= 2
    [whole] = parts.parts_of(File(str(path), path.stat().st_size, 0))
    assert [line for lines in parts.read_lines(whole) for line in lines] == text.splitlines()
    if ending == "gz":
        assert plant.load(path).stored == 6_000


def test_lines_as_hadoop_ends_them(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"\xef\xbb\xbfa\r\n\xffb\rc\n\nlast")
    [part] = parts.parts_of(File(f"file:{path}", path.stat().st_size, 0))
    assert [line for lines in parts.read_lines(part) for line in lines] == [b"a", b"\xffb", b"c", b"", b"last"]


def test_a_file_that_changes_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n")
    [part] = parts.parts_of(File(f"file:{path}", 3, 0))
    with pytest.raises(JobFailed, match="it changes while it is loaded"):
        list(parts.read_lines(part))


def test_names_that_are_not_plain(plant, tmp_path: Path) -> None:
    path = tmp_path / "a b" / "100% ü#?.txt"
    path.parent.mkdir()
    path.write_text("a\n")
    assert plant.load(path.parent).stored == 1


def test_an_empty_file(plant, tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    pq.write_table(pa.table({"a": pa.array([], pa.string())}), tmp_path / "b.parquet")
    assert plant.load(tmp_path / "a.txt", tmp_path / "b.parquet").messages == 0


def test_rows_of_all_types_as_json(tmp_path: Path) -> None:
    instant = datetime.datetime(2024, 1, 2, 3, 4, 5, 678_000, datetime.UTC)
    row = {
        "text": "é", "bytes": b"\xff", "number": 1, "float": 1.5, "yes": True, "nothing": None, "day": instant.date(),
        "at": instant, "decimal": decimal.Decimal("1.50"), "list": [1, None], "map": {"k": 1},
        "struct": {"a": {"b": 2}},
    }  # fmt: skip
    table = pa.Table.from_pylist([row]).set_column(10, "map", pa.array([row["map"]], pa.map_(pa.string(), pa.int64())))
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    [part] = parts.parts_of(File(str(tmp_path / "a.parquet"), (tmp_path / "a.parquet").stat().st_size, 0))
    [batch] = Drafting("parquet", Shape(), None).read(part)
    assert batch.to_pylist() == [{"body": batch["body"][0].as_py(), "content_type": "application/json"}]
    assert json.loads(batch["body"][0].as_py(), parse_float=decimal.Decimal) == {
        **row, "bytes": "/w==", "float": decimal.Decimal("1.5"), "day": "2024-01-02",
        "at": "2024-01-02T03:04:05.678000Z",
    }  # fmt: skip
    [batch] = Drafting("parquet", Shape(body_column="at", group_column="number", attributes_column="map"), None).read(
        part
    )
    assert batch.to_pylist() == [{"body": b"2024-01-02T03:04:05.678000Z", "attributes": [("k", "1")], "group": "1"}]


def test_fields_of_json_as_they_stand(plant, lines: Path) -> None:
    lines.write_text('{"b": {"x": 1.50}, "a": {"n": 1, "t": "v", "z": null}, "g": 7}\n{"b": "text", "g": "8"}\n')
    shape = Shape(body_column="b", attributes_column="a", group_column="g")
    plant.load(lines, shape=shape)
    found = {(it.body, it.content_type, str(it.attributes), it.group) for it in plant.client.peek("q").messages}
    assert found == {
        (b'{"x": 1.50}', "application/json", "{'n': '1', 't': 'v'}", "7"),
        (b"text", None, "{}", "8"),
    }
    plant.load(lines, queue="other", shape=Shape(attributes_column="a"))
    assert plant.bodies("other") == [b'{"b":"text","g":"8"}', b'{"b":{"x": 1.50},"g":7}']


def test_a_schema(plant, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('x,y,z\n1,2024-01-02 03:04:05,"a ""b"" c"\n2,2024-01-02T03:04:05Z,""\n')
    plant.load(tmp_path / "t.csv", shape=Shape(schema="id int, at timestamp, note string"))
    assert [json.loads(body) for body in plant.bodies("q")] == [
        {"id": 1, "at": "2024-01-02T03:04:05Z", "note": 'a "b" c'},
        {"id": 2, "at": "2024-01-02T03:04:05Z", "note": ""},
    ]


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
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "short.csv").write_text("a,b\n1\n")
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    objects = tmp_path / "objects.jsonl"
    objects.write_text('{"a": 1}\n')
    for path, shape, text in [
        (lines, Shape(body_column="a"), "a line is not a JSON object"),
        (objects, Shape(schema="a int", body_column="x"), "no column x; there are a"),
        (objects, Shape(schema="a boolean", body_column="a"), "does not fit the schema"),
        (objects, Shape(body_column="x"), "must not be null"),
        (tmp_path / "t.csv", Shape(body_column="x"), "no column x; there are a, b"),
        (tmp_path / "t.csv", Shape(schema="a int, b date"), "column b does not fit the schema"),
        (tmp_path / "t.csv", Shape(schema="a int"), "the schema has 1 columns, and the file 2"),
        (tmp_path / "t.csv", Shape(body_column="a", attributes_column="b"), "attributes are a JSON object"),
        (tmp_path / "short.csv", Shape(), "Expected 2 columns, got 1"),
        (tmp_path / "twice.csv", Shape(), "two columns have the same name"),
        (lines, Shape(format="parquet"), "magic bytes"),
    ]:
        with pytest.raises(JobFailed, match=text) as caught:
            plant.load(path, shape=shape)
        assert str(path) in str(caught.value)
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
