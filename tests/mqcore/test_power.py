"""Power cuts: snapshots of a device under a running store, each mounted and checked as after a restart.

The device is a file inside an XFS that can clone it in an instant; what the store has not synced is in no snapshot.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.errors import TryAgain
from tests.lacking import lacking, path_of
from tests.mqcore.disk import Desk, check, open_root
from tests.waiting import wait_until

CUTS = 6
# The smallest XFS that its tools make.
INNER = {"ext4": ("64M", []), "xfs": ("300M", ["nouuid"])}


def run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)


@contextmanager
def mounted(image: Path, folder: Path, *options: str) -> Iterator[Path]:
    folder.mkdir()
    run("mount", "-o", ",".join(["loop", *options]), image, folder)
    try:
        yield folder
    finally:
        run("umount", "-l", folder)


@pytest.fixture
def outer(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        lacking("no file system can be mounted", "only root may")
    image = tmp_path / "outer.img"
    run("truncate", "-s", "2G", image)
    run(path_of("mkfs.xfs"), "-q", "-m", "reflink=1", image)
    try:
        mounting = mounted(image, tmp_path / "outer")
        folder = mounting.__enter__()
    except subprocess.CalledProcessError as error:
        lacking("no file system can be mounted", error.stderr.strip())
    yield folder
    mounting.__exit__(None, None, None)


@dataclass
class Books:
    """What was answered. `acking` is written down before a delete is asked for."""

    sent: dict[str, bytes] = field(default_factory=dict)
    acking: set[str] = field(default_factory=set)
    acked: set[str] = field(default_factory=set)

    def copy(self) -> Books:
        return Books(dict(self.sent), set(self.acking), set(self.acked))


def live(root: Path, books: Books, stop: threading.Event) -> None:
    desk = Desk(open_root(root))
    desk.create()
    for turn in itertools.count():
        if stop.is_set():
            break
        desk.now += 10
        bodies = [b"%d %d " % (turn, number) * 50 for number in range(turn % 7 + 1)]
        try:
            books.sent.update(zip(desk.send(*bodies), bodies, strict=True))
            ids = [message.id for message in desk.claim(4, hold_ms=50)]
            books.acking.update(ids[:3])
            desk.ack(*ids[:3])
            books.acked.update(ids[:3])
            desk.sweep()
        except TryAgain:
            break
    desk.store.close()


@pytest.mark.parametrize("kind", INNER)
def test_what_was_answered_survives_a_power_cut(tmp_path: Path, outer: Path, kind: str) -> None:
    size, options = INNER[kind]
    device = outer / "device.img"
    run("truncate", "-s", size, device)
    run(path_of(f"mkfs.{kind}"), "-q", device)
    books, stop = Books(), threading.Event()
    snapshots = []
    with mounted(device, tmp_path / "inner") as folder:
        thread = threading.Thread(target=live, args=(folder / "root", books, stop))
        thread.start()
        for number in range(CUTS):
            time.sleep(0.15 + number * 0.037)
            before = books.copy()
            snapshot = outer / f"cut-{number}.img"
            run("cp", "--reflink=always", device, snapshot)
            # Between the first and the last instant of the copy more may have been asked for.
            before.acking |= books.acking
            snapshots.append((snapshot, before))
        wait_until(lambda: len(books.sent) > 20 or not thread.is_alive())
        stop.set()
        thread.join()
    assert len(books.sent) > 20
    for number, (snapshot, promised) in enumerate(snapshots):
        with mounted(snapshot, tmp_path / f"after-{number}", *options) as folder:
            if promised.sent:
                check(folder / "root", promised.sent, promised.acked, promised.acking - promised.acked)
