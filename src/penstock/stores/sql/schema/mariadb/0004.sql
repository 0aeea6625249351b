-- A unit that writes into the ledger leaves a row here before it takes numbers there, in the same transaction: its own
-- numbers are higher than `since`. A reader of the ledger looks for rows that are not committed yet. The others do not
-- matter, and go when they are old.
CREATE TABLE IF NOT EXISTS ledger_writer (
    entry BIGINT AUTO_INCREMENT PRIMARY KEY,
    since BIGINT NOT NULL
) ENGINE = InnoDB;

-- It was locked for the same purpose, and all others waited for a reader of the ledger.
DROP TABLE IF EXISTS gate;
