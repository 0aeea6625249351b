-- What was done by those who look after the store, and by whom: `api_key` is the name of a key, NULL where there are none,
-- and `via` the API. `amount` is how many messages it was done to. Rows never change.
CREATE TABLE IF NOT EXISTS action (
    number BIGINT AUTO_INCREMENT PRIMARY KEY,
    acted_at BIGINT NOT NULL,
    api_key VARCHAR(255),
    via VARCHAR(64) NOT NULL,
    what VARCHAR(64) NOT NULL,
    queue_name VARCHAR(262),
    amount BIGINT,
    detail MEDIUMTEXT,
    KEY action_by_time (acted_at, number),
    KEY action_by_queue (queue_name, number),
    KEY action_by_key (api_key, number),
    KEY action_by_what (what, number)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Who started a move: the name of the API key and the API. Without the API, it is not remembered.
ALTER TABLE move ADD COLUMN IF NOT EXISTS by_key VARCHAR(255);
ALTER TABLE move ADD COLUMN IF NOT EXISTS by_via VARCHAR(64);
