-- Consumers that are at work. `beat_at` is the latest sign of life of one, which counts for `dead_after_ms`; `number` is
-- its place in the order of birth. `holding` is what it has claimed and still holds, a JSON list of [seq, claim]: it
-- changes in the unit that changes the claims, so the one that finds it dead knows what to give back.
CREATE TABLE consumer (
    id TEXT PRIMARY KEY,
    queue INTEGER NOT NULL,
    number INTEGER NOT NULL,
    delivery TEXT NOT NULL,
    beat_at INTEGER NOT NULL,
    dead_after_ms INTEGER NOT NULL,
    holding TEXT NOT NULL,
    UNIQUE (queue, number)
) STRICT;

-- What became of one message.
CREATE INDEX ledger_by_seq ON ledger (seq);
