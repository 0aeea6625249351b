-- Instants are milliseconds since the epoch. Statements can be repeated: MariaDB commits each of them at once, so a crash
-- may leave some of them done.

-- One row. `version` counts the changes of queues and their settings: a process that remembers them asks for it first.
CREATE TABLE IF NOT EXISTS store (
    schema_version BIGINT NOT NULL,
    version BIGINT NOT NULL,
    origin VARCHAR(16) NOT NULL,
    secret VARBINARY(64) NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- One row, locked in share by every unit that writes: an exclusive lock on it waits until they have all ended.
CREATE TABLE IF NOT EXISTS gate (
    number BIGINT PRIMARY KEY
) ENGINE = InnoDB;
INSERT IGNORE INTO gate VALUES (1);

-- Sequence numbers of messages are taken from here. They are not part of the transaction: those of a lost unit are
-- lost, and no unit waits for those of another. The rows themselves do not matter.
CREATE TABLE IF NOT EXISTS ticket (
    seq BIGINT AUTO_INCREMENT PRIMARY KEY
) ENGINE = InnoDB;

-- What ever arrived in a queue and what has left it. Every connection counts in a slot of its own, so that units of
-- several servers do not wait for each other; the sum is what counts. Queue 0 is the store as a whole: it grows with
-- everything that somebody may be waiting for.
CREATE TABLE IF NOT EXISTS tally (
    queue BIGINT NOT NULL,
    slot BIGINT NOT NULL,
    arrived BIGINT NOT NULL,
    departed BIGINT NOT NULL,
    PRIMARY KEY (queue, slot)
) ENGINE = InnoDB;

-- A deleted queue keeps its row: the ledger still names it, and its messages are freed in steps. Its name may be used
-- again: `live_name` is unique, and null does not count.
CREATE TABLE IF NOT EXISTS queue (
    number BIGINT PRIMARY KEY,
    name VARCHAR(262) NOT NULL,
    created_at BIGINT NOT NULL,
    deleted_at BIGINT,
    visibility_ms BIGINT NOT NULL,
    retention_ms BIGINT NOT NULL,
    delay_ms BIGINT NOT NULL,
    dedup BIGINT NOT NULL,
    max_receives BIGINT,
    dead_letter_queue BIGINT,
    ledger BIGINT NOT NULL,
    live_name VARCHAR(262) AS (CASE WHEN deleted_at IS NULL THEN name END) STORED,
    UNIQUE KEY queue_by_name (live_name),
    KEY queue_by_any_name (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- `ready_at` is 0 for a ready message, else the end of its delay or claim.
CREATE TABLE IF NOT EXISTS message (
    seq BIGINT PRIMARY KEY,
    queue BIGINT NOT NULL,
    ready_at BIGINT NOT NULL,
    sent_at BIGINT NOT NULL,
    receives BIGINT NOT NULL,
    claim BIGINT NOT NULL,
    first_claimed_at BIGINT,
    last_claimed_at BIGINT,
    deadline_at BIGINT,
    content_type VARCHAR(255),
    attributes MEDIUMTEXT,
    dedup_key VARBINARY(255),
    body_hash VARBINARY(32) NOT NULL,
    body LONGBLOB NOT NULL,
    KEY message_ready (queue, ready_at, seq),
    KEY message_dedup (queue, dedup_key)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS ledger (
    number BIGINT AUTO_INCREMENT PRIMARY KEY,
    queue BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    sent_at BIGINT NOT NULL,
    first_claimed_at BIGINT,
    last_claimed_at BIGINT,
    finished_at BIGINT NOT NULL,
    receives BIGINT NOT NULL,
    outcome BIGINT NOT NULL,
    size BIGINT NOT NULL,
    body_hash VARBINARY(32) NOT NULL,
    content_type VARCHAR(255),
    body LONGBLOB,
    KEY ledger_by_seq (seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- A move is stepped in the transaction that moves its messages: killed at any point, it goes on where it was.
CREATE TABLE IF NOT EXISTS move (
    id VARCHAR(64) PRIMARY KEY,
    source VARCHAR(262) NOT NULL,
    target VARCHAR(262) NOT NULL,
    through BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    moved BIGINT NOT NULL,
    status VARCHAR(16) NOT NULL,
    error TEXT,
    finished_at BIGINT,
    KEY move_unfinished (finished_at, started_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS api_key (
    number BIGINT AUTO_INCREMENT PRIMARY KEY,
    name VARCHAR(255) NOT NULL UNIQUE,
    digest VARBINARY(64) NOT NULL UNIQUE,
    rules MEDIUMTEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Consumers that are at work. `beat_at` is the latest sign of life of one, which counts for `dead_after_ms`; `number` is
-- its place in the order of birth. `holding` is what it has claimed and still holds, a JSON list of [seq, claim]: it
-- changes in the unit that changes the claims, so the one that finds it dead knows what to give back.
CREATE TABLE IF NOT EXISTS consumer (
    id VARCHAR(64) PRIMARY KEY,
    queue BIGINT NOT NULL,
    number BIGINT NOT NULL,
    delivery VARCHAR(16) NOT NULL,
    beat_at BIGINT NOT NULL,
    dead_after_ms BIGINT NOT NULL,
    holding MEDIUMTEXT NOT NULL,
    UNIQUE KEY consumer_by_birth (queue, number)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
