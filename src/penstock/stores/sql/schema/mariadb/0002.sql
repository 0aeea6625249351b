-- Messages that were claimed together for one consumer. `runs` are their sequence numbers: see runs.py. `cleared` is how
-- many of them its end has dealt with so far. `kept` is 1 while it is settled and can still be read: such messages have
-- left their queue, and stand with the queue -`id`, and 2 while they are being freed. `due_at` is when the sweep looks
-- at it: when it is lost, at once while its end is not finished, and when it is forgotten.
CREATE TABLE IF NOT EXISTS shipment (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    queue BIGINT NOT NULL,
    consumer VARCHAR(255) NOT NULL,
    number BIGINT NOT NULL,
    state VARCHAR(16) NOT NULL,
    messages BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    cleared BIGINT NOT NULL,
    kept BIGINT NOT NULL,
    claimed_at BIGINT NOT NULL,
    until BIGINT NOT NULL,
    ended_at BIGINT,
    due_at BIGINT NOT NULL,
    runs LONGTEXT NOT NULL,
    UNIQUE KEY shipment_by_number (queue, consumer, number),
    KEY shipment_due (due_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Rows of the ledger for one consumer: `amount` of them, those after `after_number` through `through_number`. While the
-- row `first_number` is there, none of them has been swept.
CREATE TABLE IF NOT EXISTS export (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    consumer VARCHAR(255) NOT NULL,
    number BIGINT NOT NULL,
    after_number BIGINT NOT NULL,
    through_number BIGINT NOT NULL,
    first_number BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    claimed_at BIGINT NOT NULL,
    settled_at BIGINT,
    UNIQUE KEY export_by_number (consumer, number),
    KEY export_settled (settled_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Sends with a key, and what became of them. Texts compare without the spaces at their ends here: the key is bytes.
CREATE TABLE IF NOT EXISTS sending (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    queue BIGINT NOT NULL,
    send_key VARBINARY(255) NOT NULL,
    digest VARBINARY(64) NOT NULL,
    messages BIGINT NOT NULL,
    stored BIGINT NOT NULL,
    sent_at BIGINT NOT NULL,
    UNIQUE KEY sending_by_key (queue, send_key),
    KEY sending_by_age (sent_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
