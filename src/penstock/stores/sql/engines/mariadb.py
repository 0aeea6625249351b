"""MariaDB and MySQL, through PyMySQL.

Everything here is understood by both. There is no `NOTIFY`: while a poll waits, a counter is looked at.

One file because the driver, the statements and the wake-ups of a database change together.
"""

from __future__ import annotations

import logging
import socket
import ssl as tls
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from random import SystemRandom
from secrets import token_bytes
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, unquote_to_bytes

import pymysql
from pymysql.constants import CLIENT, ER

from penstock import ids
from penstock.errors import (
    InvalidSetting,
    PenstockError,
    StoreBusy,
    StoreCorrupt,
    StoreForeign,
    StoreFull,
    StoreUnavailable,
)
from penstock.model import Sizes
from penstock.stores.protocol import EVERYWHERE
from penstock.stores.sql import schema
from penstock.stores.sql.engine import ARRIVING, Later, Row
from penstock.stores.sql.engines import galera
from penstock.stores.sql.engines.hosts import Hosts, address, host_and_port
from penstock.stores.sql.engines.network import SLOTS, NetworkEngine, Watch
from penstock.stores.sql.statements import Dialect, Statements, column_of_message

log = logging.getLogger(__name__)

seq_in = column_of_message("seq")
body_in = column_of_message("body")

# Rows of one INSERT: a server takes packets of 16 MB, and bytes that must be escaped take two.
_INSERT_ROWS = 500
_INSERT_BYTES = 4 * 1024 * 1024
# Statements that go in one packet, unless one of them alone is longer.
_EXCHANGE_SIZE = 4 * 1024 * 1024
# Longer bodies are read only when it is known that they are wanted, and not written in twice as many digits.
_SHORT_BYTES = 2 * 1024
_TICKETS_KEPT = 10_000
_LOCK_TIMEOUT_MS = 10_000
# How long a database may take to let us in.
_CONNECT_S = 5
# Where nothing is heard of the host for so long, the connection is lost, as in `postgresql.py`: bytes that it does not
# confirm, and an idle connection on which it does not confirm three questions whether it is there.
_SILENT_S = 10
_TCP_OPTIONS = (
    (socket.TCP_NODELAY, 1),
    (socket.TCP_USER_TIMEOUT, _SILENT_S * 1000),
    (socket.TCP_KEEPIDLE, 5),
    (socket.TCP_KEEPINTVL, 2),
    (socket.TCP_KEEPCNT, 3),
)
_PORT = 3306
# In UTC no hour comes twice. A client that holds locks and has gone must not keep the others waiting; for that, MySQL
# has no setting.
_SETTINGS = """
    SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00',
                innodb_lock_wait_timeout = {lock_timeout_s} /*M!100300 , idle_transaction_timeout = 20 */"""
_ENTRIES_KEPT = 100
# Connections that can be seen by others: each holds a lock of its own, as there are none in share.
_PLACES = 64
_BUSY = {ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT, 1020}
_FULL = {ER.DISK_FULL, ER.RECORD_FILE_FULL}
_MADE_ALREADY = {ER.DUP_FIELDNAME, ER.DUP_KEYNAME}
_DAMAGED = {ER.NO_SUCH_TABLE, ER.BAD_FIELD_ERROR, ER.CRASHED_ON_USAGE, ER.NOT_KEYFILE, ER.PARSE_ERROR}


_LOOK_S = 0.1
_RETRY_S = 1.0
# A poll that has not asked for so long does not wait any more.
_ASKED_S = 1.0
# A database that hangs keeps the thread, and must not keep the process from ending.
_END_S = 1.0

STATEMENTS = Statements(
    Dialect(
        name="mariadb",
        parameter="%s",
        # A tuple is written out in parentheses.
        among="COLUMN IN ?",
        # See `MariaEngine.add`.
        unless_there="",
        if_there="ON DUPLICATE KEY UPDATE",
        new="VALUES(COLUMN)",
        lock="FOR UPDATE",
        lock_free="FOR UPDATE SKIP LOCKED",
        # Else the order by number makes it walk through the primary key, that is through all messages of all queues.
        walk="message FORCE INDEX (message_ready)",
        age="seq",
        # Else it walks through all ready messages of the queue for each twin.
        by_key="message AS t FORCE INDEX (message_dedup)",
        by_group="message FORCE INDEX (message_group)",
        queue_by_name="queue AS q FORCE INDEX (queue_by_any_name)",
        ledger_of_queue="ledger FORCE INDEX (ledger_by_queue)",
        streams=False,
        # A sum over bodies would make it write them into a temporary table on the disk.
        leaves_out=True,
        # Else it begins with the queues, and sorts the messages in such a table.
        join_queue="STRAIGHT_JOIN queue AS q FORCE INDEX (PRIMARY)",
    )
)


