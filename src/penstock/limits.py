"""Every limit of the core, in one place. Times are milliseconds, sizes are bytes.

What a caller may ask for is the same everywhere and stands here as constants. How much is done at once, and how long
things are remembered, is a value: `Limits`, passed to a store when it is opened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

INT32_MAX = 2**31 - 1

# What a caller may ask for.
NAME_LENGTH = 255
BODY_BYTES = 1024 * 1024
ATTRIBUTES_BYTES = BODY_BYTES
CONTENT_TYPE_BYTES = 255
CLAIM_LIMIT = 1_000
# What the native API hands out at once.
BULK_LIMIT = 10_000
SEND_LIMIT = 10_000
ACK_LIMIT = 10_000
LIST_LIMIT = 10_000
WAIT_MS = 60_000
DURATION_MS = INT32_MAX * 1_000
# The last second of the year 9999: the end of a claim that lasts as long as its consumer lives, and the latest
# deadline. A double holds it exactly, and so does every calendar.
NEVER = 253_402_300_799_000

# The end of the claim on a message in a shipment, later than any other: only the shipment itself may end it.
SHIPPED = NEVER + 999
# Where a message stands that waits behind another of its group, later still: it has no instant, only a turn.
BEHIND = SHIPPED + 1
SHIPMENT_ROWS = 1_000_000
SHIPMENT_BYTES = SHIPMENT_ROWS * BODY_BYTES
# Of the text that says where the messages of a shipment are stored, and of the one that says who holds a lease.
STORED_IN_LENGTH = 1_000
HOLDER_LENGTH = 200
EXPORT_ROWS = 10_000_000
IDEMPOTENCY_KEY_LENGTH = 255
# Names that callers give: to a group, to a message that must not be stored twice, to a claim that may be repeated.
GROUP_LENGTH = 128
DEDUP_ID_LENGTH = 128
ATTEMPT_LENGTH = 128
# How long a dedup key may be remembered.
DEDUP_WINDOW_LEAST_MS = 1_000
DEDUP_WINDOW_MOST_MS = 24 * 60 * 60 * 1_000
# Of a queue. Keys with the reserved beginning belong to a face, and do not count.
LABELS = 50
RESERVED_LABELS = "aws:"
LABEL_KEY_LENGTH = 128
LABEL_VALUE_LENGTH = 256

# Of an API key.
RULES = 100
# Of what is told of an action, in characters.
ACTION_DETAIL_LENGTH = 4_000
# Messages that a caller may name at once, to be deleted or moved.
NAMED_LIMIT = 1_000
# What a filter of a move or a scan may consist of.
FILTER_TEXT_LENGTH = 1_000
PATH_LENGTH = 255
PATH_STEPS = 16
MOVES_PER_SECOND = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a store and its broker do at once, and how long they remember. A store is opened with one of these."""

    # The bodies and attributes that one claim, peek or page of the ledger hands out: it stops early rather than fill
    # the memory.
    claim_bytes: int = 16 * 1024 * 1024
    # How much one unit of durability may touch before it gives way to the next: long work is cut into steps of this
    # size, so that a request waits for a step, which takes about as long as a few sends, and never for a whole queue.
    step_rows: int = 250
    # How long a step should take. One that took longer is followed by smaller ones.
    step_ms: float = 2.0
    # By how much the steps of bulk work may be larger while no one else asks for anything, in rows and in time.
    calm_times: int = 8
    # How long the tasks of one unit may take together before the others wait for the next one.
    unit_ms: float = 10.0
    # Messages that the sends and acks of one unit may bring together. A request that brings more has one of its own.
    unit_rows: int = 10_000
    # Messages that the claims of one unit may take together.
    claim_rows: int = 5_000
    # The same of one step of a shipment, whose messages are not read, and of one that ends it.
    shipment_step_rows: int = 1_000
    # Messages or rows of the ledger that one step reads of a long page, and their bodies.
    page_step_rows: int = 500
    page_step_bytes: int = 1024 * 1024
    # Twins of a message that one claim finishes at once, and that were left by others.
    collapse_step_rows: int = 100
    # How often one claim goes back for more when what it found was expired or dead.
    claim_rounds: int = 8
    # Ready messages among which a consumer looks for its share.
    share_rows: int = 2_000
    # Messages whose delay or claim has run out and that one claim makes ready again, if it does not ask for more.
    promote_rows: int = 1_000
    # Operations that one unit of durability serves.
    unit_operations: int = 2_048
    # Rows of the ledger that one unit counts for an export.
    export_count_rows: int = 10_000
    # Rows of the ledger that one unit counts to know how much it holds.
    ledger_count_rows: int = 10_000
    # What one unit gives back to the file system, and one request for that.
    shrink_bytes: int = 512 * 1024
    shrink_request_bytes: int = 64 * 1024 * 1024
    # How far a row of the ledger may be out of order by time: as long as a unit may last.
    ledger_disorder_ms: int = 10_000
    # Counts are exact up to here; past it they are estimates.
    count_rows: int = 10_000
    # The same in a list of queues, for each of them; and how many queues one unit counts at most.
    listed_count_rows: int = 1_000
    listed_counts: int = 100
    # Queues that one sweep visits, and dead consumers that one unit clears away.
    sweep_queues: int = 256
    reap_consumers: int = 64
    # API keys of a store, revoked ones included.
    keys: int = 1_000
    # Sessions of one key that were signed out of and are remembered; past it, those that end first are forgotten.
    ended_sessions: int = 1_000
    # The bodies that one step of a move looks into, and the messages that one with a pace looks at.
    move_bytes: int = 4 * 1024 * 1024
    move_page_rows: int = 100
    # Messages that one scan of a queue looks at, and rows that one of the ledger does; and the bodies that it reads.
    scan_rows: int = 10_000
    scan_bytes: int = 64 * 1024 * 1024
    # How long the outcome of a move can be asked for.
    move_kept_ms: int = 24 * 60 * 60 * 1000
    # How long the end of a shipment can be asked for, and how long a settled one that was kept stays readable.
    shipment_remembered_ms: int = 30 * 24 * 60 * 60 * 1000
    shipment_kept_ms: int = 60 * 60 * 1000
    # How long a claim with an attempt id is known again.
    attempt_ms: int = 5 * 60 * 1000
    # How long a send with an idempotency key is known again.
    idempotency_ms: int = 30 * 24 * 60 * 60 * 1000
    # Long polls that may wait at once.
    waiters: int = 20_000

    @property
    def shipment_rows(self) -> int:
        """The messages that one step claims for a shipment, or ends with it."""
        return min(self.shipment_step_rows, self.claim_rows)

    @property
    def collapse_rows(self) -> int:
        return min(self.collapse_step_rows, self.step_rows)

    @property
    def page_bytes(self) -> int:
        """The bodies that one step reads of a page."""
        return min(self.page_step_bytes, self.claim_bytes)

    def divided(self, parts: int) -> Limits:
        """The same, but for steps that have a part of their rows; at least one."""
        return replace(
            self,
            step_rows=max(1, self.step_rows // parts),
            shipment_step_rows=max(1, self.shipment_step_rows // parts),
            page_step_rows=max(1, self.page_step_rows // parts),
            export_count_rows=max(1, self.export_count_rows // parts),
            ledger_count_rows=max(1, self.ledger_count_rows // parts),
            listed_counts=max(1, self.listed_counts // parts),
        )
