"""Faults of the disk: their short forms, what a power cut may leave, and stores that must be found guilty."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from penstock.vsqs import disk as vsqs_disk
from soak import device
from soak.cuts import Cut, Interval, apply, cuts, intervals, stretch
from soak.fault import Fault, Lacking, Round, Violation
from soak.faults import disk, power, syscalls
from soak.faults.power import UntilCut
from soak.file_stores import VsqsStore
from soak.history import History
from soak.recorder import Event, read_log
from soak.tracing import Point, points
from tests.lacking import lacking


def run(fault: Fault, folder: Path, seed: int) -> int:
    one = Round(folder, seed, fault.short, is_short=True)
    try:
        return fault.run(one).done
    except Lacking as error:
        lacking(str(error))
    finally:
        one.history.close()


def run_many(fault: Fault, folder: Path) -> None:
    for seed in range(20):
        (folder / str(seed)).mkdir(parents=True)
        run(fault, folder / str(seed), seed)


def short_forms(faults: list[Fault]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fault", faults, ids=[fault.name for fault in faults])


@short_forms(power.FAULTS)
def test_what_was_answered_survives_a_power_cut(fault: Fault, tmp_path: Path) -> None:
    """By odd seeds XFS is first, by even ones ext4."""
    assert run(fault, tmp_path, seed=len(fault.name)) == fault.short


@short_forms(syscalls.FAULTS)
def test_what_was_answered_survives_a_fault_at_any_call(fault: Fault, tmp_path: Path) -> None:
    assert run(fault, tmp_path, seed=1) == fault.short


@short_forms(disk.FAULTS)
def test_a_disk_that_is_full_loses_nothing_and_all_goes_on_when_it_is_freed(fault: Fault, tmp_path: Path) -> None:
    assert run(fault, tmp_path, seed=len(fault.name)) == fault.short


# What finds them


def test_a_store_that_does_not_sync_is_found_guilty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vsqs_disk, "sync", lambda descriptor: None)
    for fault in (power.Replay(VsqsStore()), power.Shutdown(VsqsStore())):
        with pytest.raises(Violation, match="lost"):
            run_many(fault, tmp_path / fault.name)


def test_a_device_is_recorded_in_the_order_of_its_writes_and_flushes(tmp_path: Path) -> None:
    try:
        image = device.make_image(tmp_path / "image", "ext4")
        before = image.read_bytes()
        with device.recorded(image, tmp_path / "mount", tmp_path / "log") as mount:
            for number in range(3):
                descriptor = os.open(mount / "file", os.O_RDWR | os.O_CREAT)
                os.pwrite(descriptor, b"%d" % number * 4096, 0)
                os.fsync(descriptor)
                os.close(descriptor)
    except Lacking as error:
        lacking(str(error))
    events = list(read_log(tmp_path / "log"))
    assert [event.at for event in events] == sorted(event.at for event in events)
    contents = [event.data for event in events]
    written = [contents.index(b"%d" % number * 4096) for number in range(3)]
    assert written == sorted(written)
    assert all(None in contents[one:other] for one, other in zip(written, [*written[1:], None], strict=True))
    assert image.read_bytes() == before


# What a power cut may leave


def write(at: float, offset: int, data: bytes) -> Event:
    return Event(at, offset, data)


FLUSH = None
A, B, C = write(1, 4096, b"a" * 1024), write(2, 8192, b"b" * 512), write(4, 4096, b"c" * 512)
RECORDED = [A, B, Event(3, 0, FLUSH), C, Event(5, 0, FLUSH), Event(6, 0, FLUSH)]


def test_writes_are_certain_once_a_flush_has_followed_them() -> None:
    found = intervals(RECORDED, end=5.5)
    assert [(list(interval.writes), interval.until) for interval in found] == [([A, B], 3), ([C], 5), ([], 5.5)]


def test_every_prefix_is_tried_and_some_that_are_torn() -> None:
    [first, *_] = intervals(RECORDED, end=9)
    tried = list(cuts(first, Random(1)))
    assert [list(cut.writes) for cut in tried if cut.kind == "prefix"] == [[], [A], [A, B]]
    [torn] = [cut for cut in tried if cut.kind == "torn"]
    assert {len(event.data or b"") for event in torn.writes} == {512}
    assert {cut.kind for cut in tried} == {"prefix", "subset", "torn"}


def test_of_a_long_life_a_stretch_is_tried_of_a_short_one_all() -> None:
    found = [Interval(number, [A] * (9 if number == 40 else 1), number) for number in range(60)]
    some = {tuple(interval.number for interval in stretch(found, Random(seed), 15)) for seed in range(20)}
    assert tuple(range(37, 44)) in some
    assert all(part == tuple(range(part[0], part[-1] + 1)) and len(part) < 20 for part in some)
    assert list(stretch(found, Random(1), 1_000)) == found


def test_a_cut_is_written_over_what_was_there(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(b"." * 12288)
    [first, second, *_] = intervals(RECORDED, end=9)
    apply(first.writes, image)
    apply(Cut(second, "prefix", second.writes).writes, image)
    assert image.read_bytes()[4096:] == b"c" * 512 + b"a" * 512 + b"." * 3072 + b"b" * 512 + b"." * 3584


def test_what_clients_were_told_after_a_cut_does_not_count(tmp_path: Path) -> None:
    def event(number: int, begin: float, end: float) -> dict:
        return {"client": "c", "n": number, "op": "send", "begin": begin, "end": end, "outcome": "ok", "ids": ["x"]}

    life = [event(1, 1, 2), event(2, 2, 4), event(3, 4, 5)]
    seen = list(UntilCut(life, 3, History(tmp_path), keeps_claims=True).events())
    assert [(one["n"], one["outcome"], one["ids"]) for one in seen] == [(1, "ok", ["x"]), (2, "perhaps", None)]


# Which calls can fail


def test_the_calls_of_a_store_are_counted_thread_by_thread(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text(
        "10 write(2</log>, ...) = 3\n"
        "10 write(5</store/new/q>, ...) = 3\n"
        "11 write(5</store/new/q>,  <unfinished ...>\n"
        '10 openat(AT_FDCWD</>, "/store/q", O_RDONLY) = 7</store/q>\n'
        "11 <... write resumed>) = 3\n"
        '10 openat(AT_FDCWD</>, "/store/r", O_RDWR|O_CREAT, 0600) = 7</store/r>\n'
    )
    found = [point for point in points(trace, Path("/store")) if point.how == "KILL"]
    assert found == [Point("openat", 2, "KILL"), Point("write", 1, "KILL"), Point("write", 2, "KILL")]
