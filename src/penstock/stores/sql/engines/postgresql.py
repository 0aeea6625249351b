"""PostgreSQL, through psycopg 3.

A claim locks the rows it takes and passes over those that others have locked. Sequence numbers come from a sequence, so
that servers do not wait for each other, and word of new messages from `NOTIFY`.

One file because the driver, the statements and the wake-ups of a database change together.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import SystemRandom
from secrets import token_bytes
from typing import ClassVar
from urllib.parse import parse_qsl, quote, urlencode
from zlib import crc32

import msgspec
import psycopg
from psycopg import sql as names
from psycopg.types.numeric import Int8BinaryDumper

from penstock import ids
from penstock.errors import (
    InvalidRequest,
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
from penstock.stores.sql.engines.hosts import Hosts, address
from penstock.stores.sql.engines.network import SLOTS, NetworkEngine, Watch
from penstock.stores.sql.engines.postgresql_pipeline import Numbers, Pipeline, PostgresStatement
from penstock.stores.sql.engines.postgresql_sender import Doubt, PostgresSender
from penstock.stores.sql.statements import Dialect, Statements

log = logging.getLogger(__name__)

_SCHEMA = "penstock"
_LOCKS = int.from_bytes(b"Pnst", "big")
# From so many rows on, a COPY is quicker than an INSERT for each.
_COPY_ROWS = 12
# Of `ARRIVING`.
_ARRIVING_TYPES = ("int8", "int8", "int8", "int8", "int8", "text", "text", "bytea", "bytea", "bytea", "bytea")
_COPY_TYPES = (*_ARRIVING_TYPES, "int8", "int8")
# Where a unit has needed so many sequence numbers, the next one gets as many with its beginning.
_FEWEST_AHEAD = 8
_MOST_AHEAD = 1_000

# All of one answer is of one moment.
_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_NOW_AND_VERSION = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now, version"
_LAST_LEDGER_NUMBER = "CASE WHEN is_called THEN last_value ELSE 0 END"
# Locks with two numbers, of which the first is a parameter, that others hold in this database.
_LOCKS_OF_OTHERS = """pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND classid = ?
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()"""
_LEDGER_ENDS = f"""SELECT {_LAST_LEDGER_NUMBER} FROM ledger_number;
        SELECT objid FROM {_LOCKS_OF_OTHERS}"""

# A client that holds locks and has gone must not keep the others waiting.
_OPTIONS = {
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "application_name": "penstock",
}
_LOCK_TIMEOUT_MS = 10_000
# What libpq takes as a list where there are several hosts.
_OF_A_HOST = ("host", "hostaddr", "port")
# Of `target_session_attrs`: others would find a standby.
_WRITABLE = ("read-write", "primary")
_SETTINGS = (
    "SET statement_timeout = '60s'; SET idle_in_transaction_session_timeout = '60s'; "
    # The database, too, lets go of a client that a network keeps from it. By a socket of its own machine, it does not
    # heed this.
    "SET tcp_user_timeout = 10000; SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; "
    "SET tcp_keepalives_count = 3; "
    "SET client_encoding = 'UTF8'; SET default_transaction_isolation = 'read committed'; "
    # Every statement of ours has its index, and finds few rows through it. Where statistics are old, the planner would
    # rather read a whole table, or all that an index names. And it need not plan a statement each time it is asked.
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; "
    "SET plan_cache_mode = force_generic_plan; SET jit = off; "
)

# Notices of a busy server are gathered for so long; all notices of a database pass through one lock.
_GATHER_S = 0.01
_RETRY_S = 1.0
_SLEEP_MS = 30_000
# A database that hangs keeps the thread, and must not keep the process from ending.
_END_S = 1.0
# PostgreSQL takes 8,000 bytes. A longer list of queues means: look everywhere.
_PAYLOAD_BYTES = 7_900
_ALL = ""

STATEMENTS = Statements(
    Dialect(
        name="postgresql",
        parameter="%s",
        among="COLUMN = ANY(?::bigint[])",
        unless_there="ON CONFLICT DO NOTHING",
        if_there="ON CONFLICT (COLUMN) DO UPDATE SET",
        new="excluded.COLUMN",
        lock="FOR UPDATE",
        lock_free="FOR UPDATE SKIP LOCKED",
        walk="message",
        # As the index has it: see the schema.
        age="(seq + 0)",
        ledger_of_queue="ledger",
        # As its index has it: else the order is that of a language.
        queue_name='q.name COLLATE "C"',
        streams=False,
    )
)


@dataclass(frozen=True, slots=True)
class PostgresSql:
    """What PostgreSQL alone is asked.

    The ends of the ledger are texts of several statements, for one round trip. The database takes no parameters with
    such a text: `PostgresEngine` writes them into it, once for a connection.
    """

    # A unit that writes holds a lock in share whose second number is how far the ledger was when the unit began. None
    # takes such a lock alone, so none waits for it: it is there to be seen.
    begin_writing: str = f"""
        {_NOW_AND_VERSION}
        FROM store, ledger_number, pg_advisory_xact_lock_shared(?::int, ({_LAST_LEDGER_NUMBER})::bit(32)::int)"""
    begin_reading: str = f"{_NOW_AND_VERSION} FROM store"
    add_to_tallies: str = """
        INSERT INTO tally (queue, slot, arrived, departed)
        SELECT change.queue, ?::bigint, change.arrived, change.departed
        FROM unnest(?::bigint[], ?::bigint[], ?::bigint[]) AS change (queue, arrived, departed)
        ON CONFLICT (queue, slot) DO UPDATE
        SET arrived = tally.arrived + excluded.arrived, departed = tally.departed + excluded.departed"""
    size: str = "SELECT pg_database_size(current_database())"
    ledger_ends: str = _LEDGER_ENDS
    # The same in a unit that only reads: it begins again.
    ledger_ends_again: str = f"""
        COMMIT; BEGIN;
        {_LEDGER_ENDS};
        COMMIT; {_BEGIN_READING}"""
    other_users: str = f"SELECT 1 FROM {_LOCKS_OF_OTHERS} AND objid = 0 LIMIT 1"
    copy_messages: str = f"COPY message ({', '.join(ARRIVING)}, receives, claim) FROM STDIN (FORMAT BINARY)"
    insert_message: str = f"""
        INSERT INTO message ({", ".join(ARRIVING)}, receives, claim)
        VALUES ({", ".join("?" * len(ARRIVING))}, 0, 0)"""
    # A whole unit of sends in one statement, which is a transaction by itself. It takes only columns of rows, and gives
    # numbers in their order. Nothing is stored where the queues have changed since they were read.
    send: str = f"""
        WITH here AS ({_NOW_AND_VERSION} FROM store),
        stored AS (
            INSERT INTO message ({", ".join(ARRIVING)}, receives, claim)
            SELECT nextval('message_seq'), arriving.*, 0, 0
            FROM here, unnest({", ".join(f"?::{kind}[]" for kind in _ARRIVING_TYPES[1:])}) AS arriving
            WHERE version = ?
            RETURNING seq, queue),
        counted AS (
            INSERT INTO tally (queue, slot, arrived, departed)
            SELECT queue, ?::bigint, count(*), 0 FROM stored GROUP BY queue ORDER BY queue
            ON CONFLICT (queue, slot) DO UPDATE SET arrived = tally.arrived + excluded.arrived)
        SELECT now, version, (SELECT array_agg(seq) FROM stored) FROM here"""
    next_seqs: str = "SELECT nextval('message_seq') FROM generate_series(1, ?)"
    last_seq: str = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM message_seq"
    # Messages go from their table into the ledger in one round trip. The sum keeps the planner from reading the queue.
    finish_claimed: str = """
        WITH gone AS (
            DELETE FROM message AS m USING unnest(?::bigint[], ?::bigint[]) AS latest (seq, claim)
            WHERE m.seq = latest.seq AND abs(m.claim) = latest.claim AND m.queue + 0 = ? RETURNING m.*),
        recorded AS ({into_ledger} FROM gone AS m {as_the_queue_wants} ORDER BY m.seq)
        SELECT seq FROM gone"""
    change_queues: str = "UPDATE store SET version = version + 1"
    prove_writable: str = "UPDATE store SET origin = origin WHERE 1 = 0"
    # What is true already is only promised once the standbys know it. A commit that writes waits for them; one that
    # writes nothing would not, and what a crash has made visible before its time, they may not have.
    has_standbys: str = "SELECT current_setting('synchronous_standby_names') <> ''"
    confirm: str = """
        SELECT pg_logical_emit_message(true, 'penstock', '') WHERE pg_current_xact_id_if_assigned() IS NULL"""
    has_table: str = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = ?"


def _in_use(schema: str) -> int:
    """The number of a lock that every connection holds in share. None takes it alone: it is there to be seen."""
    return crc32(schema.encode(), _LOCKS + 1) - 2**31


class PostgresEngine:
    statements: ClassVar[Statements] = STATEMENTS
    shared = True
    insert_alike = None

    def __init__(self, connection: psycopg.Connection[Row], schema: str) -> None:
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        self.connection = connection
        self._sql = sql = STATEMENTS.of(PostgresSql)
        self._writes = False
        self._slot = SystemRandom().randrange(SLOTS)
        self._doubt = Doubt(connection)
        self.sender = PostgresSender(connection, sql.send, _ARRIVING_TYPES[1:], self._slot, self._doubt)
        self._pipeline = Pipeline(connection, translated)
        self._cursor = connection.cursor()
        self._under_way = crc32(schema.encode(), _LOCKS) - 2**31
        # What is seen of a lock are its numbers without a sign.
        self._in_use = _in_use(schema) % 2**32
        self._ledger_ends = (sql.ledger_ends % (self._under_way % 2**32)).encode()
        self._ledger_ends_again = (sql.ledger_ends_again % (self._under_way % 2**32)).encode()
        # Sequence numbers taken ahead of need, and how many this unit has needed.
        self._ahead: list[int] = []
        self._needed = 0
        # Whether this unit may answer that something is done which another has done.
        self._leans = False
        [(self._has_standbys,)] = self.rows(sql.has_standbys)

    def begin(self, write: bool) -> tuple[int, int]:
        """In one round trip."""
        sql, pipeline = self._sql, self._pipeline
        ahead: PostgresStatement | None = None
        if write:
            pipeline.later("BEGIN")
            told = pipeline.later(sql.begin_writing, (self._under_way,))
            if self._needed >= _FEWEST_AHEAD:
                ahead = pipeline.later(sql.next_seqs, (min(self._needed, _MOST_AHEAD),))
        else:
            pipeline.later(_BEGIN_READING)
            told = pipeline.later(sql.begin_reading)
        [(now, version)] = told.rows()
        # Those of the unit before are thrown away: they would go before what others have sent since.
        self._ahead = [] if ahead is None else [seq for (seq,) in ahead.rows()]
        if write:
            self._needed = 0
        self._writes = write
        self._leans = False
        return now, version

    def commit(self) -> None:
        if self._leans and self._has_standbys:
            self._pipeline.later(self._sql.confirm)
        # PostgreSQL does not call it an error to commit a transaction that has failed.
        if self._pipeline.later("COMMIT").status() != b"COMMIT":
            raise StoreUnavailable("the database has not committed a transaction")
        self._doubt.check()

    def roll_back(self) -> None:
        self._pipeline.forget()
        self._pipeline.later("ROLLBACK")
        self._pipeline.exchange()

    def close(self) -> None:
        with suppress(psycopg.Error):
            self.connection.close()

    def later(self, sql: str, params: Sequence[object] = ()) -> Later:
        return self._pipeline.later(sql, params)

    def rows(self, sql: str, params: Sequence[object] = ()) -> list[Row]:
        try:
            asked = self._pipeline.later(sql, params)
        except InvalidRequest:
            return []  # what cannot be there is not found
        return asked.rows()

    def look_for_due(self, sql: str, queue: int, since: int, now: int, limit: int) -> Later:
        return self.later(sql, (queue, since, now, limit))

    def rows_within(self, sql: str, params: Sequence[object], budget: int) -> list[Row]:
        return self.rows(sql, (*params, budget))

    def run(self, sql: str, params: Sequence[object] = ()) -> int:
        return self._pipeline.later(sql, params).matched()

    def add(self, sql: str, row: Sequence[object]) -> bool:
        added = self.run(sql, row) > 0
        self._leans = self._leans or not added
        return added

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        for row in rows:
            self._pipeline.later(sql, row)
        self._pipeline.exchange()

    def listed(self, numbers: Iterable[int]) -> Numbers:
        return Numbers(list(numbers))

    def insert_messages(self, rows: Sequence[Row]) -> None:
        if len(rows) < _COPY_ROWS:
            self.many(self._sql.insert_message, rows)
            return
        self._pipeline.exchange()
        try:
            with self._cursor.copy(self._sql.copy_messages) as copy:
                copy.set_types(_COPY_TYPES)
                for row in rows:
                    copy.write_row((*row, 0, 0))
        except psycopg.Error as error:
            raise translated(error) from error

    def next_seqs(self, count: int) -> list[int]:
        self._needed += count
        seqs, self._ahead = self._ahead[:count], self._ahead[count:]
        if len(seqs) < count:
            more = self.rows(self._sql.next_seqs, (count - len(seqs),))
            seqs += [seq for (seq,) in more]
        return seqs

    def last_seq(self) -> int:
        [(seq,)] = self.rows(self._sql.last_seq)
        return int(seq)

    def forget_seqs(self) -> None:
        self._ahead = []

    def add_to_tallies(self, changes: Mapping[int, Sequence[int]], stirring: bool) -> None:
        # In one order, so that two units with one slot never wait for each other.
        queues = sorted(changes)
        if queues:
            arrived, departed = ([changes[queue][column] for queue in queues] for column in (0, 1))
            self.later(self._sql.add_to_tallies, (self._slot, Numbers(queues), Numbers(arrived), Numbers(departed)))

    def has_table(self, name: str) -> bool:
        return bool(self.rows(self._sql.has_table, (name,)))

    def change_queues(self) -> None:
        self.run(self._sql.change_queues)

    def finish_claimed(self, queue: int, claims: Mapping[int, int], outcome: int, now: int) -> Later:
        self._leans = True
        params = (Numbers(list(claims)), Numbers(list(claims.values())), queue, now, outcome)
        return self.later(self._sql.finish_claimed, params)

    def enter_ledger(self) -> None:
        """The unit has said so at its beginning."""

    def probe_other_users(self) -> bool:
        return bool(self.rows(self._sql.other_users, (self._in_use,)))

    def prove_writable(self) -> None:
        """Without a row: one that every server writes to would make each wait for the others."""
        self.run(self._sql.prove_writable)

    def sizes(self) -> Sizes:
        [(size,)] = self.rows(self._sql.size)
        return Sizes(store_bytes=int(size))

    def shrink(self, _limit: int) -> int:
        return 0

    def ledger_end(self) -> int:
        """What was given out by now belongs to units that have ended, or to units that can be seen under way. In the
        other order, a unit that begins and ends in between would be missed. And rows are to be read as they are after
        this look: a unit that only reads begins again, or it would not see what has been committed since it began."""
        text = self._ledger_ends if self._writes else self._ledger_ends_again
        self._pipeline.exchange()
        try:
            cursor = self._cursor.execute(text)
            while cursor.description is None:
                cursor.nextset()
            [(last,)] = cursor.fetchall()
            cursor.nextset()
            # A lock tells the lower half of its number: no unit is that far behind the last one.
            return int(last) - max([(last - number) % 2**32 for (number,) in cursor.fetchall()], default=0)
        except psycopg.Error as error:
            raise translated(error) from error


def on_one_line(error: psycopg.Error) -> str:
    """For a log or an answer; libpq likes to explain itself in paragraphs."""
    return " ".join(str(error).split()) or type(error).__name__


def translated(error: psycopg.Error) -> PenstockError:
    state = error.sqlstate or ""
    text = on_one_line(error)
    if state in ("40001", "40P01", "55P03", "57014"):
        return StoreBusy(f"another server keeps the database busy: {text}")
    if state in ("53100", "53400"):
        return StoreFull(f"the database is full: {text}")
    if state in ("42501", "42939", "3F000"):
        return InvalidSetting(f"the database does not permit it: {text}")
    # Our statements are fixed: one that the database does not understand has not found the tables it needs.
    if state.startswith(("42", "XX00")):
        return StoreCorrupt(f"the store is damaged: {text}")
    return StoreUnavailable(f"the database cannot be used: {text}")


def _of_each_host(url: str) -> list[str]:
    """What libpq is told to connect to each. Raises psycopg.Error for what it does not understand."""
    whole = psycopg.conninfo.make_conninfo(url)
    params = psycopg.conninfo.conninfo_to_dict(whole)
    lists = {name: str(params[name]).split(",") for name in _OF_A_HOST if params.get(name)}
    count = max(map(len, lists.values()), default=1)
    if any(len(values) not in (1, count) for values in lists.values()):
        return [whole]  # libpq says what is wrong with it
    return [
        psycopg.conninfo.make_conninfo(whole, **{name: values[number % len(values)] for name, values in lists.items()})
        for number in range(count)
    ]


class PostgresDatabase:
    """`?schema=` chooses where in the database the tables are; other parameters are libpq's own."""

    def __init__(self, url: str, lock_timeout_ms: int = _LOCK_TIMEOUT_MS) -> None:
        self._settings = f"SET lock_timeout = {lock_timeout_ms}; {_SETTINGS}"
        at = address(url)
        params = dict(parse_qsl(at.parts.query, keep_blank_values=True))
        self._schema = params.pop("schema", _SCHEMA)
        # PostgreSQL cuts off what is longer, and two stores would be one.
        if not 1 <= len(self._schema.encode()) <= 63:
            raise InvalidSetting("the schema of a PostgreSQL store has a name of 1 to 63 bytes")
        options = dict(_OPTIONS)
        if len(at.hosts) > 1 or "," in params.get("host", ""):
            options["target_session_attrs"] = _WRITABLE[0]
            if params.get("target_session_attrs", _WRITABLE[0]) not in _WRITABLE:
                raise InvalidSetting("target_session_attrs of a PostgreSQL store is read-write or primary")
        query = urlencode({**options, **params}, quote_via=quote)
        try:
            self._conninfos = _of_each_host(f"{url.partition('?')[0]}?{query}")
        except psycopg.Error as error:
            raise InvalidSetting(f"the address of the PostgreSQL store cannot be read: {error}") from error
        self._hosts = Hosts(len(self._conninfos))

    def connection(self) -> psycopg.Connection[Row]:
        return self._hosts.find(self._connection)

    def _connection(self, host: int) -> psycopg.Connection[Row]:
        try:
            connection = psycopg.connect(self._conninfos[host], autocommit=True)
        except psycopg.Error as error:
            raise StoreUnavailable(f"the database cannot be reached: {on_one_line(error)}") from error
        try:
            name = names.Identifier(self._schema)
            connection.execute(names.SQL(self._settings + "SET search_path = {}").format(name))
        except psycopg.Error as error:
            connection.close()
            raise translated(error) from error
        return connection

    def connect(self) -> NetworkEngine:
        connection = self.connection()
        try:
            connection.execute(f"SELECT pg_advisory_lock_shared({_in_use(self._schema)}, 0)".encode())
            engine = PostgresEngine(connection, self._schema)
        except psycopg.Error as error:
            connection.close()
            raise translated(error) from error
        return engine

    def exists(self) -> bool:
        try:
            with self.connection() as connection:
                return self._version(connection) > 0
        except psycopg.Error as error:
            raise translated(error) from error

    def prepare(self) -> tuple[str, bytes]:
        try:
            with self.connection() as connection:
                self._migrate(connection)
                [(origin, secret)] = connection.execute("SELECT origin, secret FROM store").fetchall()
        except psycopg.Error as error:
            raise translated(error) from error
        return origin, secret

    def _migrate(self, connection: psycopg.Connection[Row]) -> None:
        """In one transaction, so that a crash leaves the old schema or the new one; one server at a time."""
        with connection.transaction():
            [(encoding,)] = connection.execute("SELECT current_setting('server_encoding')").fetchall()
            if encoding != "UTF8":
                raise InvalidSetting(f"the database has the encoding {encoding}; Penstock needs UTF8")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCKS,))
            version = self._version(connection)
            scripts = schema.missing("postgresql", version)
            if version == 0:
                connection.execute(names.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(names.Identifier(self._schema)))
            for script in scripts:
                connection.execute(script.encode())
            if version == 0:
                connection.execute(
                    "INSERT INTO store VALUES (%s, 0, %s, %s)",
                    (len(scripts), ids.new_origin(SystemRandom()), token_bytes(32)),
                )
            elif scripts:
                connection.execute("UPDATE store SET schema_version = %s", (version + len(scripts),))

    def _version(self, connection: psycopg.Connection[Row]) -> int:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (self._schema,)
        ).fetchall()
        if not tables:
            return 0
        columns = connection.execute(
            """SELECT count(*) FROM information_schema.columns WHERE table_schema = %s AND table_name = 'store'
               AND column_name IN ('schema_version', 'origin', 'secret')""",
            (self._schema,),
        ).fetchall()
        if columns != [(3,)]:
            raise StoreForeign(
                f"the schema {self._schema!r} of the database holds tables that are not Penstock's; nothing was "
                "changed in it. Choose another with ?schema=NAME"
            )
        [(version,)] = connection.execute("SELECT schema_version FROM store").fetchall()
        return int(version)

    def watch(self) -> Watch:
        return NoticeWatch(self.connection, f"penstock_{crc32(self._schema.encode()):08x}")


