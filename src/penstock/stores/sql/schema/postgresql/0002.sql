-- Messages that were claimed together for one consumer. `runs` are their sequence numbers: see runs.py. `cleared` is how
-- many of them its end has dealt with so far. `kept` is 1 while it is settled and can still be read: such messages have
-- left their queue, and stand with the queue -`id`; and 2 while they are being freed. `due_at` is when the sweep looks
-- at it: when it is lost, at once while its end is not finished, and when it is forgotten.
CREATE TABLE shipment (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue BIGINT NOT NULL,
    consumer TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    state TEXT NOT NULL,
    messages BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    cleared BIGINT NOT NULL,
    kept BIGINT NOT NULL,
    claimed_at BIGINT NOT NULL,
    until BIGINT NOT NULL,
    ended_at BIGINT,
    due_at BIGINT NOT NULL,
    runs TEXT NOT NULL,
    UNIQUE (queue, consumer, number)
);
CREATE INDEX shipment_due ON shipment (due_at);

-- Rows of the ledger for one consumer: `amount` of them, those after `after_number` through `through_number`. While the
-- row `first_number` is there, none of them has been swept.
CREATE TABLE export (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    after_number BIGINT NOT NULL,
    through_number BIGINT NOT NULL,
    first_number BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    claimed_at BIGINT NOT NULL,
    settled_at BIGINT,
    UNIQUE (consumer, number)
);
CREATE INDEX export_settled ON export (settled_at);

-- Sends with a key, and what became of them.
CREATE TABLE sending (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue BIGINT NOT NULL,
    send_key BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    messages BIGINT NOT NULL,
    stored BIGINT NOT NULL,
    sent_at BIGINT NOT NULL,
    UNIQUE (queue, send_key)
);
CREATE INDEX sending_by_age ON sending (sent_at);
