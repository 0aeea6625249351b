"""The SQL store: the verbs in plain SQL, and what each database needs of its own."""