class NoticeWatch:
    """Word between servers on one database: `LISTEN` and `NOTIFY`, on a connection of their own.

    Nothing depends on it: a notice is sent after the commit it tells of, many queues in one, and may be lost together
    with its connection. A poll that waits looks on its own from time to time.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Row]], channel: str) -> None:
        self._connect = connect
        self._channel = channel
        self._lock = threading.Lock()
        self._to_tell: set[str] = set()
        self._heard: set[str] = set()
        self._heard_of_all = False
        self._stopping = threading.Event()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._watcher = threading.Thread(target=self._run, name="penstock-notices", daemon=True)
        self._watcher.start()

    def tell(self, queues: set[str]) -> None:
        with self._lock:
            is_first = not self._to_tell
            self._to_tell |= queues
            if is_first and not self._stopping.is_set():
                self._wake()

    def changed(self) -> Container[str]:
        if not self._heard_of_all and not self._heard:
            return ()
        with self._lock:
            heard, self._heard = self._heard, set()
            everywhere, self._heard_of_all = self._heard_of_all, False
        return EVERYWHERE if everywhere else heard

    def close(self) -> None:
        with self._lock:
            self._stopping.set()
            self._wake()
        self._watcher.join(_END_S)
        if not self._watcher.is_alive():
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._connect() as connection:
                    self._listen(connection)
            except (PenstockError, psycopg.Error, OSError) as error:
                if not self._stopping.is_set():
                    log.warning("word from other servers comes late: %s", str(error).strip())
            self._stopping.wait(_RETRY_S)

    def _listen(self, connection: psycopg.Connection[Row]) -> None:
        # A notice is not data: its commit need not wait for the disk.
        connection.execute("SET synchronous_commit = off")
        connection.execute(f"LISTEN {self._channel}")
        self._heard_of_all = True  # of what was said before we listened
        poll = select.poll()  # and not select, which knows no descriptor above 1,023
        poll.register(connection.fileno(), select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while not self._stopping.is_set():
            # Both before we sleep: what an earlier connection has not said wakes no server any more, and what has come
            # while we spoke is with the driver already.
            self._say(connection)
            self._hear(connection)
            if self._wake_read in dict(poll.poll(_SLEEP_MS)):
                os.read(self._wake_read, 4096)

    def _hear(self, connection: psycopg.Connection[Row]) -> None:
        own = connection.info.backend_pid
        for notice in connection.notifies(timeout=0):
            if notice.pid != own:
                try:
                    queues = msgspec.json.decode(notice.payload, type=list[str])
                except msgspec.MsgspecError:  # too many to tell, or not in our words
                    self._heard_of_all = True
                else:
                    with self._lock:
                        self._heard.update(queues)

    def _say(self, connection: psycopg.Connection[Row]) -> None:
        with self._lock:
            queues, self._to_tell = self._to_tell, set()
        if queues:
            encoded = msgspec.json.encode(sorted(queues))
            payload = encoded.decode() if len(encoded) <= _PAYLOAD_BYTES else _ALL
            try:
                connection.execute("SELECT pg_notify(%s, %s)", (self._channel, payload))
            except psycopg.Error:
                with self._lock:
                    self._to_tell |= queues
                raise
            self._stopping.wait(_GATHER_S)
