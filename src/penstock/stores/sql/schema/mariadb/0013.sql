-- How much the ledger holds up to the row of the number `through`: `amount` rows, and about so many bytes. The sweep counts
-- the rows behind that, each of them once, and takes off what it deletes.
CREATE TABLE IF NOT EXISTS ledger_size (
    id BIGINT PRIMARY KEY,
    through BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    bytes BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
INSERT IGNORE INTO ledger_size VALUES (1, 0, 0, 0);
