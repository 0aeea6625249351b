-- How much the ledger holds up to the row of the number `through`: `amount` rows, and about so many bytes. The sweep counts
-- the rows behind that, each of them once, and takes off what it deletes.
CREATE TABLE ledger_size (
    through INTEGER NOT NULL,
    amount INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
INSERT INTO ledger_size VALUES (0, 0, 0);
