-- The group of a message, as bytes. In a queue that is `grouped`, those of a group form a line: the first has a `ready_at`
-- as any message, the others that of their own claim, or one past all instants while they wait behind it.
ALTER TABLE message ADD COLUMN grp VARBINARY(512);
CREATE INDEX message_group ON message (queue, grp, seq);
ALTER TABLE queue ADD COLUMN grouped BIGINT NOT NULL DEFAULT 0;

-- For how long a dedup key is known again, and whether in the whole queue or in its group. A purge forgets those of the
-- messages up to a sequence number. `labels` is JSON, NULL for none.
ALTER TABLE queue ADD COLUMN dedup_window_ms BIGINT NOT NULL DEFAULT 300000;
ALTER TABLE queue ADD COLUMN dedup_scope BIGINT NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN forgotten_through BIGINT NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN labels MEDIUMTEXT;
ALTER TABLE queue ADD COLUMN modified_at BIGINT NOT NULL DEFAULT 0;
UPDATE queue SET modified_at = created_at;

-- Dedup keys of queues with a window: the first message that had one, which may be gone, and until when it is known.
CREATE TABLE IF NOT EXISTS seen (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    queue BIGINT NOT NULL,
    dedup_key VARBINARY(512) NOT NULL,
    seq BIGINT NOT NULL,
    sent_at BIGINT NOT NULL,
    until BIGINT NOT NULL,
    UNIQUE KEY seen_by_key (queue, dedup_key)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE INDEX seen_until ON seen (until);

-- Claims that may be repeated. `held` is what each took, a JSON list of [seq, claim] in the order it was handed out.
CREATE TABLE IF NOT EXISTS attempt (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    queue BIGINT NOT NULL,
    attempt_key VARBINARY(512) NOT NULL,
    held MEDIUMTEXT NOT NULL,
    claimed_at BIGINT NOT NULL,
    UNIQUE KEY attempt_by_key (queue, attempt_key)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE INDEX attempt_by_age ON attempt (claimed_at);

-- How many messages the source held when the move started.
ALTER TABLE move ADD COLUMN total BIGINT NOT NULL DEFAULT 0;
