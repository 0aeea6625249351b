"""The few calls that Python's `os` does not offer, bound by `ctypes`. Each may be missing: then it is None.

`ctypes` is part of the standard library, but a Python can be built without it, and a C library or a kernel can
lack any of these.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

Call = Callable[..., int]

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


_renameat2 = _bind("renameat2", "c_int", "c_char_p", "c_int", "c_char_p", "c_uint")
_fstatfs = _bind("fstatfs", "c_int", "c_char_p")


def has_rename_no_replace() -> bool:
    return _renameat2 is not None


def rename_no_replace(directory: int, old: str, new: str) -> None:
    assert _renameat2 is not None  # noqa: S101
    _renameat2(directory, old.encode(), directory, new.encode(), _RENAME_NOREPLACE)


def file_system_type(descriptor: int) -> int | None:
    """The number by which Linux identifies a kind of file system."""
    if _fstatfs is None:
        return None
    # The type is the first word of the structure on every architecture; the rest is ignored.
    found = bytes(_STATFS_BYTES)
    _fstatfs(descriptor, found)
    return int.from_bytes(found[:4], sys.byteorder)
