"""VSQS: a durable first-in, first-out queue that is nothing but a directory, for any number of processes.

    publish              receive                     delete
    ───────► N.new ──► N ───────► N.<until> ────────────────► gone
                       ▲             │
                       └─────────────┘  the visibility timeout has passed

Every arrow is one atomic change of a file's name, so processes need no server and no lock between them. This
package needs the standard library and a POSIX system. Of Penstock it imports only `inotify`, which needs no more.

    queue.py       the verbs
    unfinished.py  how a message gets its number, and what becomes of unfinished ones
    claims.py      claiming, making ready again, removing
    view.py        what an instance knows of the directory, so that it need not list it again and again
    mirror.py      the names themselves, by state
    watch.py       inotify: how a view stays exact
    waiting.py     how threads sleep until something changes
    disk.py        every system call that changes or reads the directory
    names.py       which names are ours
    libc.py        calls that Python's `os` does not offer
"""

from __future__ import annotations

from penstock.vsqs.errors import QueueClosed, QueueError, QueueFull
from penstock.vsqs.queue import Queue

__all__ = ["Queue", "QueueClosed", "QueueError", "QueueFull"]
