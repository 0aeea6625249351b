"""A disk that is full and is freed again, many times: filled by our own messages, or by the files of others.

Sends stop, nothing is lost, and all goes on by itself as soon as there is room. Where we have filled it ourselves, what
was sent can be claimed and acked meanwhile, because a store keeps a reserve for that.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from soak import device
from soak.fault import Counts, Fault, Round, Violation
from soak.file_stores import STORES, Store
from soak.history import OK
from soak.script import Plain
from soak.warm import warm_servers

# What a store may fill, beyond what it keeps as its reserve.
_ROOM = {"ext4": 0, "xfs": 48 << 20}
_MEGABYTES = {"ext4": 32, "xfs": 300}
_BODY = 60_000
# So many messages are larger than the whole disk.
_MOST_INSIDE = 6_000
_CYCLES_PER_ROUND = 6
_PATIENCE_S = 60


@dataclass(frozen=True)
class Full:
    store: Store
    goal: int = 100
    unit: str = "times full"
    short: int = 2

    @property
    def name(self) -> str:
        return f"disk-full-{self.store.name}"

    @property
    def how(self) -> str:
        return f"{self.store.title} on a small ext4 or XFS, filled by its own messages or by other files, and freed"

    def run(self, round: Round) -> Counts:
        kind = ("ext4", "xfs")[round.seed % 2]
        folder = device.in_memory("disk")
        counts = Counts()
        try:
            image = device.make_image(folder / "image", kind, _MEGABYTES[kind])
            servers = warm_servers()
            with device.mounted(image, folder / "mount") as mount:
                _leave_room(mount, _ROOM[kind])
                opened = self.store.open(mount, servers, folder / "life.log")
                try:
                    disk = Disk(mount, opened.plain(round.history.recorder("c0")))
                    for number in range(min(round.left, _CYCLES_PER_ROUND)):
                        ways = (disk.fill_by_messages, disk.fill_by_others)
                        way = ways[(round.seed // 2 + number) % 2]
                        way(number)
                        counts.done += 1
                        counts.notes[f"{kind} {way.__name__.rpartition('_')[2]}"] += 1
                finally:
                    opened.kill()
                disk.remove_others()
                life = list(round.history.events())
                after = folder / "after.log"
                self.store.look(mount, servers, after, round.history.recorder("after"), life)
                round.judge(counts)
        except AssertionError as error:
            counts.done += 1
            raise Violation([str(error)], counts) from error
        finally:
            if (folder / "life.log").exists():
                shutil.copy(folder / "life.log", round.folder)
            shutil.rmtree(folder, ignore_errors=True)
        return counts


class Disk:
    """A client of a store on a small disk, and what else is there."""

    def __init__(self, mount: Path, client: Plain) -> None:
        self._mount = mount
        self._client = client
        self._others = mount / "others"
        self._client.make()

    def fill_by_messages(self, number: int) -> None:
        """Until the store says no; then half of them are worked on, and the rest when there is room again."""
        taken = 0
        while self._client.send(_BODY) == OK:
            taken += 1
        assert taken > 20, f"only {taken} messages fit, the {number + 1}. time"
        for _ in range(taken // 2):
            self._client.work()
        self._wait_for_room()
        while self._client.work(may_be_empty=True):
            pass

    def fill_by_others(self, number: int) -> None:
        """To the last block, and into the reserve. What is asked meanwhile may be refused, and is not lost."""
        for _ in range(10):
            assert self._client.send(500) == OK, "a disk with room takes messages"
        _fill(self._others)
        refused = 0
        for _ in range(20):
            refused += self._client.send(_BODY) != OK
            self._client.try_to_work()
        # A file may have room inside, which earlier messages have left; but not forever.
        for _ in range(_MOST_INSIDE):
            if refused:
                break
            refused += self._client.send(_BODY) != OK
        assert refused, "a full disk has taken everything"
        self.remove_others()
        self._wait_for_room()
        while self._client.work(may_be_empty=True):
            pass

    def remove_others(self) -> None:
        self._others.unlink(missing_ok=True)

    def _wait_for_room(self) -> None:
        until = time.monotonic() + _PATIENCE_S
        while self._client.send(500) != OK:
            assert time.monotonic() < until, "there is room again, and sends are still refused"
            time.sleep(0.01)


def _fill(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    os.write(descriptor, bytes(size))
            except OSError:
                continue
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _leave_room(mount: Path, room: int) -> None:
    """The smallest XFS is larger than what is to be filled."""
    free = os.statvfs(mount)
    with (mount / "ballast").open("wb") as ballast:
        if room and (size := free.f_bavail * free.f_frsize - room) > 0:
            os.posix_fallocate(ballast.fileno(), 0, size)


FAULTS: list[Fault] = [Full(store) for store in STORES]
