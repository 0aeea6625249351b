-- Messages that were claimed together for one consumer. `runs` are their sequence numbers: see runs.py. `cleared` is how
-- many of them its end has dealt with so far. `kept` is 1 while it is settled and can still be read: such messages have
-- left their queue, and stand with the queue -`id`; and 2 while they are being freed. `due_at` is when the sweep looks
-- at it: when it is lost, at once while its end is not finished, and when it is forgotten.
CREATE TABLE shipment (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL,
    consumer TEXT NOT NULL,
    number INTEGER NOT NULL,
    state TEXT NOT NULL,
    messages INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    cleared INTEGER NOT NULL,
    kept INTEGER NOT NULL,
    claimed_at INTEGER NOT NULL,
    until INTEGER NOT NULL,
    ended_at INTEGER,
    due_at INTEGER NOT NULL,
    runs TEXT NOT NULL,
    UNIQUE (queue, consumer, number)
) STRICT;
CREATE INDEX shipment_due ON shipment (due_at);

-- Rows of the ledger for one consumer: `amount` of them, those after `after_number` through `through_number`. While the
-- row `first_number` is there, none of them has been swept.
CREATE TABLE export (
    id INTEGER PRIMARY KEY,
    consumer TEXT NOT NULL,
    number INTEGER NOT NULL,
    after_number INTEGER NOT NULL,
    through_number INTEGER NOT NULL,
    first_number INTEGER NOT NULL,
    amount INTEGER NOT NULL,
    claimed_at INTEGER NOT NULL,
    settled_at INTEGER,
    UNIQUE (consumer, number)
) STRICT;
CREATE INDEX export_settled ON export (settled_at);

-- Sends with a key, and what became of them.
CREATE TABLE sending (
    id INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    send_key BLOB NOT NULL,
    digest BLOB NOT NULL,
    messages INTEGER NOT NULL,
    stored INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    UNIQUE (queue, send_key)
) STRICT;
CREATE INDEX sending_by_age ON sending (sent_at);
