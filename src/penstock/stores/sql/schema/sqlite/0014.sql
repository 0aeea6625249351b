-- From `expires_at` on a key is refused. `rotated_at` is when it was given the secret that it has; until then it had the
-- one that `old_digest` stands for, which is good as well until `old_until`, or until it is retired where that is NULL.
-- When each was last used is noted about once a minute.
ALTER TABLE api_key ADD COLUMN expires_at INTEGER;
ALTER TABLE api_key ADD COLUMN rotated_at INTEGER;
ALTER TABLE api_key ADD COLUMN last_used_at INTEGER;
ALTER TABLE api_key ADD COLUMN old_digest BLOB;
ALTER TABLE api_key ADD COLUMN old_until INTEGER;
ALTER TABLE api_key ADD COLUMN old_last_used_at INTEGER;
