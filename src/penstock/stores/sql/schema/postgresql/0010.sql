-- What was done by those who look after the store, and by whom: `api_key` is the name of a key, NULL where there are none,
-- and `via` the API. `amount` is how many messages it was done to. Rows never change.
CREATE TABLE action (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    acted_at BIGINT NOT NULL,
    api_key TEXT,
    via TEXT NOT NULL,
    what TEXT NOT NULL,
    queue_name TEXT,
    amount BIGINT,
    detail TEXT
);
CREATE INDEX action_by_time ON action (acted_at, number);
CREATE INDEX action_by_queue ON action (queue_name, number);
CREATE INDEX action_by_key ON action (api_key, number);
CREATE INDEX action_by_what ON action (what, number);

-- Who started a move: the name of the API key and the API. Without the API, it is not remembered.
ALTER TABLE move ADD COLUMN by_key TEXT;
ALTER TABLE move ADD COLUMN by_via TEXT;
