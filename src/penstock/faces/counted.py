"""JSON lists that are counted while they are read, so that what is over a limit is never built.

Sixteen megabytes are five million empty objects, which would take half a gigabyte before anybody could count them. The
reader has no lists that end early, but it has structs written as lists: one with a field for each item and one more
takes no longer to fill than a list, and it passes over whatever follows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import Struct


@cache
def beginning(item: type, limit: int) -> type[Struct]:
    """The shape of a list of which the first `limit` items and one more are kept. Made when it is first needed: so
    many fields take a moment, and few bodies are so long."""
    fields = [(f"item_{number}", item, None) for number in range(limit + 1)]
    return msgspec.defstruct(f"Beginning_{item.__name__}", fields, array_like=True, eq=False)


def items_of(beginning: Struct) -> list[Any]:
    return [item for item in msgspec.structs.astuple(beginning) if item is not None]
