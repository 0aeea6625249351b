"""What a queue raises of its own.

    QueueError
    ├── QueueFull     the queue stayed at its capacity for the whole timeout
    └── QueueClosed   the queue was closed, before the call or while it waited

What the system says (no room, no permission, a failed sync) is passed on as the `OSError` that it is: whoever
must act on it needs its `errno`.
"""

from __future__ import annotations


class QueueError(Exception):
    """The root of the errors of this package."""


class QueueFull(QueueError):
    pass


class QueueClosed(QueueError):
    pass
