-- Instants are milliseconds since the epoch. STRICT keeps a wrong type out of a column for good.

-- One row.
CREATE TABLE store (
    origin TEXT NOT NULL,
    secret BLOB NOT NULL
) STRICT;

-- What ever arrived in a queue and what has left it: a count costs one row, at any depth. Queue 0 is the store as a
-- whole, and what arrived in it is the last sequence number given out: it survives an empty table, so that an id is
-- never used twice. All of these change with nearly every unit, and here they share a page of the log.
CREATE TABLE tally (
    queue INTEGER PRIMARY KEY,
    arrived INTEGER NOT NULL,
    departed INTEGER NOT NULL
) STRICT;
INSERT INTO tally VALUES (0, 0, 0);

-- A deleted queue keeps its row: the ledger still names it, and its messages are freed in steps.
CREATE TABLE queue (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    deleted_at INTEGER,
    visibility_ms INTEGER NOT NULL,
    retention_ms INTEGER NOT NULL,
    delay_ms INTEGER NOT NULL,
    dedup INTEGER NOT NULL,
    max_receives INTEGER,
    dead_letter_queue INTEGER REFERENCES queue (number),
    ledger INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX queue_by_name ON queue (name) WHERE deleted_at IS NULL;
CREATE INDEX queue_deleted ON queue (number) WHERE deleted_at IS NOT NULL;

-- `ready_at` is 0 for a ready message, else the end of its delay or claim.
-- The body stands last: what comes before it is read without touching its overflow pages.
CREATE TABLE message (
    seq INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    ready_at INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    receives INTEGER NOT NULL,
    claim INTEGER NOT NULL,
    first_claimed_at INTEGER,
    last_claimed_at INTEGER,
    deadline_at INTEGER,
    content_type TEXT,
    attributes TEXT,
    dedup_key BLOB,
    body_hash BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
-- The one index of the hot path. Ready messages stand first, by age (seq is the row id that ends every
-- index entry), then all others by the instant they become ready.
CREATE INDEX message_ready ON message (queue, ready_at);
CREATE INDEX message_dedup ON message (queue, dedup_key) WHERE dedup_key IS NOT NULL;

-- AUTOINCREMENT: a reader's cursor stays good after the oldest rows, or all of them, are gone.
CREATE TABLE ledger (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    first_claimed_at INTEGER,
    last_claimed_at INTEGER,
    finished_at INTEGER NOT NULL,
    receives INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    size INTEGER NOT NULL,
    body_hash BLOB NOT NULL,
    content_type TEXT,
    body BLOB
) STRICT;

-- A move is stepped in the transaction that moves its messages: killed at any point, it goes on where it was.
CREATE TABLE move (
    id TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    through INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    moved INTEGER NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    finished_at INTEGER
) STRICT;
CREATE INDEX move_unfinished ON move (started_at) WHERE finished_at IS NULL;

CREATE TABLE api_key (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    digest BLOB NOT NULL UNIQUE,
    rules TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;
