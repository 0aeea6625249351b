"""The names of files, and which of them are ours.

    1415776871123                  ready
    1415776871123.new              being written
    1415776871123.1415776879654    claimed until then, always in milliseconds

Only the plain decimal form counts, so that a name and its number stand for each other: no sign, no leading zero,
no digit of another script. A number with any other extension is a stray: deleting that number deletes it, and nothing
else touches it. Any other name belongs to someone else.
"""

from __future__ import annotations

import re
from typing import Final

# States; any other is the instant until which a message is claimed.
UNFINISHED: Final = -2
READY: Final = -1

_NUMBER = "0|[1-9][0-9]{0,18}"
_NAME = re.compile(rf"({_NUMBER})(?:\.(new|{_NUMBER}))?")
_STRAY = re.compile(rf"({_NUMBER})\..+", re.DOTALL)


def parse(name: str) -> tuple[int, int] | None:
    """The number of a message and its state: UNFINISHED, READY, or the instant until which it is claimed."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    extension = found[2]
    if extension is None:
        return int(found[1]), READY
    return int(found[1]), UNFINISHED if extension == "new" else int(extension)


def stray_number(name: str) -> int | None:
    """The number in a name that `parse` does not know: a number with an extension that means nothing here."""
    found = _STRAY.fullmatch(name)
    return None if found is None else int(found[1])


def of(number: int, state: int) -> str:
    if state == READY:
        return str(number)
    return f"{number}.new" if state == UNFINISHED else f"{number}.{state}"


def number_of(id: str) -> int:  # noqa: A002
    """The number behind a message's id. Raises TypeError and ValueError."""
    if not isinstance(id, str):
        raise TypeError(f"a message id is a str, not {type(id).__name__}")
    parsed = parse(id)
    if parsed is None or parsed[1] != READY:
        raise ValueError(f"{id!r} is not a message id")
    return parsed[0]
