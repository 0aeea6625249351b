-- The group of a message, as bytes. In a queue that is `grouped`, those of a group form a line: the first has a `ready_at`
-- as any message, the others that of their own claim, or one past all instants while they wait behind it.
ALTER TABLE message ADD COLUMN grp BLOB;
CREATE INDEX message_group ON message (queue, grp) WHERE grp IS NOT NULL;
ALTER TABLE queue ADD COLUMN grouped INTEGER NOT NULL DEFAULT 0;

-- For how long a dedup key is known again, and whether in the whole queue or in its group. A purge forgets those of the
-- messages up to a sequence number. `labels` is JSON, NULL for none.
ALTER TABLE queue ADD COLUMN dedup_window_ms INTEGER NOT NULL DEFAULT 300000;
ALTER TABLE queue ADD COLUMN dedup_scope INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN forgotten_through INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN labels TEXT;
ALTER TABLE queue ADD COLUMN modified_at INTEGER NOT NULL DEFAULT 0;
UPDATE queue SET modified_at = created_at;

-- Dedup keys of queues with a window: the first message that had one, which may be gone, and until when it is known.
CREATE TABLE seen (
    id INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    dedup_key BLOB NOT NULL,
    seq INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    until INTEGER NOT NULL,
    UNIQUE (queue, dedup_key)
) STRICT;
CREATE INDEX seen_until ON seen (until);

-- Claims that may be repeated. `held` is what each took, a JSON list of [seq, claim] in the order it was handed out.
CREATE TABLE attempt (
    id INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    attempt_key BLOB NOT NULL,
    held TEXT NOT NULL,
    claimed_at INTEGER NOT NULL,
    UNIQUE (queue, attempt_key)
) STRICT;
CREATE INDEX attempt_by_age ON attempt (claimed_at);

-- How many messages the source held when the move started.
ALTER TABLE move ADD COLUMN total INTEGER NOT NULL DEFAULT 0;
