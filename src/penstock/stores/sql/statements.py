"""Statements as the verbs write them, for drivers that want them otherwise."""

from __future__ import annotations

from functools import lru_cache

from penstock.stores.sql.session import MESSAGE_COLUMNS


@lru_cache(1024)
def with_percent_signs(sql: str) -> str:
    """`%s` for each parameter instead of `?`."""
    return sql.replace("%", "%%").replace("?", "%s")


@lru_cache(64)
def within_budget(sql: str) -> str:
    """The messages a statement finds, while the bodies before them come to less than one more parameter."""
    return f"""SELECT {MESSAGE_COLUMNS} FROM (
        SELECT found.*, sum(length(body)) OVER (ORDER BY ready_at, seq) - length(body) AS before_it
        FROM ({sql}) AS found) AS measured
    WHERE before_it < ? ORDER BY ready_at, seq"""
