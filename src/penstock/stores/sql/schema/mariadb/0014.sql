-- From `expires_at` on a key is refused. `rotated_at` is when it was given the secret that it has; until then it had the
-- one that `old_digest` stands for, which is good as well until `old_until`, or until it is retired where that is NULL.
-- When each was last used is noted about once a minute.
ALTER TABLE api_key ADD COLUMN IF NOT EXISTS expires_at BIGINT;
ALTER TABLE api_key ADD COLUMN IF NOT EXISTS rotated_at BIGINT;
ALTER TABLE api_key ADD COLUMN IF NOT EXISTS last_used_at BIGINT;
ALTER TABLE api_key ADD COLUMN IF NOT EXISTS old_digest VARBINARY(64);
ALTER TABLE api_key ADD COLUMN IF NOT EXISTS old_until BIGINT;
ALTER TABLE api_key ADD COLUMN IF NOT EXISTS old_last_used_at BIGINT;
