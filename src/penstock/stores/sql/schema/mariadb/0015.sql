-- That one `holder` alone does what `name` stands for in a queue, since `taken_at` and `until` an instant, unless it takes
-- the lease again. One that is over is as good as none, and is deleted by the sweep.
CREATE TABLE IF NOT EXISTS lease (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    queue BIGINT NOT NULL,
    name VARCHAR(255) NOT NULL,
    holder VARCHAR(200) NOT NULL,
    taken_at BIGINT NOT NULL,
    until BIGINT NOT NULL,
    UNIQUE KEY lease_by_name (queue, name),
    KEY lease_until (until)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Where the consumer has stored the messages of a shipment, if it said so when it settled them.
ALTER TABLE shipment ADD COLUMN IF NOT EXISTS stored_in VARCHAR(1000);
