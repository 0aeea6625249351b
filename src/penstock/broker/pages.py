"""Long pages are read in steps: how much the next one reads, and which is the last."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.limits import Limits
from penstock.model import LedgerRow, Message


def step_rows(limit: int, so_far: Sequence[object], limits: Limits) -> int:
    return min(limits.page_step_rows, limit - len(so_far))


def is_last(
    read: Sequence[Message] | Sequence[LedgerRow],
    asked: int,
    page: Sequence[Message] | Sequence[LedgerRow],
    limit: int,
    limits: Limits,
) -> bool:
    """Whether a page is whole after a step that `asked` for so many and `read` these: it is as long as it may be, or
    nothing is left. A store reads fewer than it was asked for where that is all, or where their bodies are large."""
    if len(page) >= limit or not read:
        return True
    if len(read) < asked and _size(read) < limits.page_bytes:
        return True
    return _size(page) >= limits.claim_bytes


def _size(read: Sequence[Message] | Sequence[LedgerRow]) -> int:
    return sum([len(one.body or b"") for one in read])
