-- Twins that have collapsed behind messages that were handed out by one claim, and that the sweep has not finished yet.
-- `runs` are their sequence numbers: see runs.py. AUTOINCREMENT: a process knows the notes it has read by
-- their ids.
CREATE TABLE doomed (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL,
    runs TEXT NOT NULL
) STRICT;
CREATE INDEX doomed_by_queue ON doomed (queue);
