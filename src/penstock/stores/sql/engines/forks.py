"""SQLite and forks: a file that a process has open is closed to its children.

POSIX drops every lock that a process has on a file when the process closes any descriptor of it, so SQLite keeps a
table of its locks in memory, per file. A forked child inherits that table without the locks: it believes that it holds
what only its parent holds, and takes no lock of its own. As soon as the parent closes the file, its log is deleted
under the child, whose commits then go nowhere without an error.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from pathlib import Path

import apsw

from penstock.errors import StoreInherited

# A device, and a number on it: what tells a file from others whatever their names are.
Inode = tuple[int, int]

# Every connection that is open, with its file and the process that has opened it.
_open: weakref.WeakKeyDictionary[apsw.Connection, tuple[Inode, int]] = weakref.WeakKeyDictionary()


def inherited(path: Path) -> StoreInherited:
    return StoreInherited(
        f"{path} was open in the parent of this process when it forked, and SQLite cannot be used across a fork: open "
        "it after the fork only, or start processes by 'spawn' or 'forkserver'"
    )


def refuse_inherited(path: Path, inode: Inode) -> None:
    process = os.getpid()
    for held, opener in list(_open.values()):
        if held == inode and opener != process:
            raise inherited(path)


def note_opened(connection: apsw.Connection, inode: Inode) -> None:
    _open[connection] = inode, os.getpid()


def note_closed(connection: apsw.Connection) -> None:
    _open.pop(connection, None)


def _keep_inherited() -> None:
    """Never close what the parent has opened, not even at the end of the child: SQLite would take the file for its own
    and delete a log that another process needs. One reference that is never given back keeps a connection open."""
    for connection in list(_open):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


os.register_at_fork(after_in_child=_keep_inherited)
