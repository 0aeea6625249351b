"""A list of numbers as a parameter of PostgreSQL. psycopg takes any list: it looks at every element, more than once. Of
ours it need not.

A file of its own, because a class that inherits from one of psycopg's is not compiled.
"""

from __future__ import annotations

import psycopg
from psycopg import pq
from psycopg.adapt import Dumper

from penstock.stores.sql.engines.postgresql_sender import array_of_numbers


class Numbers:
    """A parameter of the type `bigint[]`."""

    __slots__ = ("values",)

    def __init__(self, values: list[int]) -> None:
        self.values = values


class NumbersDumper(Dumper):
    format = pq.Format.BINARY
    oid = psycopg.postgres.types["int8"].array_oid

    def dump(self, obj: Numbers) -> bytes:
        return array_of_numbers(obj.values)
