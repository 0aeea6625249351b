"""Who is connected to a database, as the database itself sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import psycopg
import pymysql

from devtools.databases import database_of, mariadb_connection
from tests.waiting import wait_until

_POSTGRES = """
    SELECT pid FROM pg_stat_activity
    WHERE datname = %s AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND query LIKE %s"""
_MARIADB = "SELECT id FROM information_schema.processlist WHERE db = %s AND id <> connection_id()"


@contextmanager
def observing(url: str, last_said: str = "%") -> Iterator[Callable[[], set[int]]]:
    """All sessions but our own; of PostgreSQL's, those whose last statement was like this."""
    if urlsplit(url).scheme == "mariadb":
        with mariadb_connection(url) as connection, connection.cursor() as cursor:

            def sessions() -> set[int]:
                cursor.execute(_MARIADB, (database_of(url),))
                return {session for (session,) in cursor.fetchall()}

            yield sessions
    else:
        with psycopg.connect(url, autocommit=True) as observer:
            yield lambda: {pid for (pid,) in observer.execute(_POSTGRES, (database_of(url), last_said))}


def listening(url: str) -> set[int]:
    """Those of PostgreSQL that have said LISTEN and nothing else since."""
    with observing(url, "LISTEN%") as sessions:
        return sessions()


def cut_off(url: str) -> int:
    """End all sessions but our own, and say how many there were. By then they are gone: one that was told to end, but
    has not yet, could end in the middle of what it is asked next."""
    with observing(url) as sessions:
        found = sessions()
        if urlsplit(url).scheme == "mariadb":
            with mariadb_connection(url) as connection, connection.cursor() as cursor:
                for session in found:
                    with suppress(pymysql.err.OperationalError):  # it has left meanwhile
                        cursor.execute(f"KILL {session}")
        else:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid", (list(found),))
        wait_until(lambda: found.isdisjoint(sessions()), every_s=0.001)
    return len(found)
