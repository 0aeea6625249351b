-- When the sweep looks at a deleted queue: at once while it holds messages, and then now and again whether anything
-- still names it. A living queue has none.
ALTER TABLE queue ADD COLUMN due_at BIGINT;
UPDATE queue SET due_at = 0 WHERE deleted_at IS NOT NULL;
CREATE INDEX queue_due ON queue (due_at);
CREATE INDEX queue_by_dead_letters ON queue (dead_letter_queue);

-- Lowering the retention shall not delete what is there: the sweep leaves messages up to the sequence number
-- `lowered_through` alone until they are past `kept_ms`, the longest retention the queue had before.
ALTER TABLE queue ADD COLUMN kept_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN lowered_through BIGINT NOT NULL DEFAULT 0;

-- Twins that have collapsed behind a message that was handed out, and that no unit has finished yet: those that have
-- this key, up to the sequence number `through`.
CREATE TABLE IF NOT EXISTS collapse (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    queue BIGINT NOT NULL,
    dedup_key VARBINARY(255) NOT NULL,
    through BIGINT NOT NULL,
    UNIQUE KEY collapse_by_key (queue, dedup_key)
) ENGINE = InnoDB;

-- What became of the messages of one queue.
CREATE INDEX ledger_by_queue ON ledger (queue, number);
