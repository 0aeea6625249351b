"""Power cuts: a file system of our own is shut down without its log, so that whatever was not synced is lost."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.vsqs import Queue
from tests.lacking import lacking, path_of
from tests.vsqs.conftest import drain

SHUTDOWN = 0x8004587D  # FS_IOC_SHUTDOWN
NO_LOG_FLUSH = 2
MEGABYTES = {"ext4": 64, "xfs": 320}
DAY_NS = 86_400 * 10**9
PROBE = b"is anyone there?"


class Disk:
    def __init__(self, folder: Path, kind: str) -> None:
        self.image, self.mount = folder / "image", folder / "mount"
        self.mount.mkdir()
        make = path_of(f"mkfs.{kind}")
        with self.image.open("wb") as image:
            image.truncate(MEGABYTES[kind] << 20)
        subprocess.run([make, "-q", str(self.image)], check=True, capture_output=True)
        self.attach()

    def attach(self) -> None:
        mounted = subprocess.run(["mount", "-o", "loop", self.image, self.mount], capture_output=True, text=True)
        if mounted.returncode:
            lacking("no file system can be mounted", mounted.stderr.strip())

    def cut(self) -> None:
        descriptor = os.open(self.mount, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def detach(self) -> None:
        for _ in range(600):
            if not subprocess.run(["umount", self.mount], capture_output=True).returncode:
                return
            time.sleep(0.1)
        subprocess.run(["umount", "-l", self.mount], check=True)
        raise AssertionError("the file system is busy: a descriptor was left open")


@pytest.fixture(params=["ext4", "xfs"])
def device(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    device = Disk(tmp_path, request.param)
    yield device
    device.detach()


class Load:
    """Two publishers and a consumer, until the current fails them, and their books."""

    def __init__(self, queue: Queue, after: int) -> None:
        self.queue, self.after = queue, after
        self.enough = threading.Event()
        self.published: set[bytes] = set()
        self.trying_to_delete: set[bytes] = set()
        self.deleted: set[bytes] = set()
        works = [(self.publish, b"a"), (self.publish, b"b"), (self.consume, None)]
        self.threads = [threading.Thread(target=self.until_the_cut, args=work) for work in works]
        for thread in self.threads:
            thread.start()

    def until_the_cut(self, work, name: bytes | None) -> None:
        try:
            for number in range(100_000):
                work(b"%s-%d" % (name, number) * 100 if name else PROBE)
        except OSError:
            return

    def publish(self, body: bytes) -> None:
        self.queue.publish(body)
        self.published.add(body)
        if len(self.published) >= self.after:
            self.enough.set()

    def consume(self, probe: bytes) -> None:
        id_, body = self.queue.receive(3600, timeout=0.2)
        if id_ is None or body is None:
            # An empty directory can be listed without current.
            self.queue.publish(probe)
        elif int(id_) % 3 == 0:
            self.trying_to_delete.add(body)
            self.queue.delete(id_)
            self.deleted.add(body)


@pytest.mark.parametrize("after", [1, 60])
def test_what_was_answered_before_the_cut_holds_after_it(device: Disk, after: int) -> None:
    path = device.mount / "deep" / "queue"
    with Queue(path, precision="us") as queue:
        load = Load(queue, after)
        assert load.enough.wait(60)
        # Only what was answered by now: a kernel that goes on running may answer once more, and say yes to the sync
        # of a directory whose log it has just thrown away (xfs does). Without current, that would not be heard.
        published, deleted = set(load.published), set(load.deleted)
        device.cut()
        for thread in load.threads:
            thread.join()
    device.detach()
    device.attach()
    with Queue(path, clock=lambda: time.time_ns() + DAY_NS) as queue:
        left = [body for body in drain(queue) if body != PROBE]
    assert len(left) == len(set(left))
    assert published - load.trying_to_delete <= set(left), "an acknowledged message is lost"
    assert not deleted & set(left), "a deleted message came back"
    assert all(body == body[: len(body) // 100] * 100 for body in left), "a payload is not whole"


def test_the_first_message_of_a_new_queue(device: Disk) -> None:
    """The directory itself, and its parents, are as durable as what is in them."""
    with Queue(device.mount / "some" / "where" / "queue") as queue:
        queue.publish(b"x")
        device.cut()
    device.detach()
    device.attach()
    with Queue(device.mount / "some" / "where" / "queue") as queue:
        assert drain(queue) == [b"x"]
