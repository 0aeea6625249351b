-- Since when claims find nothing in the queue, NULL while it is not paused.
ALTER TABLE queue ADD COLUMN paused_at BIGINT;
