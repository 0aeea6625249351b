"""The file of a message: written once, read whole, nothing added to its bytes.

While a file in `new` is being written it may not be read (mode 0200); it becomes readable (0600) when its bytes are on
stable media. So a process that finds a file left behind by a dead one can tell a whole message from a part of one,
on any file system.

The content type is kept in an extended attribute, beside the bytes. A file system without them drops it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from errno import E2BIG, ENODATA, ENOTSUP, EPERM

_WRITING = 0o200
_WHOLE = 0o600
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe planted under the name of a message would hold the reader up.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CONTENT_TYPE = "user.penstock.content_type"


def write(folder: int, name: str, body: bytes, content_type: str | None) -> int:
    """The descriptor of a new file with these bytes in it, not yet synced."""
    descriptor = os.open(name, _CREATE, _WRITING, dir_fd=folder)
    try:
        rest = memoryview(body)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if content_type:
            _keep_content_type(descriptor, content_type)
    except BaseException:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    return descriptor


def mark_whole(descriptor: int) -> None:
    os.fchmod(descriptor, _WHOLE)


def is_whole(mode: int) -> bool:
    """Whether a file in `new` is complete, by its mode."""
    return bool(mode & stat.S_IRUSR)


def read(folder: int, name: str) -> tuple[bytes, str | None] | None:
    """The bytes of a message and their content type; None for what cannot be a message. Raises FileNotFoundError."""
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError:
        if _is_regular(os.stat(name, dir_fd=folder, follow_symlinks=False)):
            raise
        return None
    try:
        found = os.fstat(descriptor)
        if not _is_regular(found):
            return None
        parts = []
        while part := os.read(descriptor, found.st_size + 1):
            parts.append(part)
        return b"".join(parts), _content_type(descriptor)
    finally:
        os.close(descriptor)


def _is_regular(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode)


def _keep_content_type(descriptor: int, content_type: str) -> None:
    try:
        os.setxattr(descriptor, _CONTENT_TYPE, content_type.encode("utf-8", "surrogateescape"))
    except OSError as error:
        if error.errno not in (ENOTSUP, EPERM, E2BIG):
            raise


def _content_type(descriptor: int) -> str | None:
    try:
        return os.getxattr(descriptor, _CONTENT_TYPE).decode("utf-8", "replace") or None
    except OSError as error:
        if error.errno not in (ENODATA, ENOTSUP, EPERM):
            raise
        return None