@dataclass(frozen=True, slots=True)
class MariaSql:
    """What MariaDB alone is asked. The driver writes parameters into the text itself, so a text may well end with as
    many rows as there are: those of the three inserts are added by `_with_rows`."""

    # A unit that has waited for a lock then sees what it has waited for; where nothing is locked, all of one answer is
    # of one moment; and a look for units under way sees what they have written.
    for_writing: str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
    for_reading: str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
    for_looking: str = "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"
    number_step: str = "SELECT @@auto_increment_increment"
    insert_messages: str = f"INSERT INTO message ({', '.join(ARRIVING)}, receives, claim) VALUES"
    one_message: str = f"({', '.join('?' * len(ARRIVING))}, 0, 0)"
    latest_due: str = """
        SELECT max(ready_at) FROM message FORCE INDEX (message_ready)
        WHERE queue = ? AND ready_at > ? AND ready_at <= ?"""
    bodies: str = "SELECT seq, body FROM message WHERE {among:seq}"
    take_tickets: str = "INSERT INTO ticket (seq) VALUES"
    one_ticket: str = "(NULL)"
    drop_tickets: str = "DELETE FROM ticket WHERE seq >= ? AND seq < ?"
    drop_old_tickets: str = "DELETE FROM ticket WHERE seq < ?"
    last_seq: str = "SELECT coalesce(max(seq), 0) FROM ticket"
    begin: str = "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED), version FROM store"
    add_to_tallies: str = "INSERT INTO tally (queue, slot, arrived, departed) VALUES"
    one_tally: str = "(?, ?, ?, ?)"
    where_counted: str = """
        ON DUPLICATE KEY UPDATE arrived = arrived + VALUES(arrived), departed = departed + VALUES(departed)"""
    change_queues: str = "UPDATE store SET version = version + 1"
    size: str = """
        SELECT coalesce(sum(data_length + index_length), 0) FROM information_schema.tables
        WHERE table_schema = database()"""
    prove_writable: str = "UPDATE store SET origin = origin WHERE 1 = 0"
    has_table: str = "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
    enter_ledger: str = "INSERT INTO ledger_writer (since) SELECT coalesce(max(number), 0) FROM ledger"
    old_writers: str = "SELECT entry FROM ledger_writer WHERE entry < ? FOR UPDATE SKIP LOCKED"
    forget_writers: str = "DELETE FROM ledger_writer WHERE {among:entry}"
    writers: str = "SELECT entry FROM ledger_writer"
    last_in_ledger: str = "SELECT coalesce(max(number), 0) FROM ledger"
    writers_since: str = "SELECT entry, since FROM ledger_writer"
    stirred: str = "SELECT sum(arrived) FROM tally WHERE queue = 0"
    # See `_PLACES`.
    take_place: str = "SELECT GET_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', ?), 0)"
    places_taken: str = "SELECT CONNECTION_ID()" + "".join(
        f",\nIS_USED_LOCK(CONCAT('penstock.', CRC32(DATABASE()), '.', {number}))" for number in range(_PLACES)
    )


@lru_cache(64)
def _with_rows(insert: str, row: str, count: int, end: str = "") -> str:
    """An INSERT of so many rows. Mostly there are few, and often as many as before."""
    return f"{insert} {', '.join([row] * count)} {end}"


class MariaStatement:
    """One that was executed, or waits for it; its parameters are written out in it."""

    __slots__ = ("_engine", "_rows", "matched", "number", "text")

    def __init__(self, engine: MariaEngine, text: str) -> None:
        self._engine = engine
        self.text = text
        self._rows: list[Row] | None = None
        self.matched = 0
        # The first that the database has given to what was inserted.
        self.number = 0

    def note(self, cursor: pymysql.cursors.Cursor) -> None:
        """The cursor stands at its answer."""
        self._rows = list(cursor.fetchall())
        self.matched = int(cursor.rowcount)
        self.number = int(cursor.lastrowid or 0)

    def rows(self) -> list[Row]:
        if self._rows is None:
            self._engine.exchange()
        return self._rows or []


