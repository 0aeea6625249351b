"""The errors that a queue raises itself.

    QueueError
    ├── QueueFull     the queue stayed at its capacity for the whole timeout
    └── QueueClosed   the queue was closed, before the call or while it waited

Errors of the system (no room, no permission, a failed sync) are passed on as the `OSError`s they are: acting on one
takes its `errno`.
"""

from __future__ import annotations


class QueueError(Exception):
    """The root of the errors of this package."""


class QueueFull(QueueError):
    pass


class QueueClosed(QueueError):
    pass
