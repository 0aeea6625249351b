-- The group of a message, as bytes. In a queue that is `grouped`, those of a group form a line: the first has a `ready_at`
-- as any message, the others that of their own claim, or one past all instants while they wait behind it.
ALTER TABLE message ADD COLUMN grp BYTEA;
-- The sum is there for the same reason as in the index by age.
CREATE INDEX message_group ON message (queue, grp, (seq + 0)) WHERE grp IS NOT NULL;
ALTER TABLE queue ADD COLUMN grouped BIGINT NOT NULL DEFAULT 0;

-- For how long a dedup key is known again, and whether in the whole queue or in its group. A purge forgets those of the
-- messages up to a sequence number. `labels` is JSON, NULL for none.
ALTER TABLE queue ADD COLUMN dedup_window_ms BIGINT NOT NULL DEFAULT 300000;
ALTER TABLE queue ADD COLUMN dedup_scope BIGINT NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN forgotten_through BIGINT NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN labels TEXT;
ALTER TABLE queue ADD COLUMN modified_at BIGINT NOT NULL DEFAULT 0;
UPDATE queue SET modified_at = created_at;

-- Dedup keys of queues with a window: the first message that had one, which may be gone, and until when it is known.
CREATE TABLE seen (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue BIGINT NOT NULL,
    dedup_key BYTEA NOT NULL,
    seq BIGINT NOT NULL,
    sent_at BIGINT NOT NULL,
    until BIGINT NOT NULL,
    UNIQUE (queue, dedup_key)
);
CREATE INDEX seen_until ON seen (until);

-- Claims that may be repeated. `held` is what each took, a JSON list of [seq, claim] in the order it was handed out.
CREATE TABLE attempt (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue BIGINT NOT NULL,
    attempt_key BYTEA NOT NULL,
    held TEXT NOT NULL,
    claimed_at BIGINT NOT NULL,
    UNIQUE (queue, attempt_key)
);
CREATE INDEX attempt_by_age ON attempt (claimed_at);

-- How many messages the source held when the move started.
ALTER TABLE move ADD COLUMN total BIGINT NOT NULL DEFAULT 0;

-- In the order of their characters' numbers, which is not that of every language.
CREATE INDEX queue_by_characters ON queue (name COLLATE "C") WHERE deleted_at IS NULL;
