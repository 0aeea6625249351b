-- Figures of queues, in buckets: how often each thing has happened in one of `width` milliseconds that begins with
-- `since`, and what was in the queue when it was last looked at meanwhile, NULL where it was not. The bucket of width 0
-- has the totals.
CREATE TABLE figure (
    id INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    width INTEGER NOT NULL,
    since INTEGER NOT NULL,
    sent INTEGER NOT NULL DEFAULT 0,
    claimed INTEGER NOT NULL DEFAULT 0,
    redelivered INTEGER NOT NULL DEFAULT 0,
    acked INTEGER NOT NULL DEFAULT 0,
    expired INTEGER NOT NULL DEFAULT 0,
    dead_lettered INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    purged INTEGER NOT NULL DEFAULT 0,
    moved INTEGER NOT NULL DEFAULT 0,
    collapsed INTEGER NOT NULL DEFAULT 0,
    ready_now INTEGER,
    delayed_now INTEGER,
    claimed_now INTEGER,
    oldest_sent_at INTEGER,
    UNIQUE (queue, width, since)
) STRICT;
CREATE INDEX figure_by_time ON figure (width, since, queue);

-- Those that have not ended are few.
CREATE INDEX shipment_open ON shipment (queue, ended_at) WHERE ended_at IS NULL;
