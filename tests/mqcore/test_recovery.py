"""What a process has left behind, and disks that fail."""

from __future__ import annotations

import os
from errno import EIO, ENOSPC
from pathlib import Path

import pytest

from penstock.errors import QueueNotFound, StoreFull, StoreUnavailable
from penstock.model import Draft, Receipt
from tests.mqcore.disk import HOLD_MS, Desk, open_root, remove_abandoned, tree

ID = "00000000-0000-7000-8000-000000000001"


def test_a_whole_message_in_new_is_delivered(desk: Desk, root: Path) -> None:
    desk.create()
    (root / f"new/q:{ID}").write_bytes(b"left")
    assert desk.sweep() == 1
    assert desk.bodies() == [b"left"]


def test_it_is_left_to_its_writer_for_a_while(root: Path) -> None:
    desk = Desk(open_root(root, grace_s=60))
    desk.create()
    (root / f"new/q:{ID}").write_bytes(b"left")
    assert desk.sweep() == 0
    assert tree(root) == {f"new/q:{ID}"}
    desk.store.close()


def test_a_part_of_a_message_is_never_delivered(desk: Desk, root: Path) -> None:
    """A writer that died leaves a file that may not be read yet."""
    desk.create()
    path = root / f"new/q:{ID}"
    path.write_bytes(b"a par")
    path.chmod(0o200)
    assert desk.sweep() == 0
    assert tree(root) == {f"new/q:{ID}"}
    remove_abandoned(root)
    assert desk.bodies() == []
    assert not path.exists()


@pytest.mark.parametrize("folder", ["new", "delay"])
def test_messages_of_a_queue_that_is_gone_are_removed(desk: Desk, root: Path, folder: str) -> None:
    (root / folder / f"q:{ID}").write_bytes(b"stray")
    desk.now = 2**41
    while desk.sweep():
        pass
    assert tree(root) == set()


def test_a_mover_that_is_faster_than_the_writer_does_no_harm(desk: Desk, root: Path, monkeypatch) -> None:
    desk.create()
    rename = os.rename

    def late(source: str, target: str, **folders: int) -> None:
        rename(source, target, **folders)
        rename(source, target, **folders)  # the second finds nothing

    monkeypatch.setattr(os, "rename", late)
    [sent] = desk.send(b"x")
    monkeypatch.undo()
    assert [message.id for message in desk.claim(5)] == [sent]


@pytest.mark.parametrize(("number", "error"), [(EIO, StoreUnavailable), (ENOSPC, StoreFull)])
@pytest.mark.parametrize("call", ["write", "fsync", "rename", "fchmod", "utime"])
def test_a_failing_call_loses_the_unit_and_leaves_nothing_behind(
    desk: Desk, root: Path, monkeypatch, call: str, number: int, error: type[Exception]
) -> None:
    desk.create()
    [ready] = desk.send(b"ready")
    before = tree(root)

    def fail(*_args: object, **_options: object) -> None:
        raise OSError(number, os.strerror(number))

    real = getattr(os, call)
    calls = []

    def fail_once(*args: object, **options: object) -> object:
        calls.append(call)
        return fail() if len(calls) == 1 else real(*args, **options)

    monkeypatch.setattr(os, call, fail_once)

    def live() -> None:
        with desk.store.unit() as unit:
            unit.send("q", [Draft(b"a"), Draft(b"b")], desk.now)
            unit.claim("q", 1, desk.now, HOLD_MS)

    with pytest.raises(error):
        live()
    monkeypatch.undo()
    assert tree(root) - {path for path in tree(root) if path.startswith("remove/")} == before
    # The next unit opens its folders again.
    assert desk.bodies() == [b"ready"]
    assert desk.ack(ready) == [True]


def test_a_failed_sync_of_a_folder_acknowledges_nothing(desk: Desk, root: Path, monkeypatch) -> None:
    desk.create()
    fsync = os.fsync

    def fail(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(EIO, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreUnavailable):
        desk.send(b"x")
    monkeypatch.undo()
    assert desk.bodies() == []


def test_a_root_that_has_gone_is_unavailable_and_comes_back(desk: Desk, root: Path) -> None:
    desk.create()
    desk.send(b"x")
    os.rename(root, root.with_name("aside"))
    # Held open, it would still be there under another name; after a failure the folders are opened again.
    desk.store._broken = True
    with pytest.raises(QueueNotFound):
        desk.claim()
    os.rename(root, root.with_name("empty"))
    os.rename(root.with_name("aside"), root)
    desk.store._broken = True
    assert desk.bodies() == [b"x"]


def test_a_full_disk_has_no_room(desk: Desk, monkeypatch) -> None:
    assert desk.store.has_room()
    full = os.statvfs_result((4096, 4096, 1000, 10, 10, 100, 50, 50, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _path: full)
    assert not desk.store.has_room()


def test_many_messages_in_one_unit_need_few_open_files(desk: Desk) -> None:
    desk.create()
    assert len(desk.send(*([b"x"] * 1_500))) == 1_500
    assert len(desk.claim(2_000)) == 1_500


def test_deleted_and_made_again_queues_leak_no_descriptors(desk: Desk) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        desk.create()
        desk.send(b"x")
        desk.delete()
    desk.sweep()
    assert len(os.listdir("/proc/self/fd")) <= before + 3


def test_a_lost_unit_leaves_acked_and_claimed_messages_in_their_place(desk: Desk) -> None:
    desk.create()
    first, second, third = desk.send(b"1", b"2", b"3")
    [claimed] = desk.claim()

    def lose() -> None:
        with desk.store.unit() as unit:
            unit.ack([Receipt(message_id, queue="q") for message_id in (first, second)], desk.now)
            assert [message.id for message in unit.claim("q", 2, desk.now, HOLD_MS).messages] == [third]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lose()
    assert claimed.id == first
    assert desk.bodies() == [b"2", b"3"]
    desk.now += HOLD_MS
    assert desk.bodies() == [b"1", b"2", b"3"]
