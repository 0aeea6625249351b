"""The rows of the campaign's table, a module for each."""