class DueIfAny:
    """Messages that have come due, looked for only where there is one at all.

    A range of an index is left only with a row that is there: behind the messages that are due, InnoDB would pass over
    each one that was claimed and finished lately, for as long as it is not purged. Before them stand those that are
    ready.
    """

    __slots__ = ("_engine", "_latest", "_params", "_sql")

    def __init__(self, engine: MariaEngine, latest: MariaStatement, sql: str, params: Sequence[object]) -> None:
        self._engine = engine
        self._latest = latest
        self._sql = sql
        self._params = params

    def rows(self) -> list[Row]:
        return [] if self._latest.rows() == [(None,)] else self._engine.rows(self._sql, self._params)


class MariaEngine:
    statements: ClassVar[Statements] = STATEMENTS
    shared = True
    finish_claimed = None
    insert_alike = None
    sender = None

    def __init__(
        self,
        connection: pymysql.Connection[Any],
        connect_aside: Callable[[], pymysql.Connection[Any]],
        entries_kept: int,
        node: galera.Node | None = None,
    ) -> None:
        """`connect_aside` makes connections that see what others have not committed yet. `node` is the one of a
        cluster that we are connected to."""
        self.connection = connection
        self._node = node
        self._connect_aside = connect_aside
        self._entries_kept = entries_kept
        self._sql = STATEMENTS.of(MariaSql)
        self._isolation = ""
        self._slot = SystemRandom().randrange(SLOTS)
        self._cursor = connection.cursor()
        self._waiting: list[MariaStatement] = []
        self._waiting_size = 0
        # What this unit has said to those who read the ledger; and how far such words are old.
        self._word: MariaStatement | None = None
        self._old_words = 0
        [(self._step,)] = self.rows(self._sql.number_step)

    def begin(self, write: bool) -> tuple[int, int]:
        """A transaction begins with its first statement."""
        isolation = self._sql.for_writing if write else self._sql.for_reading
        if isolation != self._isolation:
            self._isolation = ""  # until it is known to be in force
            self.later(isolation)
        self._word = None
        told = self.later(self._sql.begin)
        if self._node is not None:
            charge = self.later(galera.STAYS_IN_CHARGE if write else galera.IN_CHARGE)
            if charge.rows() != [(self._node.name,)]:
                raise StoreUnavailable("another node of the cluster is in charge")
        [(now, version)] = told.rows()
        self._isolation = isolation
        return now, version

    def commit(self) -> None:
        self.later("COMMIT")
        try:
            self.exchange()
        except StoreBusy as error:
            # What others have prevented has not happened. But a node that loses its cluster says the same, and the
            # others may have committed what it had sent them.
            if self._node is not None and not self._is_same_view(self._node):
                raise StoreUnavailable(f"the cluster has changed during a commit: {error}") from error
            raise
        if self._word is not None and self._word.number % self._entries_kept < self._step:
            self._old_words = self._word.number - self._entries_kept

    def _is_same_view(self, node: galera.Node) -> bool:
        try:
            found = galera.writable_node(self.connection, is_one_of_many=False)
        except (pymysql.Error, PenstockError):
            return False
        return found == node

    def roll_back(self) -> None:
        self._waiting, self._waiting_size = [], 0
        try:
            self.connection.rollback()
        except pymysql.Error as error:
            raise translated(error) from error

    def close(self) -> None:
        with suppress(pymysql.Error, OSError):
            self.connection.close()

    def later(self, sql: str, params: Sequence[object] = ()) -> MariaStatement:
        statement = MariaStatement(self, sql % tuple([self._literal(value) for value in params]))
        if self._waiting_size + len(statement.text) > _EXCHANGE_SIZE:
            self.exchange()
        self._waiting.append(statement)
        self._waiting_size += len(statement.text)
        return statement

    def _literal(self, value: object) -> str:
        """The driver does the same, with more questions for each. A hundred rows have a thousand values."""
        if value is None:
            return "NULL"
        if isinstance(value, int):
            return str(int(value))
        if isinstance(value, tuple):
            return f"({', '.join(map(self._literal, value))})"
        if isinstance(value, bytes) and len(value) <= _SHORT_BYTES:
            return f"x'{value.hex()}'"
        literal: str = self.connection.escape(value)
        return literal

    def exchange(self) -> None:
        """Execute what waits, as one text of several statements. None of those behind one that fails happens."""
        statements, self._waiting, self._waiting_size = self._waiting, [], 0
        if not statements:
            return
        try:
            self._cursor.execute(";\n".join([statement.text for statement in statements]))
            for statement in statements:
                statement.note(self._cursor)
                self._cursor.nextset()
        except pymysql.Error as error:
            raise translated(error) from error

    def rows(self, sql: str, params: Sequence[object] = ()) -> list[Row]:
        return self.later(sql, params).rows()

    def look_for_due(self, sql: str, queue: int, since: int, now: int, limit: int) -> Later:
        latest = self.later(self._sql.latest_due, (queue, since, now))
        return DueIfAny(self, latest, sql, (queue, since, now, limit))

    def rows_within(self, sql: str, params: Sequence[object], budget: int) -> list[Row]:
        fitting: list[Row] = []
        for *row, size in self.rows(sql, (_SHORT_BYTES, *params)):
            if budget <= 0:
                break
            budget -= size
            fitting.append(tuple(row))
        long = [seq_in(row) for row in fitting if body_in(row) is None]
        if not long:
            return fitting
        bodies: dict[int, bytes] = dict(self.rows(self._sql.bodies, (self.listed(long),)))
        # Where nothing is locked, one may be gone by now.
        whole = [(seq, bodies.get(seq) if body is None else body, *rest) for seq, body, *rest in fitting]
        return [row for row in whole if body_in(row) is not None]

    def run(self, sql: str, params: Sequence[object] = ()) -> int:
        statement = self.later(sql, params)
        self.exchange()
        return statement.matched

    def add(self, sql: str, row: Sequence[object]) -> bool:
        """INSERT IGNORE would also cut off what is too long."""
        self.exchange()  # an error below is one of this statement
        try:
            self._cursor.execute(sql, tuple(row))
        except pymysql.IntegrityError as error:
            if error.args[0] == ER.DUP_ENTRY:
                return False  # only the statement has failed
            raise translated(error) from error
        except pymysql.Error as error:
            raise translated(error) from error
        return True

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        for row in rows:
            self.later(sql, row)
        self.exchange()

    def listed(self, numbers: Iterable[int]) -> tuple[int | None, ...]:
        """Written out in parentheses. Nothing is among (NULL)."""
        return tuple(numbers) or (None,)

    def insert_messages(self, rows: Sequence[Row]) -> None:
        for piece in _pieces(rows):
            insert = _with_rows(self._sql.insert_messages, self._sql.one_message, len(piece))
            self.later(insert, [value for row in piece for value in row])

    def next_seqs(self, count: int) -> list[int]:
        """An INSERT whose number of rows is known gets consecutive numbers, `auto_increment_increment` apart."""
        seqs: list[int] = []
        while len(seqs) < count:
            piece = min(count - len(seqs), 1_000)
            insert = _with_rows(self._sql.take_tickets, self._sql.one_ticket, piece)
            if self._node is None:
                taken = self.later(insert)
                self.exchange()
            else:
                # There it changes with the number of nodes, at any moment.
                before = self.later(self._sql.number_step)
                taken = self.later(insert)
                after = self.later(self._sql.number_step)
                [(self._step,)] = before.rows()
                if after.rows() != [(self._step,)]:
                    continue  # no one has these numbers
            first = taken.number
            seqs += range(first, first + piece * self._step, self._step)
        if seqs:
            # The last one tells others how far the numbers are; it goes when it is old, and no unit can still hold it.
            self.later(self._sql.drop_tickets, (seqs[0], seqs[-1]))
            if seqs[-1] % _TICKETS_KEPT < count:
                self.later(self._sql.drop_old_tickets, (seqs[-1] - _TICKETS_KEPT,))
        return seqs

    def last_seq(self) -> int:
        """What others have taken and not committed yet does not count."""
        [(seq,)] = self.rows(self._sql.last_seq)
        return int(seq)

    def forget_seqs(self) -> None:
        """None are taken ahead."""

    def add_to_tallies(self, changes: Mapping[int, Sequence[int]], stirring: bool) -> None:
        # In one order, so that two units with one slot never wait for each other.
        counted = {**changes, 0: (1, 0)} if stirring else changes
        if counted:
            sql = self._sql
            add = _with_rows(sql.add_to_tallies, sql.one_tally, len(counted), sql.where_counted)
            rows = [(queue, self._slot, *change) for queue, change in sorted(counted.items())]
            self.later(add, [value for row in rows for value in row])

    def probe_other_users(self) -> bool:
        [(own, *holders)] = self.rows(self._sql.places_taken)
        return any(holder not in (None, own) for holder in holders)

    def sizes(self) -> Sizes:
        """By the statistics of the database, which it renews now and then."""
        [(size,)] = self.rows(self._sql.size)
        return Sizes(store_bytes=int(size))

    def prove_writable(self) -> None:
        """Without a row: one that every server writes to would make each wait for the others."""
        self.run(self._sql.prove_writable)

    def has_table(self, name: str) -> bool:
        return bool(self.rows(self._sql.has_table, (name,)))

    def change_queues(self) -> None:
        self.run(self._sql.change_queues)

    def enter_ledger(self) -> None:
        """Leave word of how far the ledger is now: the numbers that this unit takes are higher."""
        if self._word is not None:
            return
        self._word = self.later(self._sql.enter_ledger)
        if self._old_words:
            # Of units that have ended; those under way are locked.
            old = self.rows(self._sql.old_writers, (self._old_words,))
            self.later(self._sql.forget_writers, (self.listed(ended for (ended,) in old),))
            self._old_words = 0

    def shrink(self, _limit: int) -> int:
        return 0

    def ledger_end(self) -> int:
        """A unit that has taken numbers up to the last one has left word before. One whose word is committed has ended,
        and its rows are there. Word and rows are read as they are after this look: a unit that only reads begins
        again."""
        self.exchange()
        try:
            with closing(self._connect_aside()) as aside, aside.cursor() as cursor:
                cursor.execute(self._sql.last_in_ledger)
                [(last,)] = cursor.fetchall()
                cursor.execute(self._sql.writers_since)
                entries: dict[int, int] = dict(cursor.fetchall())
        except pymysql.Error as error:
            raise translated(error) from error
        if self._isolation == self._sql.for_reading:
            self.commit()
        ended = {entry for (entry,) in self.rows(self._sql.writers)}
        return min([int(last), *(since for entry, since in entries.items() if entry not in ended)])


