-- When the sweep looks at a deleted queue: at once while it holds messages, and then now and again whether anything
-- still names it. A living queue has none.
ALTER TABLE queue ADD COLUMN due_at INTEGER;
UPDATE queue SET due_at = 0 WHERE deleted_at IS NOT NULL;
CREATE INDEX queue_due ON queue (due_at) WHERE due_at IS NOT NULL;
DROP INDEX queue_deleted;
CREATE INDEX queue_by_dead_letters ON queue (dead_letter_queue) WHERE dead_letter_queue IS NOT NULL;
CREATE INDEX queue_by_any_name ON queue (name);

-- Lowering the retention shall not delete what is there: the sweep leaves messages up to the sequence number
-- `lowered_through` alone until they are past `kept_ms`, the longest retention the queue had before.
ALTER TABLE queue ADD COLUMN kept_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN lowered_through INTEGER NOT NULL DEFAULT 0;

-- Twins that have collapsed behind a message that was handed out, and that no unit has finished yet: those that have
-- this key, up to the sequence number `through`.
CREATE TABLE collapse (
    id INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    dedup_key BLOB NOT NULL,
    through INTEGER NOT NULL,
    UNIQUE (queue, dedup_key)
) STRICT;

-- What became of the messages of one queue.
CREATE INDEX ledger_by_queue ON ledger (queue, number);
