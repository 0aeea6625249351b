-- Instants are milliseconds since the epoch. All numbers are BIGINT, as the driver sends them.

-- One row. `version` counts the changes of queues and their settings: a process that remembers them asks for it first.
CREATE TABLE store (
    schema_version BIGINT NOT NULL,
    version BIGINT NOT NULL,
    origin TEXT NOT NULL,
    secret BYTEA NOT NULL
);

-- What ever arrived in a queue and what has left it. Every connection counts in a slot of its own, so that units of
-- several servers do not wait for each other; the sum is what counts. The rows change all the time: room for that
-- on their page spares the index.
CREATE TABLE tally (
    queue BIGINT NOT NULL,
    slot BIGINT NOT NULL,
    arrived BIGINT NOT NULL,
    departed BIGINT NOT NULL,
    PRIMARY KEY (queue, slot)
) WITH (fillfactor = 25);

-- A deleted queue keeps its row: the ledger still names it, and its messages are freed in steps.
CREATE TABLE queue (
    number BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    deleted_at BIGINT,
    visibility_ms BIGINT NOT NULL,
    retention_ms BIGINT NOT NULL,
    delay_ms BIGINT NOT NULL,
    dedup BIGINT NOT NULL,
    max_receives BIGINT,
    dead_letter_queue BIGINT,
    ledger BIGINT NOT NULL
);
CREATE UNIQUE INDEX queue_by_name ON queue (name) WHERE deleted_at IS NULL;
CREATE INDEX queue_deleted ON queue (number) WHERE deleted_at IS NOT NULL;

-- Not in the transaction: numbers of a lost unit are lost, and no unit waits for those of another.
CREATE SEQUENCE message_seq;

-- `ready_at` is 0 for a ready message, else the end of its delay or claim.
-- Every claim leaves a dead row behind, and the dead ones stand where the next claim begins to look. Vacuuming after
-- so many rows, not after a share of the table, keeps a claim as quick in a deep queue as in a short one.
CREATE TABLE message (
    seq BIGINT PRIMARY KEY,
    queue BIGINT NOT NULL,
    ready_at BIGINT NOT NULL,
    sent_at BIGINT NOT NULL,
    receives BIGINT NOT NULL,
    claim BIGINT NOT NULL,
    first_claimed_at BIGINT,
    last_claimed_at BIGINT,
    deadline_at BIGINT,
    content_type TEXT,
    attributes TEXT,
    dedup_key BYTEA,
    body_hash BYTEA NOT NULL,
    body BYTEA NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_analyze_threshold = 20000
);
-- By age within a queue, ready ones first. The sum is there so that only this index has the order a claim asks for: on
-- the number alone, the planner sometimes takes the primary key and walks through all queues and all claimed messages.
CREATE INDEX message_ready ON message (queue, ready_at, (seq + 0));
CREATE INDEX message_dedup ON message (queue, dedup_key) WHERE dedup_key IS NOT NULL;

CREATE TABLE ledger (
    number BIGINT GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME ledger_number) PRIMARY KEY,
    queue BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    sent_at BIGINT NOT NULL,
    first_claimed_at BIGINT,
    last_claimed_at BIGINT,
    finished_at BIGINT NOT NULL,
    receives BIGINT NOT NULL,
    outcome BIGINT NOT NULL,
    size BIGINT NOT NULL,
    body_hash BYTEA NOT NULL,
    content_type TEXT,
    body BYTEA
);
CREATE INDEX ledger_by_seq ON ledger (seq);

-- A move is stepped in the transaction that moves its messages: killed at any point, it goes on where it was.
CREATE TABLE move (
    id TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    through BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    moved BIGINT NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    finished_at BIGINT
);
CREATE INDEX move_unfinished ON move (started_at) WHERE finished_at IS NULL;

CREATE TABLE api_key (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    digest BYTEA NOT NULL UNIQUE,
    rules TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);

-- Consumers that are at work. `beat_at` is the latest sign of life of one, which counts for `dead_after_ms`; `number` is
-- its place in the order of birth. `holding` is what it has claimed and still holds, a JSON list of [seq, claim]: it
-- changes in the unit that changes the claims, so the one that finds it dead knows what to give back.
CREATE TABLE consumer (
    id TEXT PRIMARY KEY,
    queue BIGINT NOT NULL,
    number BIGINT NOT NULL,
    delivery TEXT NOT NULL,
    beat_at BIGINT NOT NULL,
    dead_after_ms BIGINT NOT NULL,
    holding TEXT NOT NULL,
    UNIQUE (queue, number)
);
