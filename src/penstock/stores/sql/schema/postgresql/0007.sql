-- The queue that a dead letter was received from in vain, by its name.
ALTER TABLE message ADD COLUMN came_from TEXT;

-- A move may choose. `terms` is JSON: which messages, how many, and how fast; NULL for all of them. `target` is empty where
-- dead letters go back to where they came from. The place is how far a move that chooses has come.
ALTER TABLE move ADD COLUMN terms TEXT;
ALTER TABLE move ADD COLUMN examined BIGINT NOT NULL DEFAULT 0;
ALTER TABLE move ADD COLUMN matched BIGINT NOT NULL DEFAULT 0;
ALTER TABLE move ADD COLUMN homeless BIGINT NOT NULL DEFAULT 0;
ALTER TABLE move ADD COLUMN place_ready_at BIGINT NOT NULL DEFAULT 1;
ALTER TABLE move ADD COLUMN place_seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE move ADD COLUMN next_at BIGINT NOT NULL DEFAULT 0;
