"""What lies in the directory and is none of ours: ignored, never followed, never removed. And our own leftovers."""

from __future__ import annotations

import os
import time

import pytest

from penstock.vsqs import Queue
from tests.vsqs.conftest import drain, files

NAMES = [
    ".hidden", "notes.txt", "-5", "+5", "05", "5.", "5.new.new", "5.old", ".5", "5.05", "5.5.5", "٥", "5 ", "1e3",
    "12345678901234567890", "x" * 200,
]  # fmt: skip


@pytest.mark.parametrize("early", [True, False])
def test_names_that_do_not_parse(opened, path, early):
    queue = opened()
    if not early:
        queue.publish(b"first")
    for name in NAMES:
        (path / name).write_bytes(b"mine")
    queue.publish(b"x")
    assert drain(queue) == ([b"x"] if early else [b"first", b"x"])
    assert queue.size() == 0
    assert files(path) == sorted(NAMES)


@pytest.mark.parametrize("early", [True, False])
def test_links_folders_and_pipes_are_left_alone(opened, path, tmp_path, early):
    secret = tmp_path / "secret"
    secret.write_bytes(b"not a message")
    queue = opened(sweep_after=0)
    if not early:
        assert queue.size() == 0
    (path / "1").symlink_to(secret)
    (path / "2").mkdir()
    os.mkfifo(path / "3")
    (path / "4").symlink_to("nowhere")
    (path / "5.1000").symlink_to(secret)
    (path / "6.1000").mkdir()
    (path / "7.new").symlink_to(secret)
    queue.publish(b"x")
    assert drain(queue) == [b"x"]
    for id_ in "1234567":
        assert queue.delete(id_) is False
    assert files(path) == ["1", "2", "3", "4", "5.1000", "6.1000", "7.new"]
    assert secret.read_bytes() == b"not a message"
    assert queue.size() == 0


def test_ids_cannot_lead_out_of_the_directory(queue, path, tmp_path):
    (tmp_path / "5").write_bytes(b"precious")
    for id_ in ("../5", "./5", "5/", "/5", "", ".", "..", "5.new", "5.6", "05", "x"):
        with pytest.raises(ValueError, match="not a message id"):
            queue.delete(id_)
    with pytest.raises(TypeError):
        queue.delete(5)
    assert (tmp_path / "5").exists()


def test_leftovers_of_dead_publishers_are_swept_when_they_are_old(path, watch):
    now = time.time()
    path.mkdir()
    for name, age in {"5.new": 3700, "6.new": 3500, "7": 9999, "8.99999999999999": 9999, "x.new": 9999}.items():
        (path / name).write_bytes(b"")
        os.utime(path / name, (now - age, now - age))
    with Queue(path, watch=watch) as queue:
        assert queue.receive(timeout=0)[0] == "7"
        assert [name for name in files(path) if name.endswith(".new")] == ["6.new", "x.new"]


def test_a_publisher_sweeps_too_and_the_age_is_a_setting(path, watch):
    path.mkdir()
    (path / "5.new").write_bytes(b"")
    with Queue(path, sweep_after=0, watch=watch) as queue:
        time.sleep(0.01)
        id_ = queue.publish(b"x")
        assert files(path) == [id_]


def test_a_publisher_whose_unfinished_file_was_swept_writes_it_again(queue, path, monkeypatch):
    from penstock.vsqs import disk

    sync = disk.sync

    def swept(descriptor: int) -> None:
        monkeypatch.setattr(disk, "sync", sync)
        for name in files(path):
            (path / name).unlink()

    monkeypatch.setattr(disk, "sync", swept)
    id_ = queue.publish(b"x")
    assert queue.receive(timeout=0) == (id_, b"x")


def test_what_is_copied_into_the_directory_is_a_message(queue, path):
    """Such as the files of a backup."""
    assert queue.receive(timeout=0) == (None, None)
    (path / "5").write_bytes(b"restored")
    assert queue.receive(timeout=0) == ("5", b"restored")


def test_a_queue_in_a_directory_that_was_removed_says_so(queue, path):
    queue.publish(b"x")
    drain(queue)
    path.rmdir()
    with pytest.raises(FileNotFoundError):
        queue.publish(b"x")


def test_a_path_that_is_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "queue"):
        with pytest.raises(OSError, match="Not a directory"):
            Queue(path)


def test_missing_parents_are_made(tmp_path):
    with Queue(tmp_path / "a" / "b" / "c") as queue:
        queue.publish(b"x")
        assert queue.size() == 1
