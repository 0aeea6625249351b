"""The names of files, and which of them are ours.

    1415776871123                  ready
    1415776871123.new              being written
    1415776871123.1415776879654    claimed until then, always in milliseconds

Only the plain decimal form counts, so that a name and its number stand for each other: no sign, no leading zero,
no digit of another script. Anything else in the directory belongs to somebody else.
"""

from __future__ import annotations

import re
from typing import Final

# States; any other is the instant until which a message is claimed.
DRAFT: Final = -2
READY: Final = -1

_NUMBER = "0|[1-9][0-9]{0,18}"
_NAME = re.compile(rf"({_NUMBER})(?:\.(new|{_NUMBER}))?")


def parse(name: str) -> tuple[int, int] | None:
    """The number of a message and its state: DRAFT, READY, or the instant until which it is claimed."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    extension = found[2]
    if extension is None:
        return int(found[1]), READY
    return int(found[1]), DRAFT if extension == "new" else int(extension)


def of(number: int, state: int) -> str:
    if state == READY:
        return str(number)
    return f"{number}.new" if state == DRAFT else f"{number}.{state}"


def number_of(id: str) -> int:  # noqa: A002
    """The number behind a message's id. Raises TypeError and ValueError."""
    if not isinstance(id, str):
        raise TypeError(f"a message id is a str, not {type(id).__name__}")
    parsed = parse(id)
    if parsed is None or parsed[1] != READY:
        raise ValueError(f"{id!r} is not a message id")
    return parsed[0]
