-- How long a message waits after a claim in vain: both are NULL where a queue has no backoff.
ALTER TABLE queue ADD COLUMN IF NOT EXISTS backoff_first_ms BIGINT;
ALTER TABLE queue ADD COLUMN IF NOT EXISTS backoff_most_ms BIGINT;
