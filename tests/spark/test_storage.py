"""Storage: a file is there as a whole or not at all, on a disk and in an object store."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from devtools.object_store import ObjectStore, environ_for
from penstock.spark.errors import JobFailed
from penstock.spark.storage import Storage
from tests.spark.faults.gate import Gate

# Large enough to be sent in two parts.
_LARGE = 11_000_000


def _in(storage: Storage, store: ObjectStore | None = None) -> dict[str, bytes]:
    """All files below the root, by nothing of the storage's."""
    if store is None:
        root = Path(storage.root)
        return {str(it.relative_to(root)): it.read_bytes() for it in root.rglob("*") if it.is_file()}
    bucket, _, folder = storage.root.removeprefix("s3://").partition("/")
    found = store.objects(bucket)
    return {name.removeprefix(f"{folder}/"): data for name, data in found.items() if not name.endswith("/")}


@pytest.fixture
def in_objects(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Storage:
    for name, value in object_store.environ.items():
        monkeypatch.setenv(name, value)
    return Storage.at(f"s3://{object_store.new_bucket()}/deep/lake/")


@pytest.fixture(params=["disk", "objects"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Storage, ObjectStore | None]:
    if request.param == "disk":
        return Storage.at(str(tmp_path / "lake")), None
    return request.getfixturevalue("in_objects"), request.getfixturevalue("object_store")


@pytest.fixture
def gate(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """On the way to the object store."""
    gate = Gate(object_store.url)
    for name, value in environ_for(gate.url).items():
        monkeypatch.setenv(name, value)
    yield gate
    gate.close()


def test_a_file_is_put_read_and_removed(kept: Any) -> None:
    storage, store = kept
    storage.check()
    assert storage.read("a/b=1/c.json") is None
    assert storage.size("a/b=1/c.json") is None
    assert storage.names("a") == []
    assert storage.files("a") == []
    storage.put("a/b=1/c.json", b"first")
    storage.put("a/b=1/c.json", b"second")
    storage.put("a/d", b"x")
    assert _in(storage, store) == {"a/b=1/c.json": b"second", "a/d": b"x"}
    assert storage.read("a/b=1/c.json") == b"second"
    assert storage.size("a/b=1/c.json") == 6
    assert storage.names("a") == ["b=1", "d"]
    assert [(it.path, it.bytes) for it in storage.files("a")] == [("a/b=1/c.json", 6), ("a/d", 1)]
    storage.remove("a/b=1/c.json")
    storage.remove("a/b=1/c.json")
    assert _in(storage, store) == {"a/d": b"x"}
    assert [it.path for it in storage.files("a")] == ["a/d"]


def test_a_task_has_the_same(kept: Any) -> None:
    storage, _ = kept
    storage.put("a", b"x")
    assert pickle.loads(pickle.dumps(storage)).read("a") == b"x"


def test_a_large_file_arrives_as_it_was(kept: Any) -> None:
    storage, store = kept
    data = os.urandom(_LARGE)
    storage.put("a/large", data)
    assert _in(storage, store) == {"a/large": data}
    with storage.open("a/large") as file:
        file.seek(_LARGE - 10)
        assert file.read() == data[-10:]


def test_what_was_not_written_well_does_not_appear(kept: Any) -> None:
    storage, store = kept
    storage.put("a", b"whole")
    writing = storage.writing("a")
    Path(writing.__enter__()).write_bytes(b"ha")
    assert not writing.__exit__(OSError, OSError("the disk is full"), None)
    assert _in(storage, store) == {"a": b"whole"}


@pytest.mark.parametrize("refused", ["PUT .*partNumber=2", "POST .*uploads", "POST .*uploadId", "PUT .*/deep/lake/a$"])
def test_a_store_that_refuses_a_part_has_nothing_new(refused: str, gate: Gate, object_store: ObjectStore) -> None:
    """Arrow would complete what it has begun: by a file that lacks a part, or is empty, in the place of a whole one."""
    storage = Storage.at(f"s3://{object_store.new_bucket()}/deep/lake")
    data = os.urandom(_LARGE)
    storage.put("a", data)
    gate.refuse(refused)
    with pytest.raises(OSError, match="AWS Error"):
        storage.put("a", os.urandom(_LARGE))
    found = _in(storage, object_store)
    assert {name: it for name, it in found.items() if not name.startswith("_staging/")} == {"a": data}


def test_what_a_dead_writer_has_left_is_cleared_after_a_while(kept: Any, tmp_path: Path) -> None:
    storage, store = kept
    storage.put("a", b"x")
    storage.put("_staging/young", b"half")
    storage.clear_staging()
    assert _in(storage, store) == {"a": b"x", "_staging/young": b"half"}
    storage.clear_staging(timedelta(seconds=-60))
    assert _in(storage, store) == {"a": b"x"}


def test_a_file_that_is_being_written_takes_no_place_on_this_machine_once_its_writer_is_dead(
    in_objects: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with in_objects.writing("a") as name:
        Path(name).write_bytes(b"x")
        assert list(tmp_path.iterdir()) == []
    assert in_objects.read("a") == b"x"


@pytest.mark.parametrize(
    "address",
    [
        "s3://key:secret@bucket/lake",
        "s3://key@bucket/lake",
        "s3a://bucket/lake?secret_key=x",
        "abfs://:password@account.blob.core.windows.net/container/lake",
    ],
)
def test_an_address_may_not_hold_credentials(address: str) -> None:
    with pytest.raises(JobFailed, match="environment") as refused:
        Storage.at(address)
    assert "secret@" not in str(refused.value)
    assert "password" not in str(refused.value)


def test_an_address_may_say_where_the_store_is(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    bucket, place = object_store.new_bucket(), object_store.url.removeprefix("http://")
    storage = Storage.at(f"s3a://{bucket}/lake/?endpoint_override={place}&scheme=http")
    storage.check()
    storage.put("a", b"x")
    assert object_store.objects(bucket)["lake/a"] == b"x"
    assert storage.address("a") == f"s3a://{bucket}/lake/a"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("s3://no-such-bucket/lake", "cannot be reached: there is no no-such-bucket"),
        ("ftp://host/lake", "no storage answers to ftp://host/lake"),
        ("s3://bucket/lake?size=7", "size"),
        ("", "needs a path"),
    ],
)
def test_an_address_where_nobody_is(address: str, why: str, in_objects: Storage) -> None:
    with pytest.raises(JobFailed, match=why) as refused:
        Storage.at(address).check()
    assert "\n" not in str(refused.value)


def test_a_store_that_does_not_answer(object_store: ObjectStore, gate: Gate) -> None:
    bucket = object_store.new_bucket()
    gate.lead_to(None)
    with pytest.raises(JobFailed, match="cannot be reached") as refused:
        Storage.at(f"s3://{bucket}/lake").check()
    assert "\n" not in str(refused.value)
