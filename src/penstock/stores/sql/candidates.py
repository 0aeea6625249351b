"""Messages as a move or a scan looks at them, without their bodies."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import policy
from penstock.model import Queue
from penstock.stores.move_step import Candidate
from penstock.stores.sql.engine import Row

# Of a `Candidate`. It may be claimed only where its `ready_at` says so, too.
CANDIDATE = """seq, ready_at, CASE WHEN {is_claimed} THEN 1 ELSE 0 END, sent_at, receives, content_type, came_from,
            last_claimed_at"""


def candidates(queue: Queue, rows: Iterable[Row], now: int) -> list[Candidate]:
    """Of rows of `CANDIDATE`."""
    settings = queue.settings
    return [
        Candidate(
            seq,
            ready_at,
            policy.state(settings, now, ready_at, receives, bool(is_claimed)),
            sent_at,
            receives,
            content_type,
            came_from,
            last_claimed_at,
        )
        for seq, ready_at, is_claimed, sent_at, receives, content_type, came_from, last_claimed_at in rows
    ]
