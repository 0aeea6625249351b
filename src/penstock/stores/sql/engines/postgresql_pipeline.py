"""Statements on their way to PostgreSQL, on libpq itself, in the binary format: those whose answers can wait travel
with the next one that cannot, in one round trip.

psycopg's cursors ask one statement at a time, and look at each of its parameters more than once. Here every statement
is prepared when it is first asked, and a unit of a dozen statements is a handful of exchanges.
"""

from __future__ import annotations

import select
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain, repeat
from struct import Struct
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

from penstock.errors import InvalidRequest, PenstockError
from penstock.stores.sql.engine import Row

_TEXT, BINARY = 0, 1
# PostgreSQL's numbers for types. It finds out itself what a text, or NULL, is to be.
_ANY, _BYTEA, _INT8_TYPE, _INT8_ARRAY = 0, 17, 20, 1016
INT8 = Struct(">q")
# Dimensions, whether there are NULLs, the type of the elements; how many there are, and the number of the first.
ARRAY = Struct(">iiiii")
_EMPTY_ARRAY = struct.pack(">iii", 0, 0, _INT8_TYPE)
_INT8_BYTES = 8
# A database that works ends a statement after a minute. One that says nothing for longer hangs, or waits for a standby
# that has gone; by then another may have taken its place.
LONGEST_MS = 65_000


class Numbers:
    """A parameter of the type `bigint[]`."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[int]) -> None:
        self.values = values

    def dumped(self) -> bytes:
        count = len(self.values)
        if not count:
            return _EMPTY_ARRAY
        header = ARRAY.pack(1, 0, _INT8_TYPE, count, 1)
        return header + _elements(count).pack(*chain.from_iterable(zip(repeat(_INT8_BYTES), self.values)))


@lru_cache(256)
def _elements(count: int) -> Struct:
    """Each is its length and its bytes."""
    return Struct(f">{'iq' * count}")


class PostgresStatement:
    """One that was asked, or waits for it."""

    __slots__ = ("_pipeline", "formats", "new_name", "params", "result", "text", "types")

    def __init__(self, pipeline: Pipeline, text: str, params: Sequence[object]) -> None:
        """Raises InvalidRequest for a parameter that the database cannot be told."""
        self._pipeline = pipeline
        self.text = text
        self.params: list[bytes | None] = []
        self.formats: list[int] = []
        types: list[int] = []
        for value in params:
            kind, form = _ANY, BINARY
            dumped: bytes | None = None
            if isinstance(value, int):
                kind, dumped = _INT8_TYPE, _dumped_number(value)
            elif isinstance(value, str):
                form, dumped = _TEXT, _dumped_text(value)
            elif isinstance(value, bytes):
                kind, dumped = _BYTEA, value
            elif isinstance(value, Numbers):
                kind, dumped = _INT8_ARRAY, value.dumped()
            elif value is not None:
                raise TypeError(f"{type(value).__name__} is not a type of a parameter")
            types.append(kind)
            self.formats.append(form)
            self.params.append(dumped)
        self.types = tuple(types)
        # Under which it is prepared when it is asked for the first time.
        self.new_name: bytes | None = None
        self.result: Any = None

    def _answered(self) -> Any:
        if self.result is None:
            self._pipeline.exchange()
        return self.result

    def rows(self) -> list[Row]:
        return self._pipeline.rows_of(self._answered())

    def matched(self) -> int:
        """How many rows it has found, made or changed."""
        return self._answered().command_tuples or 0

    def status(self) -> bytes:
        """What the database says that it has done."""
        return self._answered().command_status or b""


def _dumped_number(value: int) -> bytes:
    try:
        return INT8.pack(value)
    except struct.error as error:
        raise InvalidRequest(f"not a number for a database: {value}") from error


def _dumped_text(value: str) -> bytes:
    if "\0" in value:
        raise InvalidRequest("a text in PostgreSQL cannot have a NUL")
    return value.encode()


class Pipeline:
    def __init__(
        self, connection: psycopg.Connection[Row], translated: Callable[[psycopg.Error], PenstockError]
    ) -> None:
        self._translated = translated
        self._connection: Any = connection.pgconn
        self._transformer: Any = Transformer(connection)
        # By text and types of parameters.
        self._names: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._named = 0
        self._waiting: list[PostgresStatement] = []
        self._readable = select.poll()
        self._readable.register(self._connection.socket, select.POLLIN)
        self._ready = select.poll()
        self._ready.register(self._connection.socket, select.POLLIN | select.POLLOUT)

    def later(self, text: str, params: Sequence[object] = ()) -> PostgresStatement:
        """To be asked with the next exchange, in the order in which they came."""
        statement = PostgresStatement(self, text, params)
        self._waiting.append(statement)
        return statement

    def forget(self) -> None:
        """What waits is not asked any more."""
        self._waiting = []

    def exchange(self) -> None:
        """Ask what waits. Raises the error of the first statement that fails; none of those behind it happens."""
        statements, self._waiting = self._waiting, []
        if not statements:
            return
        connection = self._connection
        try:
            connection.enter_pipeline_mode()
            self._send(statements)
            refused = self._receive(statements)
            connection.exit_pipeline_mode()
        except psycopg.Error as error:
            connection.finish()
            raise self._translated(error) from error
        except BaseException:
            # Answers are under way that the next one to ask would take for his own.
            connection.finish()
            raise
        if refused is not None:
            raise self._translated(refused) from refused

    def _send(self, statements: Sequence[PostgresStatement]) -> None:
        connection = self._connection
        new: dict[tuple[str, tuple[int, ...]], bytes] = {}
        for statement in statements:
            key = statement.text, statement.types
            name = self._names.get(key) or new.get(key)
            if name is None:
                self._named += 1
                name = new[key] = statement.new_name = b"penstock_%d" % self._named
                connection.send_prepare(name, numbered(statement.text), statement.types)
            connection.send_query_prepared(name, statement.params, statement.formats, BINARY)
        connection.pipeline_sync()
        while connection.flush():
            _wait(self._ready)
            connection.consume_input()

    def _receive(self, statements: Sequence[PostgresStatement]) -> psycopg.Error | None:
        """The error of the first that the database has refused; those behind it were passed over."""
        refused: psycopg.Error | None = None
        for statement in statements:
            if statement.new_name is not None:
                prepared = self._answer()
                if prepared.status == pq.ExecStatus.COMMAND_OK:
                    self._names[statement.text, statement.types] = statement.new_name
                else:
                    refused = refused or error_from_result(prepared)
            result = self._answer()
            if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
                statement.result = result
            else:
                refused = refused or error_from_result(result)
        self._next()  # all have been answered
        return refused

    def _answer(self) -> Any:
        result = self._next()
        if result is None or self._connection.status != pq.ConnStatus.OK:
            raise psycopg.OperationalError((result or self._connection).get_error_message())
        self._next()  # None, behind each
        return result

    def _next(self) -> Any:
        connection = self._connection
        while connection.is_busy():
            _wait(self._readable)
            connection.consume_input()
        return connection.get_result()

    def rows_of(self, result: Any) -> list[Row]:
        transformer = self._transformer
        transformer.set_pgresult(result)
        rows: list[Row] = transformer.load_rows(0, result.ntuples, tuple)
        return rows


def _wait(poll: Any) -> None:
    if not poll.poll(LONGEST_MS):
        raise psycopg.OperationalError("it does not answer")


def numbered(text: str) -> bytes:
    """A statement for libpq, which counts parameters."""
    first, *others = text.split("%s")
    return (first + "".join(f"${number}{part}" for number, part in enumerate(others, 1))).replace("%%", "%").encode()
