"""The states of a file, sentence by sentence as the document has them."""

from __future__ import annotations

import os
import time

import pytest

from penstock.vsqs import Queue, disk
from tests.vsqs.conftest import START_MS, drain, files

# New


def test_a_message_is_one_file_named_after_the_current_time(queue, path, clock):
    id_ = queue.publish(b"hello")
    assert START_MS <= int(id_) < clock.ms
    assert files(path) == [id_]
    assert (path / id_).read_bytes() == b"hello"


def test_it_is_written_as_new_and_renamed_when_it_is_whole(queue, path, monkeypatch):
    seen = []
    sync = disk.sync

    def looking(descriptor: int) -> None:
        kind = "directory" if descriptor == queue._directory else "file"
        seen.append((kind, files(path), [(path / name).read_bytes() for name in files(path)]))
        sync(descriptor)

    monkeypatch.setattr(disk, "sync", looking)
    id_ = queue.publish(b"hello")
    # The payload is synced before the rename, the directory after it.
    assert seen == [("file", [f"{id_}.new"], [b"hello"]), ("directory", [id_], [b"hello"])]


def test_a_name_that_is_being_written_is_left_to_its_owner(queue, path, clock):
    taken = path / f"{clock.ms}.new"
    taken.write_bytes(b"another's")
    clock.step_ns = 300_000
    assert int(queue.publish(b"mine")) == START_MS + 1
    assert taken.read_bytes() == b"another's"


@pytest.mark.parametrize("state", ["", ".99999999999999"])
def test_a_number_that_is_used_in_another_state_is_not_used_again(opened, path, clock, state):
    queue, other = opened(), opened()
    other.publish(b"so that both have looked")
    queue.publish(b"so that both have looked")
    number = clock.ms + 1
    (path / f"{number}{state}").write_bytes(b"another's")
    clock.step_ns = 300_000
    assert int(queue.publish(b"mine")) == number + 1
    assert (path / f"{number}{state}").read_bytes() == b"another's"
    assert not [name for name in files(path) if name.endswith(".new")]


def test_an_id_is_not_used_again_within_its_millisecond(opened, clock):
    queue, other = opened(), opened()
    queue.publish(b"so that both have looked")
    clock.step_ns = 0
    clock.pass_(1)
    id_ = other.publish(b"short-lived")
    clock.step_ns = 300_000
    assert other.receive()[1] == b"so that both have looked"
    assert other.receive() == (id_, b"short-lived")
    assert other.delete(id_)
    if queue._view.descriptor is not None:
        assert queue.publish(b"later") > id_


@pytest.mark.parametrize("precision", ["ms", "us"])
@pytest.mark.parametrize("others", [1, 2])
def test_an_id_does_not_come_back_to_a_publisher_that_stood_still(opened, path, clock, monkeypatch, precision, others):
    """Between its look at the clock and its file, others publish, receive and delete under that very number."""
    queue, other, consumer = opened(precision=precision), opened(precision=precision), opened()
    clock.step_ns = 50_000
    create, gone = disk.create, []

    def stalled(directory: int, name: str, *rest: int) -> int:
        monkeypatch.setattr(disk, "create", create)
        (path / name.removesuffix(".new")).write_bytes(b"from another host, with the same clock")
        gone.append(name.removesuffix(".new"))
        gone.extend(other.publish(b"x") for _ in range(others - 1))
        clock.pass_(0.002)
        while (received := consumer.receive(timeout=0))[0] is not None:
            assert consumer.delete(received[0])
        return create(directory, name, *rest)

    monkeypatch.setattr(disk, "create", stalled)
    id_ = queue.publish(b"later")
    assert len(gone) == others
    assert id_ not in gone
    assert consumer.receive(timeout=0) == (id_, b"later")


