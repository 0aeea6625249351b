"""What a target raises."""

from __future__ import annotations


class Finding(AssertionError):
    """The server did what it must never do."""


def expect(holds: object, what: str) -> None:
    # Not `assert`: a run with -O must find the same.
    if not holds:
        raise Finding(what)
