-- How much the ledger holds up to the row of the number `through`: `amount` rows, and about so many bytes. The sweep counts
-- the rows behind that, each of them once, and takes off what it deletes.
CREATE TABLE ledger_size (
    through BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    bytes BIGINT NOT NULL
);
INSERT INTO ledger_size VALUES (0, 0, 0);
