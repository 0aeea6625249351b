-- Twins that have collapsed behind messages that were handed out by one claim, and that the sweep has not finished yet.
-- `runs` are their sequence numbers: see runs.py. A process knows the notes it has read by their ids.
CREATE TABLE IF NOT EXISTS doomed (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    queue BIGINT NOT NULL,
    runs LONGTEXT NOT NULL,
    KEY doomed_by_queue (queue, id)
) ENGINE = InnoDB;
