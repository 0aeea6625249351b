"""The few calls that Python's `os` does not offer, bound by `ctypes`. Each may be absent: then it is None.

`ctypes` is part of the standard library, but a Python can be built without it, and a C library or a kernel can
lack any of these.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

Call = Callable[..., int]

_AT_ONCE = 0o4000  # IN_NONBLOCK
_CLOSE_ON_EXEC = 0o2000000  # IN_CLOEXEC
_RENAME_NOREPLACE = 1
_STATFS_BYTES = 512


def _bind(name: str, *argument_types: Any) -> Call | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes

        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (ImportError, OSError, AttributeError):
        return None
    function.argtypes = [getattr(ctypes, kind) for kind in argument_types]
    function.restype = ctypes.c_int

    def call(*arguments: object) -> int:
        result: int = function(*arguments)
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, f"{name}: {os.strerror(code)}")
        return result

    return call


_inotify_init1 = _bind("inotify_init1", "c_int")
_inotify_add_watch = _bind("inotify_add_watch", "c_int", "c_char_p", "c_uint32")
_renameat2 = _bind("renameat2", "c_int", "c_char_p", "c_int", "c_char_p", "c_uint")
_fstatfs = _bind("fstatfs", "c_int", "c_char_p")


def has_inotify() -> bool:
    return _inotify_init1 is not None and _inotify_add_watch is not None


def inotify_open() -> int:
    assert _inotify_init1 is not None  # noqa: S101
    return _inotify_init1(_AT_ONCE | _CLOSE_ON_EXEC)


def inotify_watch(descriptor: int, path: str, mask: int) -> None:
    assert _inotify_add_watch is not None  # noqa: S101
    _inotify_add_watch(descriptor, os.fsencode(path), mask)


def has_rename_no_replace() -> bool:
    return _renameat2 is not None


def rename_no_replace(directory: int, old: str, new: str) -> None:
    assert _renameat2 is not None  # noqa: S101
    _renameat2(directory, old.encode(), directory, new.encode(), _RENAME_NOREPLACE)


def file_system_type(descriptor: int) -> int | None:
    """The number by which Linux knows the kind of a file system."""
    if _fstatfs is None:
        return None
    # The type is the first word of the structure on every architecture; the rest is not looked at.
    found = bytes(_STATFS_BYTES)
    _fstatfs(descriptor, found)
    return int.from_bytes(found[:4], sys.byteorder)
