"""`penstock check`: whether a store that is kept in a database is sound. It reads one moment, and changes nothing."""
