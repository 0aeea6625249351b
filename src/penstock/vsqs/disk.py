"""Every system call that touches a queue's directory, and nothing that decides.

All names are relative to one open descriptor of the directory and never hold a slash, so no call can leave it, and
no symbolic link is ever followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable

from penstock.vsqs import libc

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: a foreign FIFO must not make a consumer hang. It means nothing for a plain file.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_CREATE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
# Errors of opening something that is not a plain file: a link, a socket, a device without a driver.
_NOT_A_FILE = {errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EISDIR}
# A file system that does not know RENAME_NOREPLACE, or a sandbox that forbids the call.
_NO_SUCH_CALL = {errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.ENOTSUP}


def open_directory(path: str, mode: int = 0o600) -> int:
    """Open a queue's directory, which is created if it is missing. It and its parents are on stable storage when this
    returns.

    `mode` is that of the files to come: those who may read them may enter the directory.
    """
    mode |= (mode & 0o444) >> 2 | 0o700
    missing = []
    level = os.path.abspath(path)
    while not os.path.isdir(level):
        missing.append(level)
        level = os.path.dirname(level)
    for level in reversed(missing):
        # Another process may open the same queue. If there is something else, opening it says so below.
        with contextlib.suppress(FileExistsError):
            os.mkdir(level, mode)
        _sync_parent(level)
    descriptor = os.open(path, _DIRECTORY)
    if not missing:
        # The process that created it may not have synced it yet, and our answers must not outlive its name.
        with contextlib.suppress(PermissionError):
            _sync_parent(os.path.realpath(path))
    return descriptor


def _sync_parent(path: str) -> None:
    descriptor = os.open(os.path.dirname(path), _DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def list_files(directory: int) -> Iterable[str]:
    """The names of the plain files."""
    # A descriptor of its own: the position in a directory is shared between threads, and by a fork.
    descriptor = os.open(".", _DIRECTORY, dir_fd=directory)
    try:
        if not os.fstat(descriptor).st_nlink:
            raise FileNotFoundError(errno.ENOENT, "the queue's directory is gone")
        with os.scandir(descriptor) as entries:
            return [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    finally:
        os.close(descriptor)


def create(directory: int, name: str, mode: int = 0o600) -> int:
    """Raises FileExistsError."""
    return os.open(name, _CREATE, mode, dir_fd=directory)


def write(descriptor: int, payload: memoryview) -> None:
    while payload:
        payload = payload[os.write(descriptor, payload) :]


def open_file(directory: int, name: str) -> int | None:
    """None where the name belongs to something that is not a plain file. Raises FileNotFoundError."""
    try:
        descriptor = os.open(name, _READ, dir_fd=directory)
    except OSError as error:
        if error.errno in _NOT_A_FILE:
            return None
        raise
    plain = False
    try:
        plain = stat.S_ISREG(os.fstat(descriptor).st_mode)
    finally:
        if not plain:
            os.close(descriptor)
    return descriptor if plain else None


def read(descriptor: int) -> bytes:
    # One byte more than there should be: a read that comes back short has seen the end.
    wanted = os.fstat(descriptor).st_size + 1
    data = os.read(descriptor, wanted)
    while len(data) < wanted and (more := os.read(descriptor, wanted - len(data))):
        data += more
    return data


def modified_ns(directory: int, name: str) -> int | None:
    """When a plain file was last written to. None where there is no plain file of that name."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_mtime_ns if stat.S_ISREG(found.st_mode) else None


class Renamer:
    """Renames that never replace a file, so that even two messages with one number lose nothing."""

    def __init__(self) -> None:
        self._atomic = libc.has_rename_no_replace()

    def rename(self, directory: int, old: str, new: str) -> None:
        """Raises FileNotFoundError and FileExistsError."""
        if self._atomic:
            try:
                libc.rename_no_replace(directory, old, new)
                return
            except OSError as error:
                if error.errno not in _NO_SUCH_CALL:
                    raise
                self._atomic = False
        # Not atomic, and need not be: `new` can only appear meanwhile if a number was given out twice.
        if modified_ns(directory, new) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
        os.rename(old, new, src_dir_fd=directory, dst_dir_fd=directory)


def remove(directory: int, name: str) -> bool:
    """Whether a file was there."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return True


def sync(descriptor: int) -> None:
    os.fsync(descriptor)