@pytest.mark.parametrize("precision", ["ms", "us"])
def test_a_number_is_published_only_when_its_time_has_passed(opened, monkeypatch, precision):
    """So that no later look at the clock can still choose it."""
    queue = opened(precision=precision, clock=time.time_ns)
    move, moved_ns = queue._renamer.rename, []

    def moving(directory: int, old: str, new: str) -> None:
        moved_ns.append(time.time_ns())
        move(directory, old, new)

    monkeypatch.setattr(queue._renamer, "rename", moving)
    published = [int(queue.publish(b"x")) for _ in range(20)]
    assert all(moved // queue._unit_ns > number for moved, number in zip(moved_ns, published, strict=True))


def test_a_directory_that_is_slow_to_make_files_still_takes_messages(opened, clock, monkeypatch):
    """Numbers are taken ahead of the clock, as far as making a file takes."""
    queue = opened()
    create = disk.create

    def slow(directory: int, name: str, *rest: int) -> int:
        clock.pass_(0.02)
        return create(directory, name, *rest)

    monkeypatch.setattr(disk, "create", slow)
    published = [queue.publish(b"x") for _ in range(3)]
    assert [int(id_) for id_ in published] == sorted({int(id_) for id_ in published})


def test_microseconds_are_an_option(opened, clock, path):
    precise = opened(precision="us")
    assert START_MS * 1_000 < int(precise.publish(b"")) < clock.ns // 1_000
    id_, _ = precise.receive()
    # The end of a claim is in milliseconds all the same, so that instances of both kinds understand each other.
    assert int(files(path)[0].split(".")[1]) == clock.ms + 10_000
    assert opened().delete(id_)


def test_any_bytes_come_back(queue):
    bodies = [b"", b"\0", bytes(range(256)) * 5000, bytearray(b"array"), memoryview(b"a view")[2:]]
    for body in bodies:
        queue.publish(body)
    assert drain(queue) == [bytes(body) for body in bodies]


def test_a_view_with_steps_is_written_as_it_reads(queue):
    queue.publish(memoryview(b"abcdef")[::2])
    assert drain(queue) == [b"ace"]


# Ready


def test_the_oldest_is_first_by_number_not_by_text(queue, path):
    for number in (100, 99, 1000, 5):
        (path / str(number)).write_bytes(b"%d" % number)
    assert drain(queue) == [b"5", b"99", b"100", b"1000"]


def test_files_with_extensions_are_ignored(queue, path, clock):
    (path / "5.new").write_bytes(b"unfinished")
    (path / f"6.{clock.ms + 1_000_000}").write_bytes(b"claimed")
    assert queue.receive(timeout=0) == (None, None)
    assert files(path) == ["5.new", f"6.{START_MS + 1_000_000}"]


def test_a_claim_is_the_time_of_its_end_as_extension(queue, path, clock):
    id_ = queue.publish(b"x")
    assert queue.receive(visibility_timeout=8.5, timeout=0) == (id_, b"x")
    [name] = files(path)
    assert name.split(".")[0] == id_
    assert clock.ms - 20 <= int(name.split(".")[1]) - 8_500 <= clock.ms


def test_no_one_else_gets_a_claimed_message(opened):
    first, second = opened(), opened()
    first.publish(b"x")
    assert first.receive(timeout=0)[1] == b"x"
    assert second.receive(timeout=0) == (None, None)
    assert first.receive(timeout=0) == (None, None)


def test_the_loser_of_a_race_takes_the_next(opened, monkeypatch):
    first, second = opened(), opened()
    for body in (b"1", b"2", b"3"):
        first.publish(body)
    claimed = []
    open_file = disk.open_file

    def overtaken(directory: int, name: str) -> int | None:
        monkeypatch.setattr(disk, "open_file", open_file)
        descriptor = open_file(directory, name)
        claimed.append(second.receive(timeout=0)[1])
        return descriptor

    monkeypatch.setattr(disk, "open_file", overtaken)
    assert first.receive(timeout=0)[1] == b"2"
    assert claimed == [b"1"]
    assert second.receive(timeout=0)[1] == b"3"


# Deleted


def test_a_deleted_message_is_gone(queue, path, clock):
    id_ = queue.publish(b"x")
    queue.receive(timeout=0)
    assert queue.delete(id_) is True
    assert files(path) == []
    assert queue.delete(id_) is False


@pytest.mark.parametrize("received", [False, True])
def test_delete_finds_a_message_that_the_instance_has_never_seen(opened, path, received):
    id_ = opened().publish(b"x")
    if received:
        opened().receive(timeout=0)
    assert opened().delete(id_) is True
    assert files(path) == []


def test_delete_finds_a_message_whose_claim_has_changed_hands(opened, path, clock):
    first, second = opened(), opened()
    id_ = first.publish(b"x")
    first.receive(1, timeout=0)
    clock.pass_(2)
    assert second.receive(timeout=0)[0] == id_
    assert first.delete(id_) is True
    assert files(path) == []


@pytest.mark.parametrize("extension", ["", ".new", ".99999999999999", ".0", ".bak", ".new.1", ".é\n"])
def test_delete_removes_a_file_whatever_its_extension(queue, path, extension):
    for name in ("5", "50", "6.new", "x5", "5x"):
        (path / name.replace("5", "15")).write_bytes(b"another's")
    (path / f"5{extension}").write_bytes(b"")
    before = files(path)
    assert queue.delete("5") is True
    assert files(path) == sorted(set(before) - {f"5{extension}"})
    assert queue.delete("5") is False


def test_a_message_whose_unfinished_file_is_deleted_is_published_all_the_same(opened, path, monkeypatch):
    queue, other = opened(), opened()
    sync, deleted = disk.sync, []

    def deleting(descriptor: int) -> None:
        if not deleted:
            [unfinished] = files(path)
            deleted.append(unfinished)
            assert other.delete(unfinished.removesuffix(".new"))
        sync(descriptor)

    monkeypatch.setattr(disk, "sync", deleting)
    id_ = queue.publish(b"x")
    assert [id_] != [name.removesuffix(".new") for name in deleted]
    assert drain(other) == [b"x"]


# Requeuing


def test_a_message_comes_back_when_its_time_is_over(opened, clock):
    first, second = opened(), opened()
    id_ = first.publish(b"x")
    first.receive(10, timeout=0)
    clock.pass_(9.9)
    assert second.receive(timeout=0) == (None, None)
    clock.pass_(0.2)
    assert second.receive(timeout=0) == (id_, b"x")


def test_expired_messages_come_before_the_next_in_their_old_order(opened, clock):
    """After requeueing the order holds, also for those that another instance had claimed."""
    first, second = opened(), opened()
    for body in (b"1", b"2", b"3", b"4", b"5"):
        first.publish(body)
    assert second.receive(10, timeout=0)[1] == b"1"
    assert first.receive(10, timeout=0)[1] == b"2"
    assert second.receive(10_000, timeout=0)[1] == b"3"
    clock.pass_(11)
    assert first.receive(10_000, timeout=0)[1] == b"1"
    assert drain(first) == [b"2", b"4", b"5"]


def test_a_claim_that_ends_at_this_very_instant_has_ended(queue, path, clock):
    id_ = queue.publish(b"x")
    clock.step_ns = 0
    (path / id_).rename(path / f"{id_}.{clock.ms + 1}")
    assert queue.receive(timeout=0) == (None, None)
    (path / f"{id_}.{clock.ms + 1}").rename(path / f"{id_}.{clock.ms}")
    assert queue.receive(timeout=0) == (id_, b"x")


def test_a_claim_of_no_time_is_over_at_once(queue, clock):
    id_ = queue.publish(b"x")
    clock.step_ns = 0
    assert queue.receive(0, timeout=0)[0] == id_
    assert queue.receive(0, timeout=0)[0] == id_


def test_claims_that_ended_before_the_instance_was_opened(opened, path):
    path.mkdir(exist_ok=True)
    (path / "7.0").write_bytes(b"7")
    (path / "8.1415776870000").write_bytes(b"8")
    (path / "9").write_bytes(b"9")
    assert drain(opened()) == [b"7", b"8", b"9"]


# Size


def test_size_is_ready_and_in_flight(opened, path):
    queue, other = opened(), opened()
    assert queue.size() == 0
    for _ in range(3):
        queue.publish(b"x")
    other.receive(timeout=0)
    (path / "5.new").write_bytes(b"")
    assert queue.size() == other.size() == 3


# Two messages with one number


def test_two_messages_with_one_number_are_both_delivered(queue, path, clock):
    (path / "5").write_bytes(b"ready")
    (path / "5.1000").write_bytes(b"expired")
    assert queue.size() == 2
    bodies = {queue.receive(timeout=0)[1], queue.receive(timeout=0)[1]}
    assert bodies == {b"ready", b"expired"}
    assert queue.size() == 2
    assert queue.delete("5")
    assert queue.delete("5")
    assert not queue.delete("5")


def test_delete_takes_the_claimed_one_of_two(queue, path, clock):
    (path / "5").write_bytes(b"ready")
    (path / f"5.{clock.ms + 100_000}").write_bytes(b"claimed")
    assert queue.delete("5")
    assert drain(queue) == [b"ready"]


def test_a_directory_that_is_made_lets_in_those_who_may_read_the_messages(path):
    before = os.umask(0)
    try:
        with Queue(path / "own") as own, Queue(path / "shared", mode=0o640) as shared:
            published = path / "own" / own.publish(b"x"), path / "shared" / shared.publish(b"x")
    finally:
        os.umask(before)
    assert [file.stat().st_mode & 0o777 for file in published] == [0o600, 0o640]
    assert [file.parent.stat().st_mode & 0o777 for file in published] == [0o700, 0o750]
