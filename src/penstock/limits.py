"""Every limit of the core, in one place. Times are milliseconds, sizes are bytes."""

from __future__ import annotations

INT32_MAX = 2**31 - 1

# What a caller may ask for.
NAME_LENGTH = 255
BODY_BYTES = 1024 * 1024
ATTRIBUTES_BYTES = 64 * 1024
CONTENT_TYPE_BYTES = 255
CLAIM_LIMIT = 1_000
# What the native API hands out at once.
BULK_LIMIT = 10_000
# The bodies that one claim or peek hands out: it stops early rather than fill the memory.
CLAIM_BYTES = 16 * 1024 * 1024
SEND_LIMIT = 10_000
ACK_LIMIT = 10_000
LIST_LIMIT = 10_000
WAIT_MS = 60_000
DURATION_MS = INT32_MAX * 1_000
# The last second of the year 9999: the end of a claim that only its consumer's death ends, and the latest deadline. A
# double holds it exactly, and so does every calendar.
NEVER = 253_402_300_799_000

# The end of the claim on a message in a shipment, later than any other: only the shipment itself may end it.
SHIPPED = NEVER + 999
SHIPMENT_ROWS = 1_000_000
EXPORT_ROWS = 10_000_000
# How long the end of a shipment can be asked for, and how long a settled one that was kept stays readable.
SHIPMENT_REMEMBERED_MS = 30 * 24 * 60 * 60 * 1000
SHIPMENT_KEPT_MS = 60 * 60 * 1000
IDEMPOTENCY_KEY_LENGTH = 255
# How long a send with an idempotency key is known again.
IDEMPOTENCY_MS = 30 * 24 * 60 * 60 * 1000

# How much one unit of durability may touch before it gives way to the next: long work is cut into
# steps of this size, so that no request waits for a whole queue.
STEP_ROWS = 1_000
# Messages that the claims of one unit may take together.
CLAIM_ROWS = 5_000
# How often one claim goes back for more when what it found was expired or dead.
CLAIM_ROUNDS = 8
# Ready messages among which a consumer looks for its share.
SHARE_ROWS = 2_000
# Messages whose delay or claim has run out and that one claim makes ready again.
PROMOTE_ROWS = 10_000
# Operations that one unit of durability serves.
UNIT_OPERATIONS = 2_048
# Rows of the ledger that one unit counts for an export.
EXPORT_COUNT_ROWS = 100_000
# By so much later or earlier than its neighbours a row of the ledger may have finished: as long as a unit may last.
LEDGER_DISORDER_MS = 10_000
# Counts are exact up to here; past it they are estimates.
COUNT_ROWS = 10_000
# The same in a list of queues, for each of them; and how many queues one unit counts at most.
LISTED_COUNT_ROWS = 1_000
LISTED_COUNTS = 200
# Queues that one sweep visits.
SWEEP_QUEUES = 256
# Dead consumers that one unit clears away.
REAP_CONSUMERS = 64

KEYS = 1_000
RULES = 100
# What a filter of a move may consist of.
FILTER_TEXT_LENGTH = 1_000
PATH_LENGTH = 255
PATH_STEPS = 16
MOVES_PER_SECOND = 1_000_000
# The bodies that one step of a move looks into, and the messages that one with a pace looks at.
MOVE_BYTES = 4 * 1024 * 1024
MOVE_PAGE_ROWS = 100
# How long the outcome of a move can be asked for.
MOVE_KEPT_MS = 24 * 60 * 60 * 1000

# Long polls that may wait at once.
WAITERS = 20_000
