"""A SQLite store that is only read, at one moment: nothing here makes, migrates or checkpoints a file.

The connection may not write, and it holds a read transaction from the beginning: it sees one commit and no later one.
Servers go on writing meanwhile, since a reader of a WAL never holds up a writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from penstock.stores.sql.engines import forks
from penstock.stores.sql.engines.sqlite import translated
from penstock.stores.sql.engines.sqlite_file import APPLICATION_ID, SqliteFile

# A server that starts or ends at the same time has the file to itself for a moment.
_PATIENCE_MS = 10_000


@contextmanager
def reading(path: Path) -> Iterator[apsw.Connection]:
    """Raises StoreUnavailable where there is no file that can be read, and StoreForeign if it is not ours."""
    file = SqliteFile(path)
    file.examine()
    connection = None
    try:
        connection = apsw.Connection(file.real_path, flags=apsw.SQLITE_OPEN_READONLY)
        forks.note_opened(connection, file.inode())
        connection.set_busy_timeout(_PATIENCE_MS)
        connection.execute("BEGIN")
        # The first statement that reads is what takes the moment.
        [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        if not tables or connection.pragma("application_id") != APPLICATION_ID:
            raise file.not_ours()
        yield connection
    except apsw.Error as error:
        raise translated(error) from error
    finally:
        if connection is not None:
            connection.close(True)
            forks.note_closed(connection)
