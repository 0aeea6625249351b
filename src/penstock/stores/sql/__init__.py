"""The store in a database: its verbs are written once, a module per noun, and `engines` holds what the databases differ
in."""
