-- 1 where a move takes claimed messages along.
ALTER TABLE move ADD COLUMN IF NOT EXISTS claimed BIGINT NOT NULL DEFAULT 0;
