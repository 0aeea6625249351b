"""The tables of a store, and how a table is read: in pages, never as a whole."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from penstock.stores.sql.engine import Engine, RawSql, Row
from penstock.stores.transfer.side import Paging, Side


@dataclass(frozen=True)
class Table:
    """`noun` is what a person calls a row. The key is the first column.

    `heavy` columns may be large, and are measured before they are read. The columns of a `summed` table are sums, which
    some databases return as decimals.
    """

    name: str
    noun: str
    columns: tuple[str, ...]
    heavy: tuple[str, ...] = ()
    key_is_text: bool = False
    rows_of: str = ""
    summed: bool = False

    @property
    def source(self) -> str:
        return self.rows_of or self.name


def _named(columns: str) -> tuple[str, ...]:
    return tuple(columns.split())


MESSAGE = Table(
    "message",
    "message",
    _named(
        """seq queue ready_at sent_at receives claim first_claimed_at last_claimed_at deadline_at
           content_type attributes grp dedup_key came_from body_hash body"""
    ),
    heavy=("attributes", "body"),
)
LEDGER = Table(
    "ledger",
    "ledger row",
    _named(
        """number queue seq sent_at first_claimed_at last_claimed_at finished_at receives outcome size
           body_hash content_type body"""
    ),
    heavy=("body",),
)
QUEUE = Table(
    "queue",
    "queue",
    _named(
        """number name created_at deleted_at visibility_ms retention_ms delay_ms dedup max_receives
           dead_letter_queue ledger backoff_first_ms backoff_most_ms due_at kept_ms lowered_through
           grouped dedup_window_ms dedup_scope forgotten_through labels modified_at paused_at"""
    ),
    heavy=("labels",),
)
# Where each connection counts for itself, the sum is copied. Queue 0 means something else in every database.
TALLY = Table(
    "tally",
    "tally",
    _named("queue arrived departed"),
    rows_of="""(SELECT queue, sum(arrived) AS arrived, sum(departed) AS departed
                FROM tally WHERE queue > 0 GROUP BY queue) AS counted""",
    summed=True,
)
API_KEY = Table(
    "api_key",
    "API key",
    _named(
        """number name digest rules created_at revoked_at ended_sessions
           expires_at rotated_at last_used_at old_digest old_until old_last_used_at"""
    ),
    heavy=("rules", "ended_sessions"),
)
MOVE = Table(
    "move",
    "move",
    _named(
        """id source target through started_at moved status error finished_at claimed terms
           examined matched homeless place_ready_at place_seq next_at total by_key by_via"""
    ),
    key_is_text=True,
)
ACTION = Table(
    "action", "action", _named("number acted_at api_key via what queue_name amount detail"), heavy=("detail",)
)
CONSUMER = Table(
    "consumer",
    "consumer",
    _named("id queue number delivery beat_at dead_after_ms holding"),
    heavy=("holding",),
    key_is_text=True,
)

SHIPMENT = Table(
    "shipment",
    "shipment",
    _named(
        "id queue consumer number state messages bytes cleared kept claimed_at until ended_at due_at runs stored_in"
    ),
    heavy=("runs",),
)
LEASE = Table("lease", "lease", _named("id queue name holder taken_at until"))
EXPORT = Table(
    "export",
    "export",
    _named("id consumer number after_number through_number first_number amount claimed_at settled_at"),
)
SENDING = Table("sending", "keyed send", _named("id queue send_key digest messages stored sent_at"))
SEEN = Table("seen", "dedup key", _named("id queue dedup_key seq sent_at until"))
ATTEMPT = Table("attempt", "attempt", _named("id queue attempt_key held claimed_at"), heavy=("held",))
COLLAPSE = Table("collapse", "collapsed key", _named("id queue dedup_key through"))

FIGURE = Table(
    "figure",
    "figure bucket",
    _named(
        """id queue width since sent claimed redelivered acked expired dead_lettered failed purged moved collapsed
           ready_now delayed_now claimed_now oldest_sent_at"""
    ),
)

# These grow without end, and are copied page by page.
LONG = (MESSAGE, LEDGER)
# These are copied together, in one transaction.
SHORT = (
    QUEUE, TALLY, API_KEY, ACTION, MOVE, CONSUMER, SHIPMENT, LEASE, EXPORT, SENDING, SEEN, ATTEMPT, COLLAPSE, FIGURE
)  # fmt: skip
ALL = (*SHORT, *LONG)


def pages(side: Side, table: Table, after: int | None = None) -> Iterator[list[Row]]:
    """All rows in the order of their keys, or those after a key."""
    key = side.bytewise(table.columns[0]) if table.key_is_text else table.columns[0]
    last: object = ("" if table.key_is_text else 0) if after is None else after
    limit = side.paging.fewest_rows if table.heavy else side.paging.page_rows
    while True:
        with side.read() as raw:
            if table.heavy:
                limit, rows = _measured_page(raw, table, key, last, limit, side.paging)
            else:
                rows = _page(raw, table, f"{key} > ? ORDER BY {key} LIMIT ?", (last, limit))
        if not rows:
            return
        yield [tuple(map(int, row)) for row in rows] if table.summed else rows
        last, *_ = rows[-1]


def _page(raw: RawSql[Engine], table: Table, where: str, params: tuple[object, ...]) -> list[Row]:
    return raw.rows(f"SELECT {', '.join(table.columns)} FROM {table.source} WHERE {where}", params)


def _measured_page(
    raw: RawSql[Engine], table: Table, key: str, last: object, limit: int, paging: Paging
) -> tuple[int, list[Row]]:
    """How many rows to measure for the next page, and the rows that fit into this one, at least one.

    Some databases have to read a body to know its length, so few rows are measured that are not read then.
    """
    size = " + ".join(f"coalesce(length({column}), 0)" for column in table.heavy)
    measured = raw.rows(
        f"SELECT {table.columns[0]}, {size} FROM {table.source} WHERE {key} > ? ORDER BY {key} LIMIT ?", (last, limit)
    )
    if not measured:
        return limit, []
    sizes = list(accumulate(size for _, size in measured))
    fitting = max(1, bisect_right(sizes, paging.page_bytes))
    last_fitting, _ = measured[fitting - 1]
    rows = _page(raw, table, f"{key} > ? AND {key} <= ? ORDER BY {key}", (last, last_fitting))
    return min(paging.page_rows, max(paging.fewest_rows, 2 * fitting)), rows
