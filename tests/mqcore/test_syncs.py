"""One round of syncs serves a whole unit, by whichever way is cheaper, and neither way hides a failure."""

from __future__ import annotations

import os
from errno import EIO
from pathlib import Path

import pytest

from penstock.errors import StoreUnavailable
from penstock.stores.mqcore.syncs import Syncs
from tests.mqcore.disk import Desk, tree


@pytest.fixture
def synced(monkeypatch) -> list[int]:
    """The inodes that were synced one by one."""
    inodes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: inodes.append(os.fstat(descriptor).st_ino))
    return inodes


def test_one_round_for_each_unit(desk: Desk, synced: list[int]) -> None:
    desk.create()
    synced.clear()
    desk.send(*([b"x"] * 5))
    assert len(synced) == len(set(synced)) == 5 + 2  # the files; new and the queue
    synced.clear()
    messages = desk.claim(5)
    assert len(synced) == 2  # the queue and delay
    synced.clear()
    desk.ack(*(message.id for message in messages))
    assert len(synced) == 2  # delay and remove


def test_many_files_are_synced_in_one_call(desk: Desk, synced: list[int], monkeypatch) -> None:
    whole: list[int] = []
    monkeypatch.setattr(desk.store._syncs, "_whole", whole.append)
    desk.create()
    synced.clear()
    desk.send(*([b"x"] * 64))
    assert len(whole) == 1
    assert len(synced) == 2


def test_a_failed_sync_of_the_file_system_acknowledges_nothing(desk: Desk, root: Path, monkeypatch) -> None:
    def fail(_folder: int) -> None:
        raise OSError(EIO, "Input/output error")

    desk.create()
    monkeypatch.setattr(desk.store._syncs, "_whole", fail)
    with pytest.raises(StoreUnavailable):
        desk.send(*([b"x"] * 64))
    assert tree(root) == set()
    monkeypatch.undo()
    assert len(desk.send(*([b"x"] * 64))) == 64


def test_a_failed_sync_among_many_is_told(tmp_path: Path, monkeypatch) -> None:
    files = [os.open(tmp_path / str(number), os.O_CREAT | os.O_WRONLY) for number in range(20)]
    fsync = os.fsync

    def fail(descriptor: int) -> None:
        if descriptor == files[13]:
            raise OSError(EIO, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    syncs = Syncs(4)
    with pytest.raises(OSError, match="Input/output error"):
        syncs.sync(files)
    syncs.close()
    for descriptor in files:
        os.close(descriptor)


@pytest.mark.parametrize("whole_is_slow", [True, False])
def test_the_cheaper_way_is_taken_and_the_other_tried_again(tmp_path: Path, monkeypatch, whole_is_slow: bool) -> None:
    now = [0.0]
    taken: list[str] = []

    def spend(way: str, seconds: float) -> None:
        taken.append(way)
        now[0] += seconds

    syncs = Syncs(2, lambda: now[0])
    monkeypatch.setattr(syncs, "_whole", lambda _folder: spend("whole", 1.0 if whole_is_slow else 0.01))
    monkeypatch.setattr(syncs, "sync", lambda _files: spend("each", 0.1))
    for _ in range(100):
        syncs.sync_files(list(range(64)), 0)
    syncs.close()
    cheaper, dearer = ("each", "whole") if whole_is_slow else ("whole", "each")
    assert taken.count(cheaper) > 90
    assert taken[10:].count(dearer) in (2, 3)
