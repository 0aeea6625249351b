"""Block devices of our own, with a file system on each: mounted, recorded, shut down as by a power cut."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from soak.fault import Lacking

# Small, so that images are copied in milliseconds. XFS has a least size.
MEGABYTES = {"ext4": 64, "xfs": 300}
# Nothing is left to be initialized later: what is written is written for the store.
_FORMAT = {"ext4": ["-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"], "xfs": []}

_FS_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2
_UNMOUNT_S = 60


class Unmountable(OSError):
    """The file system itself is damaged."""


def run(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{command[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def program(name: str) -> str:
    """Debian keeps the programs of administrators where users do not look."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        raise Lacking(f"{name} is not installed")
    return found


def in_memory(name: str) -> Path:
    """A new folder for images: in memory if the machine offers that, because a device is synced again and again."""
    shared = Path("/dev/shm")
    top = shared if os.access(shared, os.W_OK) else Path("/tmp")
    folder = top / f"penstock-{name}-{os.getpid()}-{time.monotonic_ns()}"
    folder.mkdir()
    return folder


def make_image(path: Path, kind: str, megabytes: int | None = None) -> Path:
    if os.geteuid() != 0:
        raise Lacking("only root may mount a file system")
    with path.open("wb") as image:
        image.truncate((megabytes or MEGABYTES[kind]) << 20)
    run(program(f"mkfs.{kind}"), "-q", *_FORMAT[kind], path)
    return path


def copy(source: Path, target: Path) -> None:
    """Without the empty parts."""
    run("cp", "--sparse=always", source, target)


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    """The file system of an image, in a folder that is made for it."""
    folder.mkdir(exist_ok=True)
    device = attach(image)
    try:
        try:
            run("mount", device, folder)
        except OSError as error:
            raise Unmountable(str(error)) from error
        try:
            yield folder
        finally:
            unmount(folder)
    finally:
        run(program("losetup"), "-d", device)


def attach(image: Path) -> str:
    try:
        return run(program("losetup"), "-f", "--show", image)
    except OSError as error:
        raise Lacking(f"no block device can be made of a file ({error})") from error


def unmount(folder: Path) -> None:
    """A process that was killed a moment ago may still have files open there."""
    until = time.monotonic() + _UNMOUNT_S
    while True:
        try:
            run("umount", folder)
            return
        except OSError:
            if time.monotonic() > until:
                with suppress(OSError):
                    run("umount", "-l", folder)
                raise
        time.sleep(0.01)


def cut_power(folder: Path) -> None:
    """Shut down the file system at this moment and without its log: what was not synced is lost."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, _FS_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
    finally:
        os.close(descriptor)


@contextmanager
def recorded(image: Path, folder: Path, log: Path) -> Iterator[Path]:
    """The file system of an image, mounted in a folder, with all that is done to its device in a log."""
    disk = image.with_suffix(".disk")
    # A process of its own: the kernel waits for it in the middle of our own writes.
    recorder = subprocess.Popen(
        [sys.executable, "-m", "soak.recorder", image, disk, log], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert recorder.stdout is not None
    assert recorder.stderr is not None
    if not recorder.stdout.readline():
        raise Lacking(f"no disk can be recorded ({recorder.stderr.read().decode().strip().splitlines()[-1]})")
    try:
        with mounted(disk, folder):
            yield folder
    finally:
        run("umount", disk)
        recorder.wait()
        recorder.stdout.close()
        recorder.stderr.close()
        disk.unlink()
