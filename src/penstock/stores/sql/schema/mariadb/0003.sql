-- 1 where a move takes claimed messages along.
ALTER TABLE move ADD COLUMN claimed BIGINT NOT NULL DEFAULT 0;
