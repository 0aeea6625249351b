-- That one `holder` alone does what `name` stands for in a queue, since `taken_at` and `until` an instant, unless it takes
-- the lease again. One that is over is as good as none, and is deleted by the sweep.
CREATE TABLE lease (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    holder TEXT NOT NULL,
    taken_at BIGINT NOT NULL,
    until BIGINT NOT NULL,
    UNIQUE (queue, name)
);
CREATE INDEX lease_until ON lease (until);

-- Where the consumer has stored the messages of a shipment, if it said so when it settled them.
ALTER TABLE shipment ADD COLUMN stored_in TEXT;
