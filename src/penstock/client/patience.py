"""How long a client tries, what it may try again, and how long it waits in between.

A request is made again only where that cannot do anything twice: where the server was not reached at all, and where
the request is repeatable, as a look, a shipment or a send with an idempotency key is. This is the one place that
decides it. Nothing here waits or reads a clock.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from penstock.client.address import Lost
from penstock.client.errors import ClientError, ServerFailed, Unavailable, Unreachable

# Of a proxy whose server is away, and of a server that asks for patience.
_TRY_AGAIN = (502, 503, 504)


@dataclass(frozen=True, slots=True)
class Patience:
    """`total_s` is how long one call may go on trying; 0 means once. The pauses double, from `first_pause_s` up to
    `longest_pause_s`, and what the server asks for with Retry-After, up to `longest_wish_s`, comes on top."""

    total_s: float = 0.0
    first_pause_s: float = 0.1
    longest_pause_s: float = 5.0
    longest_wish_s: float = 60.0


ONCE = Patience()


def is_away(error: ClientError) -> bool:
    """Whether the same request may succeed later: the server was not reached, did not answer, or asks for patience."""
    return isinstance(error, Unreachable) or (isinstance(error, ServerFailed) and error.status in _TRY_AGAIN)


class Pauses:
    """How long to wait before the next try: longer each time."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._next_s = patience.first_pause_s

    def after(self, error: ClientError) -> float:
        patience = self._patience
        wish_s = min(error.retry_after_s, patience.longest_wish_s) if isinstance(error, Unavailable) else 0
        # Many clients lose the server at once; they should not all come back at once.
        pause_s = wish_s + self._next_s * random.uniform(0.5, 1.0)  # noqa: S311
        self._next_s = min(2 * self._next_s, patience.longest_pause_s)
        return pause_s


class Tries:
    """The tries of one call, which began at the instant `now` in seconds."""

    def __init__(self, patience: Patience, repeatable: bool, now: float) -> None:
        self._patience = patience
        self._repeatable = repeatable
        self._end = now + patience.total_s
        self._pauses = Pauses(patience)
        self._tried = 0
        self._sent = False
        self._reopened = False

    def pause_after(self, error: ClientError, now: float) -> float:
        """How long to wait before the next try. Raises the error where there is none: trying again could do something
        twice, could not help, or the patience is over.

        That a kept connection breaks is not a sign of trouble, since servers close those that are idle. So the first
        of them costs no patience; one that was just opened does.
        """
        self._tried += 1
        if not is_away(error):
            raise error
        if isinstance(error, Unreachable):
            # An earlier try may have arrived although the last one did not.
            error.sent = self._sent = self._sent or error.sent
        else:
            self._sent = True
        if self._sent and not self._repeatable:
            raise error
        if isinstance(error, Lost) and error.kept and not self._reopened:
            self._reopened = True
            return 0
        if not self._patience.total_s:
            raise error
        pause_s = self._pauses.after(error)
        if now + pause_s >= self._end:
            error.args = (f"{error}; tried {self._tried} times in {self._patience.total_s:g} s",)
            raise error
        return pause_s
