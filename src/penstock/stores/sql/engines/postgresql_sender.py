"""Sends to PostgreSQL without a thread: one prepared statement on libpq itself, in the binary format.

psycopg's cursors wait for every answer, so each would need a thread, and hand the interpreter to and fro with the event
loop. Here a statement is handed to libpq, and its answer is taken when the socket has something to read. See `Sending`.
"""

from __future__ import annotations

import select
import struct
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Any

import psycopg
from psycopg import pq

from penstock.errors import StoreUnavailable
from penstock.stores.sql.engine import Row
from penstock.stores.sql.engines.network import Answer
from penstock.stores.sql.engines.postgresql_pipeline import ARRAY, BINARY, INT8, numbered

_NAME = b"penstock_send"
# PostgreSQL's numbers for the types of elements.
_OIDS = {"int8": 20, "text": 25, "bytea": 17}
# An element is its length and its bytes; one that is NULL has this length.
_LENGTH = Struct(">i")
_NULL = _LENGTH.pack(-1)
_NUMBER = Struct(">iq")


# Where in PostgreSQL a commit waits for standbys: a name that no language changes.
_WAITS_FOR_STANDBYS = "SyncRepWaitForLSN"


class Doubt:
    """Whether a commit may be lost although the database has called it done.

    A commit that waits for a standby may be told to wait no longer. Then it is done, as it cannot be undone, and comes
    with a warning: the standby may not have it. Should that one take over, it would be gone.
    """

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._is_there = False
        connection.add_notice_handler(self._heed)

    def _heed(self, notice: Any) -> None:
        if notice.source_function == _WAITS_FOR_STANDBYS:
            self._is_there = True

    def check(self) -> None:
        """Raises StoreUnavailable, after which the connection is not used any more."""
        if self._is_there:
            raise StoreUnavailable("the database has committed a transaction that its standby may not have")


class PostgresSender:
    def __init__(
        self, connection: psycopg.Connection[Row], text: str, types: Sequence[str], slot: int, doubt: Doubt
    ) -> None:
        """`types` are those of the columns that are sent, and `text` has a parameter for each, then one for the version
        of the queues and one for the slot of the tally."""
        self._connection = connection.pgconn
        self._types = tuple(types)
        self._doubt = doubt
        self._slot = INT8.pack(slot)
        self._formats = [BINARY] * (len(self._types) + 2)
        self._results: list[pq.abc.PGresult] = []
        self._lost = False
        self.descriptor = self._connection.socket
        self.is_writing = False
        self._unread = select.poll()
        self._unread.register(self.descriptor, select.POLLIN)
        prepared = self._connection.prepare(_NAME, numbered(text))
        if prepared.status != pq.ExecStatus.COMMAND_OK:
            raise psycopg.OperationalError(prepared.get_error_message())

    def begin(self, version: int, rows: Sequence[Row]) -> bool:
        _, *columns = zip(*rows, strict=True)
        try:
            params: list[bytes] = [_array(*column) for column in zip(self._types, columns, strict=True)]
        except (UnicodeError, struct.error):
            return False  # a unit knows what to say about it
        params += (INT8.pack(version), self._slot)
        connection = self._connection
        try:
            # An idle connection says nothing: what there is to read is its end, or for a unit to understand.
            if self._unread.poll(0):
                return False
            connection.send_query_prepared(_NAME, params, self._formats, result_format=BINARY)
            self._results = []
            self._lost = False
            self.is_writing = connection.flush() == 1
        except psycopg.OperationalError:
            return False
        return True

    def go_on(self) -> bool:
        connection = self._connection
        try:
            connection.consume_input()
            if self.is_writing:
                self.is_writing = connection.flush() == 1
            while not connection.is_busy():
                result = connection.get_result()
                if result is None:
                    return True
                self._results.append(result)
        except psycopg.OperationalError:
            self._lost = True
            return True
        return False

    def end(self) -> Answer | None:
        results, self._results = self._results, []
        if self._lost or self._connection.status != pq.ConnStatus.OK or not results:
            why = " ".join(self._connection.get_error_message().split())
            raise StoreUnavailable(f"the database cannot be used: {why}")
        # The rows come before the commit: an error behind them says that it has failed.
        if any(result.status != pq.ExecStatus.TUPLES_OK for result in results):
            return None
        self._doubt.check()
        result = results[0]
        now, version, seqs = (result.get_value(0, column) for column in range(3))
        if now is None or version is None:
            return None
        return Answer(INT8.unpack(now)[0], INT8.unpack(version)[0], () if seqs is None else _numbers(seqs))


def _array(kind: str, values: Sequence[int | str | bytes | None]) -> bytes:
    """Of one dimension."""
    count = len(values)
    first = values[0]
    header = ARRAY.pack(1, 1, _OIDS[kind], count, 1)
    # Most columns are the same in all rows.
    if values.count(first) == count:
        return header + _element(first) * count
    return header + b"".join([_element(value) for value in values])


def _element(value: int | str | bytes | None) -> bytes:
    if isinstance(value, bytes):
        return _LENGTH.pack(len(value)) + value
    if value is None:
        return _NULL
    if isinstance(value, str):
        encoded = value.encode()
        return _LENGTH.pack(len(encoded)) + encoded
    return _NUMBER.pack(8, value)


def _numbers(array: bytes) -> tuple[int, ...]:
    """The elements of an array of `bigint`."""
    count = (len(array) - ARRAY.size) // _NUMBER.size
    return _numbers_of(count).unpack_from(array, ARRAY.size)


@lru_cache(256)
def _numbers_of(count: int) -> Struct:
    return Struct(f">{'4xq' * count}")
