-- Twins that have collapsed behind messages that were handed out by one claim, and that the sweep has not finished yet.
-- `runs` are their sequence numbers: see runs.py. A process knows the notes it has read by their ids.
CREATE TABLE doomed (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue BIGINT NOT NULL,
    runs TEXT NOT NULL
);
CREATE INDEX doomed_by_queue ON doomed (queue, id);