def _pieces(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Cut so that each fits into a packet."""
    piece: list[Row] = []
    size = 0
    for row in rows:
        *_, body = row
        if piece and (len(piece) == _INSERT_ROWS or size + len(body) > _INSERT_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(row)
        size += len(body)
    if piece:
        yield piece


def _execute_once(cursor: pymysql.cursors.Cursor, statement: str) -> None:
    """Columns and indexes may be there already, from a run that was cut off. MySQL has no IF NOT EXISTS for them."""
    try:
        cursor.execute(statement)
    except pymysql.OperationalError as error:
        if error.args[0] not in _MADE_ALREADY:
            raise


def translated(error: pymysql.Error) -> PenstockError:
    code = error.args[0] if error.args else 0
    text = " ".join(map(str, error.args)).strip()
    if code in _BUSY:
        return StoreBusy(f"another server keeps the database busy: {text}")
    if code in _FULL:
        return StoreFull(f"the database is full: {text}")
    # Our statements are fixed: one that the database does not understand has not found the tables it needs.
    if code in _DAMAGED:
        return StoreCorrupt(f"the store is damaged: {text}")
    return StoreUnavailable(f"the database cannot be used: {text}")


class MariaDatabase:
    """`?ssl_ca=FILE` asks for TLS with that authority."""

    def __init__(
        self,
        url: str,
        lock_timeout_ms: int = _LOCK_TIMEOUT_MS,
        entries_kept: int = _ENTRIES_KEPT,
        answer_timeout_s: int = 60,
    ) -> None:
        """`entries_kept` is how many words of units that have written into the ledger may pile up. `answer_timeout_s`
        is how long a statement may take."""
        at = address(url)
        parts = at.parts
        params = dict(parse_qsl(parts.query))
        authority = params.pop("ssl_ca", None)
        database = unquote(parts.path[1:])
        places = [host_and_port(host, _PORT) for host in at.hosts]
        self._places = [place for place in places if place is not None]
        if params or not database or "/" in database or len(self._places) < len(places):
            raise InvalidSetting(
                "a MariaDB store is mariadb://USER:PASSWORD@HOST:PORT/DATABASE, perhaps with several HOST:PORT, "
                "separated by commas, and with ?ssl_ca=FILE"
            )
        self._hosts = Hosts(len(self._places))
        self._database = database
        self._entries_kept = entries_kept
        self._answer_timeout_s = answer_timeout_s
        self._options: dict[str, Any] = {
            "user": unquote(parts.username or ""),
            "password": unquote_to_bytes(parts.password or ""),  # the driver would write it in Latin-1
            "database": database,
            "charset": "utf8mb4",
            # Until it has let us in; see `connection`.
            "read_timeout": _CONNECT_S,
            "write_timeout": 60,
            "defer_connect": True,
            "client_flag": CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS,
            "init_command": _SETTINGS.format(lock_timeout_s=max(1, lock_timeout_ms // 1000)),
        }
        try:
            # Without a word the driver would build a new context for every connection.
            self._options |= (
                {"ssl": tls.create_default_context(cafile=authority)} if authority else {"ssl_disabled": True}
            )
        except OSError as error:
            raise InvalidSetting(f"ssl_ca of the MariaDB store cannot be used: {error}") from error

    def connection(self) -> pymysql.Connection[Any]:
        """To the server that is written to. Nothing is changed there."""
        return self._hosts.find(self._look_at)

    def _connection(self, place: int) -> pymysql.Connection[Any]:
        """The driver has one time limit for all answers, and none that lets a connection be lost when a network drops
        what is sent: it gets a socket of ours."""
        host, port = self._places[place]
        try:
            connection: pymysql.Connection[Any] = pymysql.connect(host=host, port=port, **self._options)
            connection.connect(self._socket(host, port))
        except (pymysql.Error, OSError) as error:
            raise StoreUnavailable(f"the database cannot be reached: {error}") from error
        connection._read_timeout = self._answer_timeout_s  # type: ignore[attr-defined]
        return connection

    @staticmethod
    def _socket(host: str, port: int) -> socket.socket:
        made = socket.create_connection((host, port), _CONNECT_S)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _TCP_OPTIONS:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
        return made

    def _look_at(self, place: int) -> pymysql.Connection[Any]:
        connection = self._connection(place)
        try:
            node = galera.writable_node(connection, len(self._places) > 1)
            if node is not None:
                found = galera.in_charge(connection)
                if found != node.name and found in node.members:
                    raise galera.Nowhere(f"the node {found} of the cluster is in charge")
        except BaseException as error:
            connection.close()
            raise self._at(place, error) from error
        return connection

    def _take_charge(self, place: int) -> tuple[int, pymysql.Connection[Any], galera.Node | None]:
        connection = self._connection(place)
        try:
            node = galera.writable_node(connection, len(self._places) > 1)
            if node is not None:
                if galera.in_charge(connection) is None:
                    with connection.cursor() as cursor:
                        self._version(cursor)  # nothing is changed in a database that is not ours
                galera.take_charge(connection, node)
        except BaseException as error:
            connection.close()
            raise self._at(place, error) from error
        return place, connection, node

    def _at(self, place: int, error: BaseException) -> BaseException:
        """The error as it is told where there are several places."""
        if isinstance(error, pymysql.Error):
            error = translated(error)
        if isinstance(error, StoreUnavailable | StoreBusy):
            host, port = self._places[place]
            return StoreUnavailable(f"the database at {host}:{port} cannot be used: {error}")
        return error

    def connect(self) -> NetworkEngine:
        place, connection, node = self._hosts.find(self._take_charge)
        self._take_place(connection)
        return MariaEngine(connection, lambda: self._connect_aside(place), self._entries_kept, node)

    @staticmethod
    def _take_place(connection: pymysql.Connection[Any]) -> None:
        """Be seen by a transfer. Where all places are taken, or the server gives none, others are seen or none."""
        with suppress(pymysql.Error), connection.cursor() as cursor:
            for number in SystemRandom().sample(range(_PLACES), _PLACES):
                cursor.execute(STATEMENTS.of(MariaSql).take_place, (number,))
                if cursor.fetchall() == ((1,),):
                    return

    def _connect_aside(self, place: int) -> pymysql.Connection[Any]:
        """To the same server: no other one knows what is not committed there."""
        connection = self._connection(place)
        connection.query(STATEMENTS.of(MariaSql).for_looking)
        connection.autocommit(True)
        return connection

    def exists(self) -> bool:
        try:
            with closing(self.connection()) as connection, connection.cursor() as cursor:
                return self._version(cursor) > 0
        except pymysql.Error as error:
            raise translated(error) from error

    def prepare(self) -> tuple[str, bytes]:
        try:
            _, connection, _ = self._hosts.find(self._take_charge)
            with closing(connection), connection.cursor() as cursor:
                self._migrate(cursor)
                connection.commit()
                cursor.execute("SELECT origin, secret FROM store")
                [(origin, secret)] = cursor.fetchall()
        except pymysql.Error as error:
            raise translated(error) from error
        return origin, secret

    def _migrate(self, cursor: pymysql.cursors.Cursor) -> None:
        """One server at a time. The row in `store` comes last: before it, everything is done once more."""
        lock = f"penstock {self._database}"[:64]
        cursor.execute("SELECT GET_LOCK(%s, 60)", (lock,))
        if cursor.fetchone() != (1,):
            raise StoreBusy("another server is preparing the database")
        version = self._version(cursor)
        scripts = schema.missing("mariadb", version)
        for script in scripts:
            for statement in script.split(";\n"):
                if statement.strip():
                    _execute_once(cursor, statement)
        if version == 0:
            cursor.execute(
                "INSERT INTO store VALUES (%s, 0, %s, %s)",
                (len(scripts), ids.new_origin(SystemRandom()), token_bytes(32)),
            )
        elif scripts:
            cursor.execute("UPDATE store SET schema_version = %s", (version + len(scripts),))

    def _version(self, cursor: pymysql.cursors.Cursor) -> int:
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
        tables = {name for (name,) in cursor.fetchall()} - {galera.TABLE}
        cursor.execute(
            """SELECT count(*) FROM information_schema.columns WHERE table_schema = DATABASE()
               AND table_name = 'store' AND column_name IN ('schema_version', 'origin', 'secret')"""
        )
        if tables and cursor.fetchone() != (3,):
            raise StoreForeign(
                f"the database {self._database!r} holds tables that are not Penstock's; nothing was changed in it"
            )
        if not tables:
            return 0
        cursor.execute("SELECT schema_version FROM store")
        found = cursor.fetchone()  # none where a server was killed while it made the tables
        if found is None:
            return 0
        (version,) = found
        return int(version)

    def watch(self) -> Watch:
        return CounterWatch(self.connection)


class CounterWatch:
    """Word between servers, on a database that sends none: while a poll asks, a counter is looked at.

    The sum over queue 0 grows with every unit, of whatever process, that has made messages ready.
    """

    def __init__(self, connect: Callable[[], pymysql.Connection[Any]]) -> None:
        self._connect = connect
        self._asked_at = 0.0
        self._asked = threading.Event()
        self._changed = False
        self._stopping = threading.Event()
        self._counter = threading.Thread(target=self._run, name="penstock-counters", daemon=True)
        self._counter.start()

    def tell(self, queues: set[str]) -> None:
        """The counter has told it already."""

    def changed(self) -> Container[str]:
        self._asked_at = time.monotonic()
        self._asked.set()
        changed, self._changed = self._changed, False
        return EVERYWHERE if changed else ()

    def close(self) -> None:
        self._stopping.set()
        self._asked.set()
        self._counter.join(_END_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._asked.wait()
            if self._stopping.is_set():
                return
            try:
                with closing(self._connect()) as connection:
                    connection.autocommit(True)
                    self._look(connection)
            except (PenstockError, pymysql.Error, OSError) as error:
                log.warning("word from other servers comes late: %s", error)
                self._stopping.wait(_RETRY_S)

    def _look(self, connection: pymysql.Connection[Any]) -> None:
        seen: object = None
        look = STATEMENTS.of(MariaSql).stirred
        with connection.cursor() as cursor:
            while not self._stopping.is_set():
                cursor.execute(look)
                found = cursor.fetchone()
                if found != seen:
                    seen, self._changed = found, True
                self._stopping.wait(_LOOK_S)
                if time.monotonic() - self._asked_at > _ASKED_S:
                    self._asked.clear()
                    if not self._stopping.is_set():  # else it would not be asked again
                        self._asked.wait()
