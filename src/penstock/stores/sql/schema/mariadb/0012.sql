-- Figures of queues, in buckets: how often each thing has happened in one of `width` milliseconds that begins with
-- `since`, and what was in the queue when it was last looked at meanwhile, NULL where it was not. The bucket of width 0
-- has the totals.
CREATE TABLE IF NOT EXISTS figure (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    queue BIGINT NOT NULL,
    width BIGINT NOT NULL,
    since BIGINT NOT NULL,
    sent BIGINT NOT NULL DEFAULT 0,
    claimed BIGINT NOT NULL DEFAULT 0,
    redelivered BIGINT NOT NULL DEFAULT 0,
    acked BIGINT NOT NULL DEFAULT 0,
    expired BIGINT NOT NULL DEFAULT 0,
    dead_lettered BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    purged BIGINT NOT NULL DEFAULT 0,
    moved BIGINT NOT NULL DEFAULT 0,
    collapsed BIGINT NOT NULL DEFAULT 0,
    ready_now BIGINT,
    delayed_now BIGINT,
    claimed_now BIGINT,
    oldest_sent_at BIGINT,
    UNIQUE KEY figure_of_queue (queue, width, since)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE INDEX figure_by_time ON figure (width, since, queue);

-- Those that have not ended are few.
CREATE INDEX shipment_open ON shipment (ended_at, queue);
