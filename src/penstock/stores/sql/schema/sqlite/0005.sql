-- How long a message waits after a claim in vain: both are NULL where a queue has no backoff.
ALTER TABLE queue ADD COLUMN backoff_first_ms INTEGER;
ALTER TABLE queue ADD COLUMN backoff_most_ms INTEGER;
