"""SQLite: the embedded store, in WAL mode, every commit synced.

`apsw` brings a SQLite of its own. The one inside Python here and there still has the WAL-reset bug that was fixed in
3.51.3 and that can corrupt a file shared by several processes.

A unit is one `BEGIN IMMEDIATE` transaction, so there is one writer at a time among all processes; a unit takes
well under a millisecond. What the store remembers between units it forgets as soon as SQLite says that another
connection has changed the file.

One file because the driver, the statements and the store of a database change together.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import SystemRandom
from secrets import token_bytes
from types import TracebackType
from typing import ClassVar

import apsw

from penstock import ids
from penstock.complaint import Complaint
from penstock.errors import (
    InvalidSetting,
    PenstockError,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from penstock.ids import HASH_BYTES, KEY_BYTES
from penstock.limits import Limits
from penstock.model import Sizes
from penstock.stores.protocol import AllBut
from penstock.stores.sql import schema
from penstock.stores.sql.engine import ARRIVING, Alike, Executed, Later, RawSql, Row
from penstock.stores.sql.engines import forks
from penstock.stores.sql.engines.sqlite_file import APPLICATION_ID, SqliteFile, reserve
from penstock.stores.sql.session import Cache, Session, size_of
from penstock.stores.sql.statements import Dialect, Statements
from penstock.stores.sql.unit import SqlUnit

log = logging.getLogger(__name__)

_OLDEST_SAFE_SQLITE = (3, 51, 3)

_PAGE_BYTES = 4096
# A longer WAL makes checkpoints rarer, and each of them longer, and every request waits for it. 500 pages are 2 MB.
_CHECKPOINT_PAGES = 500
# A log that has so many times as many to bring home has grown while somebody was reading.
_GROWN = 2
# How often a thread tries to bring home what has grown, while somebody may still be reading.
_HOMING_S = 0.1
# A page in the WAL has a header of its own.
_LOG_PAGE_BYTES = _PAGE_BYTES + 24
# A process that writes this often is here to stay.
_UNITS_BEFORE_LENGTHENING = 64
# So much room beyond it is not filled between two looks.
_PLENTY_BYTES = 1024 * 1024 * 1024
_ROOM_LOOK_S = 0.1
_BUSY_NAP_S = 0.0005
# How often a store at work looks whether its files are still there.
_LOOK_S = 1.0
# A server starts beside others that are at work, and nothing waits for it yet.
_OPENING_PATIENCE_S = 10.0
# A mode of `auto_vacuum`: free pages are given back when SQLite is asked to.
_INCREMENTAL = 2
# Pages that are given back before the clock is looked at, and how long one unit may go on with that.
_SHRINK_PAGES = 16
_SHRINK_S = 0.002
# Rows that are read at once where their bodies are added up.
_PIECE_ROWS = 16

# There is one writer at a time: nothing has to be locked.
STATEMENTS = Statements(
    Dialect(
        name="sqlite",
        parameter="?",
        among="COLUMN IN (SELECT value FROM carray(?))",
        unless_there="ON CONFLICT DO NOTHING",
        if_there="ON CONFLICT (COLUMN) DO UPDATE SET",
        new="excluded.COLUMN",
        lock="",
        lock_free="",
        walk="message",
        age="seq",
        ledger_of_queue="ledger",
        streams=True,
    )
)


@dataclass(frozen=True, slots=True)
class SqliteSql:
    """What SQLite alone is asked."""

    insert_message: str = f"""
        INSERT INTO message ({", ".join(ARRIVING)}, receives, claim)
        VALUES ({", ".join("?" * len(ARRIVING))}, 0, 0)"""
    # Messages that differ in nothing but their numbers, which follow each other, their keys and bodies. The numbers
    # count on from the one before the first; keys and hashes stand one behind the other, all of one length.
    insert_alike: str = f"""
        INSERT INTO message ({", ".join(ARRIVING)}, receives, claim)
        SELECT ? + rowid, ?, ?, ?, ?, ?, ?, ?, substr(?, rowid * {KEY_BYTES} - {KEY_BYTES - 1}, {KEY_BYTES}),
               substr(?, rowid * {HASH_BYTES} - {HASH_BYTES - 1}, {HASH_BYTES}), value, 0, 0
        FROM carray(?)"""
    add_to_tally: str = """
        INSERT INTO tally (queue, arrived, departed) VALUES (?, ?, ?)
        ON CONFLICT (queue) DO UPDATE
        SET arrived = arrived + excluded.arrived, departed = departed + excluded.departed"""
    last_seq: str = "SELECT arrived FROM tally WHERE queue = 0"
    has_table: str = "SELECT 1 FROM sqlite_schema WHERE name = ?"
    write_row: str = "INSERT INTO store SELECT * FROM store"
    unwrite_row: str = "DELETE FROM store WHERE rowid > (SELECT min(rowid) FROM store)"
    empty_queues: str = """
        SELECT name FROM queue AS q WHERE deleted_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM tally WHERE tally.queue = q.number AND arrived > departed) LIMIT ?"""


class SqliteEngine:
    """There is one writer at a time, so sequence numbers are counted in a row."""

    statements: ClassVar[Statements] = STATEMENTS
    shared = False
    finish_claimed = None

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._cursor = connection.cursor()
        self._sql = STATEMENTS.of(SqliteSql)
        # The last sequence number given out, and how many of them are not written down yet.
        self._seq: int | None = None
        self._given = 0

    def forget(self) -> None:
        """The store was changed elsewhere, or a unit was lost."""
        self._seq, self._given = None, 0

    def rows(self, sql: str, params: Sequence[object] = ()) -> list[Row]:
        try:
            return self._cursor.execute(sql, params).fetchall()
        except apsw.Error as error:
            raise translated(error) from error

    def later(self, sql: str, params: Sequence[object] = ()) -> Later:
        return Executed(self.rows(sql, params))

    def look_for_due(self, sql: str, queue: int, since: int, now: int, limit: int) -> Later:
        return self.later(sql, (queue, since, now, limit))

    def rows_within(self, sql: str, params: Sequence[object], budget: int) -> list[Row]:
        """In pieces: looking at each row on its own takes as long as reading it."""
        rows: list[Row] = []
        try:
            cursor = self._cursor.execute(sql, params)
            while piece := list(islice(cursor, _PIECE_ROWS)):
                budget -= size_of(piece)
                rows += piece
                if budget <= 0:
                    break
        except apsw.Error as error:
            raise translated(error) from error
        while len(rows) > 1 and budget + size_of(rows[-1:]) <= 0:
            budget += size_of([rows.pop()])
        return rows

    def run(self, sql: str, params: Sequence[object] = ()) -> int:
        try:
            self._cursor.execute(sql, params)
        except apsw.Error as error:
            raise translated(error) from error
        return self.connection.changes()

    def add(self, sql: str, row: Sequence[object]) -> bool:
        return self.run(sql, row) > 0

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        try:
            self._cursor.executemany(sql, rows)
        except apsw.Error as error:
            raise translated(error) from error

    def listed(self, numbers: Iterable[int]) -> object:
        listed = array("q", numbers)
        return apsw.carray(listed) if listed else None

    def insert_messages(self, rows: Sequence[Row]) -> None:
        self.many(self._sql.insert_message, rows)

    def insert_alike(self, messages: Alike) -> None:
        """By one statement, which takes half the time."""
        keys = None if messages.keys is None else b"".join(messages.keys)
        hashes, bodies = b"".join(messages.hashes), apsw.carray(tuple(messages.bodies))
        self.run(self._sql.insert_alike, (messages.first - 1, *messages.shared, keys, hashes, bodies))

    def next_seqs(self, count: int) -> range:
        """They are given back if the unit is lost."""
        last = self.last_seq()
        self._seq = last + count
        self._given += count
        return range(last + 1, last + 1 + count)

    def last_seq(self) -> int:
        if self._seq is None:
            [(seq,)] = self.rows(self._sql.last_seq)
            self._seq = int(seq)
        return self._seq

    def forget_seqs(self) -> None:
        """None are taken ahead."""

    def add_to_tallies(self, changes: Mapping[int, Sequence[int]], stirring: bool) -> None:
        rows = [(queue, arrived, departed) for queue, (arrived, departed) in changes.items()]
        if self._given:
            rows.append((0, self._given, 0))
            self._given = 0
        self.many(self._sql.add_to_tally, rows)

    def has_table(self, name: str) -> bool:
        return bool(self.rows(self._sql.has_table, (name,)))

    def change_queues(self) -> None:
        """SQLite tells other connections that the file has changed."""

    def enter_ledger(self) -> None:
        """No other unit is writing."""

    def prove_writable(self) -> None:
        """By a row that comes and goes: SQLite writes nothing for an update that changes nothing."""
        self.run(self._sql.write_row)
        self.run(self._sql.unwrite_row)

    def sizes(self) -> Sizes:
        path = self.connection.filename
        device = os.statvfs(os.path.dirname(path))
        [(unused,)] = self.rows("PRAGMA freelist_count")
        [(vacuum,)] = self.rows("PRAGMA auto_vacuum")
        return Sizes(
            _size_of(path),
            _size_of(self.connection.filename_wal),
            device.f_bavail * device.f_frsize,
            unused * _PAGE_BYTES,
            shrinks=vacuum == _INCREMENTAL,
        )

    def shrink(self, limit: int) -> int:
        """Pages from the end of the file take the places of free ones, and the file ends earlier from the next
        checkpoint on. A little at a time, because the loop waits: how long a page takes depends on its neighbours."""
        [(before,)] = self.rows("PRAGMA freelist_count")
        left, until = before, time.perf_counter() + _SHRINK_S
        while left and before - left < limit // _PAGE_BYTES and time.perf_counter() < until:
            self.rows(f"PRAGMA incremental_vacuum({_SHRINK_PAGES})")
            former = left
            [(left,)] = self.rows("PRAGMA freelist_count")
            if left == former:
                break  # a file that cannot shrink
        return int(before - left) * _PAGE_BYTES

    def ledger_end(self) -> int:
        """One writer at a time writes the rows in their order."""
        return ids.SEQ_MAX


def _size_of(path: str) -> int:
    """A log that was emptied may be gone."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def translated(error: apsw.Error) -> PenstockError:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy("another process is writing to the store")
        case apsw.FullError():
            return StoreFull("the device of the store is full")
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreCorrupt(f"the store is damaged: {error}")
        # Our statements are fixed: one that SQLite does not understand has not found the tables it needs.
        case apsw.SQLError() if str(error).startswith("no such"):
            return StoreCorrupt(f"the store is damaged: {error}")
        case _:
            return StoreUnavailable(f"the store cannot be used: {error}")


def open_sqlite(url: str, path: str, patience_ms: int, limits: Limits) -> SqliteStore:
    """`path` is what follows `sqlite://`: `/relative/to/here.db`, or `//absolute/path.db`."""
    if not path.startswith("/") or len(path) < 2:
        raise InvalidSetting(f"a SQLite store is sqlite:///relative.db or sqlite:////absolute.db, not {url!r}")
    return SqliteStore(url, Path(path[1:]), patience_ms, limits)


class _OpenUnit:
    """One unit, from `with` to its end. A class, because each request of a quiet server pays for a unit of its own, and
    a generator costs several times as much."""

    __slots__ = ("_store", "_write")

    def __init__(self, store: SqliteStore, write: bool) -> None:
        self._store = store
        self._write = write

    def __enter__(self) -> SqlUnit:
        return self._store.begin_unit(self._write)

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is None:
            self._store.commit_unit(self._write)
        else:
            self._store.lose_unit(error)


class SqliteStore:
    inline = True
    lanes = 1
    ahead_ms = 0

    def __init__(
        self,
        url: str,
        path: Path,
        patience_ms: int = 10_000,
        limits: Limits = Limits(),
        *,
        look_s: float = _LOOK_S,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if tuple(map(int, apsw.sqlite_lib_version().split("."))) < _OLDEST_SAFE_SQLITE:
            raise InvalidSetting(
                f"SQLite {apsw.sqlite_lib_version()} can corrupt shared files; 3.51.3 or later is needed"
            )
        if "ENABLE_CARRAY" not in apsw.compile_options:
            raise InvalidSetting("apsw must be built with SQLITE_ENABLE_CARRAY, as the packages on PyPI are")
        self.url = url
        self.limits = limits
        self.sync_seconds = 0.0
        self._sql = STATEMENTS.of(SqliteSql)
        self._look_s = look_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._file = SqliteFile(path)
        self.path = self._file.path
        self._process = os.getpid()
        self._patience_s = max(_OPENING_PATIENCE_S, patience_ms / 1000)
        # What has gone wrong since the file was last opened.
        self._failure: Exception | None = None
        self._trouble = Complaint(log)
        self._tidying: threading.Thread | None = None
        self._home_at = 0.0
        self._reserve = 0
        self._roomy_until = 0.0
        self._file.prepare()
        self._open()
        self._patience_s = patience_ms / 1000

    def _open(self) -> None:
        """While others open a new file too, SQLite calls it busy without asking the busy handler first."""
        patient_until = self._monotonic() + self._patience_s
        while True:
            try:
                return self._connect()
            except StoreBusy:
                if self._monotonic() >= patient_until:
                    raise
            self._sleep(_BUSY_NAP_S)

    def _connect(self) -> None:
        try:
            # It never makes the file: where that is gone, an empty one must not take its place.
            self._connection = apsw.Connection(self._file.real_path, flags=apsw.SQLITE_OPEN_READWRITE)
        except apsw.Error as error:
            raise translated(error) from error
        try:
            forks.note_opened(self._connection, self._file.inode())
            # A connection that is refused leaves the file and its WAL as they are.
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            if self._connection.readonly("main"):
                # SQLite would open it all the same, and refuse to write only when there is something to write.
                raise StoreReadOnly(f"{self.path} may only be read: a store has to be written to")
            self._connection.set_busy_handler(self._wait_for_others)
            self._waiting_since = 0.0
            self._engine = SqliteEngine(self._connection)
            self._cache = Cache()
            self._write_units = 0
            self._reserve = reserve(self.path.parent)
            self._configure()
            self._migrate()
            [(origin, self.secret)] = self._engine.rows("SELECT origin, secret FROM store")
            self._session = Session(self._engine, origin, self._cache, self.limits)
            self._unit = SqlUnit(self._session)
            self._seen_version = self._data_version()
            self._file.note_opened()
            self._look_at = self._monotonic() + self._look_s
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        except apsw.Error as error:
            self.close()
            raise translated(error) from error
        except BaseException:
            self.close()
            raise

    def _configure(self) -> None:
        execute = self._connection.execute
        execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        if not self._connection.pragma("page_count"):
            # Only a new file can be told so: one that has tables would have to be rebuilt.
            execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        execute("PRAGMA foreign_keys = ON")
        execute("PRAGMA temp_store = MEMORY")
        execute("PRAGMA cache_size = -16384")
        # The WAL must always fit into the reserve once more, as pages of the database: else a full device
        # could never be checkpointed.
        self._log_pages = min(_CHECKPOINT_PAGES, self._reserve // 2 // _PAGE_BYTES)
        # Checkpoints are ours to begin: see `_checkpoint`.
        execute("PRAGMA wal_autocheckpoint = 0")
        self._log_length = self._log_home = 0
        # Whether somebody who reads has kept the last checkpoint from bringing home all of it.
        self._log_is_held = False
        self._connection.set_wal_hook(self._note_log)
        execute(f"PRAGMA journal_size_limit = {self._log_pages * _LOG_PAGE_BYTES}")

    def _migrate(self) -> None:
        """In one transaction, so that a crash leaves the old schema or the new one."""
        with self._transaction("BEGIN IMMEDIATE"):
            [(version,)] = self._engine.rows("PRAGMA user_version")
            self._refuse_foreign_tables(version)
            scripts = schema.missing("sqlite", version)
            for script in scripts:
                self._connection.execute(script)
            if version == 0:
                self._engine.run("INSERT INTO store VALUES (?, ?)", (ids.new_origin(SystemRandom()), token_bytes(32)))
                self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            if scripts:
                self._connection.execute(f"PRAGMA user_version = {version + len(scripts)}")

    def _refuse_foreign_tables(self, version: int) -> None:
        """The header of a file may still look new while tables of another program are in the WAL beside it."""
        [(application,)] = self._engine.rows("PRAGMA application_id")
        [(tables,)] = self._engine.rows("SELECT count(*) FROM sqlite_schema")
        if application != APPLICATION_ID and (application or version or tables):
            raise self._file.not_ours()

    def unit(self, write: bool = True) -> _OpenUnit:
        return _OpenUnit(self, write)

    def begin_unit(self, write: bool) -> SqlUnit:
        """For `_OpenUnit`, which ends it by one of the two below."""
        if os.getpid() != self._process:
            raise forks.inherited(self.path)
        if self._failure is not None:
            self._reopen(self._failure)
        elif self._monotonic() >= self._look_at:
            self._look()
        try:
            self._begin("BEGIN IMMEDIATE" if write else "BEGIN")
            version = self._data_version()
        except BaseException as error:
            self.lose_unit(error)
            raise
        if version != self._cache.version:
            self._cache.keep_only(version)
            self._engine.forget()
        self._session.begin()
        return self._unit

    def commit_unit(self, write: bool) -> None:
        try:
            self._session.flush()
            if write:
                self._write_units += 1
                if self._write_units == _UNITS_BEFORE_LENGTHENING:
                    self._lengthen_log()
            began = time.perf_counter()
            self._engine.run("COMMIT")
            if write:
                self.sync_seconds += time.perf_counter() - began
        except BaseException as error:
            self.lose_unit(error)
            raise
        if self._log_length >= self._log_pages:
            self._checkpoint()

    def _note_log(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        """After each commit: how many pages the log has."""
        if pages < self._log_length:
            self._log_home = 0  # it has begun from its start again
        self._log_length = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Bring the pages of the log home, as SQLite would by itself; what goes wrong is tried again after the next
        commit. But while somebody reads, the log can only grow, and afterwards everybody would have to wait for all of
        it: then a thread does that, and only what is written meanwhile is left to us. One large unit is not such a
        case: it pays for itself."""
        if not self._log_is_held or self._log_length - self._log_home <= _GROWN * self._log_pages:
            with suppress(apsw.Error):
                length, self._log_home = self._connection.wal_checkpoint()
                self._log_is_held = self._log_home < length
        elif self._monotonic() >= self._home_at:
            self._home_at = self._monotonic() + _HOMING_S
            self.tidy()

    def lose_unit(self, error: BaseException) -> None:
        self._cache.clear()
        self._engine.forget()
        self._roll_back()
        if isinstance(error, StoreUnavailable | StoreCorrupt):
            # Perhaps a sync has failed. What the kernel then holds in its cache need not be on the disk, and a
            # second sync of the same descriptor would say nothing about it. Nor is a store damaged for good because
            # a connection that has seen a failure says so.
            self._failure = error

    @contextmanager
    def raw(self, write: bool = True) -> Iterator[RawSql[SqliteEngine]]:
        with self.unit(write):
            yield RawSql(self._engine)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        """What is done to the file apart from units."""
        try:
            self._begin(begin)
            yield
            self._engine.run("COMMIT")
        except BaseException as error:
            self.lose_unit(error)
            raise

    def _lengthen_log(self) -> None:
        """Give the WAL its full length at once, while we hold the write lock.

        A sync that also has to record a new file length takes twice as long as one of blocks that are already there.
        SQLite trusts only frames whose checksums continue the chain, so zeros behind the last one mean nothing to it;
        it leaves such a tail itself whenever it starts the WAL over. SQLite has no locks on this file, only on the two
        others: closing it here drops none.
        """
        with suppress(OSError), Path(f"{self._file.real_path}-wal").open("r+b", buffering=0) as log_file:
            length = log_file.seek(0, os.SEEK_END)
            while length < self._log_pages * _LOG_PAGE_BYTES:
                length += log_file.write(bytes(min(1 << 20, self._log_pages * _LOG_PAGE_BYTES - length)))
            os.fsync(log_file.fileno())

    def _begin(self, begin: str) -> None:
        self._waiting_since = 0.0
        self._engine.run(begin)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with suppress(apsw.Error):
                self._connection.execute("ROLLBACK")

    def _wait_for_others(self, _tries: int) -> bool:
        """SQLite's own waiting doubles its naps up to 100 ms; units are far shorter than that."""
        now = self._monotonic()
        if not self._waiting_since:
            self._waiting_since = now
        if now - self._waiting_since >= self._patience_s:
            return False
        self._sleep(_BUSY_NAP_S)
        return True

    def _look(self) -> None:
        """The next unit looks again when this raises, so a file that is put back is found at once."""
        self._refuse_gone()
        self._trouble.end(f"{self.path} is there again")
        self._look_at = self._monotonic() + self._look_s

    def _refuse_gone(self) -> None:
        try:
            self._file.refuse_gone()
        except StoreUnavailable as error:
            self._trouble.say(str(error))
            raise

    def _reopen(self, failure: Exception) -> None:
        """The store is good again when it could be written to: from a device that fails, reading may go on for long."""
        self._trouble.say(f"opening {self.path} again after a failure: {failure}")
        self._refuse_gone()
        self._let_go(force=True)
        try:
            self._open()
            self._prove()
        except StoreReadOnly as error:
            raise StoreUnavailable(str(error)) from error
        self._failure = None
        self._trouble.end(f"{self.path} can be used again")

    def _prove(self) -> None:
        # A full device answers, and may have room for claims and acks.
        with suppress(StoreFull), self._transaction("BEGIN IMMEDIATE"):
            self._engine.prove_writable()

    def probe_other_users(self) -> bool:
        """Each connection that has the file open holds a lock on it in share, so that none gets it alone: try to, and
        give it back."""
        patience_s, self._patience_s = self._patience_s, 0.0
        self._connection.pragma("locking_mode", "exclusive")
        try:
            with self._transaction("BEGIN IMMEDIATE"):
                return False
        except StoreBusy:
            return True
        finally:
            self._patience_s = patience_s
            self._connection.pragma("locking_mode", "normal")
            # The lock is given back at the end of the next unit.
            with self._transaction("BEGIN IMMEDIATE"):
                self._data_version()

    def rebuild(self) -> None:
        """Write the whole file again, so that it can shrink from then on, outside of any unit. All others are locked
        out, and what it holds is written twice on the way: beside it, and into the log."""
        self._connection.pragma("temp_store", "FILE")
        try:
            used = (self._connection.pragma("page_count") - self._connection.pragma("freelist_count")) * _PAGE_BYTES
            device = os.statvfs(self.path.parent)
            free = device.f_bavail * device.f_frsize
            if free < 2 * used + self._reserve:
                raise StoreFull(
                    f"there is no room to rebuild {self.path}: it takes {2 * used:,} bytes for a while, the store "
                    f"keeps {self._reserve:,} free, and {free:,} are free"
                )
            self._connection.pragma("auto_vacuum", _INCREMENTAL)
            self._engine.run("VACUUM")
            self._engine.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._connection.pragma("temp_store", "MEMORY")

    def has_room(self) -> bool:
        """A device with plenty of room is looked at now and then, any other before every unit."""
        return self._monotonic() < self._roomy_until or self._look_for_room()

    def _look_for_room(self) -> bool:
        try:
            stat = os.statvfs(self.path.parent)
            room = stat.f_bavail * stat.f_frsize - self._reserve
            if room >= _PLENTY_BYTES:
                self._roomy_until = self._monotonic() + _ROOM_LOOK_S
            if room >= 0:
                return True
            # What was acked is room inside the file. Neither has to be the whole reserve: whatever is claimed and acked
            # takes free pages first, and then lets the file grow.
            [(free_pages,)] = self._connection.execute("PRAGMA freelist_count").fetchall()
        except (OSError, apsw.Error):
            return True  # the unit itself will say what is wrong
        return bool(room + free_pages * _PAGE_BYTES >= 0)  # type: ignore[operator]

    def tidy(self) -> None:
        """In a thread, which has a connection of its own: no one waits for it. A checkpoint that is not in the way of
        anybody comes first. Where that has brought home all of the log, its file can be cut in a moment; then it is
        given its length again, once the store is written to."""
        if self._tidying is not None and self._tidying.is_alive():
            return
        if os.getpid() == self._process and self._failure is None:
            self._tidying = threading.Thread(target=self._tidy, name="penstock-tidy", daemon=True)
            self._tidying.start()

    def _tidy(self) -> None:
        log_file = f"{self._file.real_path}-wal"
        with suppress(apsw.Error, OSError), self._connected_beside() as connection:
            connection.execute("PRAGMA synchronous = FULL")
            [(_, held, home)] = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._log_home = max(0, int(home))  # type: ignore[arg-type]
            self._log_is_held = home != held
            if held == home and os.stat(log_file).st_size > 2 * self._log_pages * _LOG_PAGE_BYTES:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                self._write_units = 0

    @contextmanager
    def unit_beside(self) -> Iterator[SqlUnit]:
        """On a connection that lasts as long as the unit: it is for pages of thousands of rows, and one that is left
        open would have to be given up whenever the file is."""
        self._file.refuse_gone()
        try:
            with self._connected_beside() as connection:
                connection.set_busy_timeout(int(self._patience_s * 1000))
                connection.execute("PRAGMA query_only = ON")
                connection.execute("BEGIN")
                yield SqlUnit(Session(SqliteEngine(connection), self._session.origin, Cache(), self.limits))
        except apsw.Error as error:
            raise translated(error) from error

    @contextmanager
    def _connected_beside(self) -> Iterator[apsw.Connection]:
        """A connection for another thread, which sees what is committed."""
        connection = apsw.Connection(self._file.real_path, flags=apsw.SQLITE_OPEN_READWRITE)
        forks.note_opened(connection, self._file.inode())
        try:
            yield connection
        finally:
            connection.close(True)
            forks.note_closed(connection)

    def changed_elsewhere(self) -> Container[str]:
        """SQLite does not say what was changed. But in a queue that holds no message, none can have become ready."""
        try:
            version = self._data_version()
            if version == self._seen_version:
                return ()
            changed = AllBut(
                {name for (name,) in self._connection.execute(self._sql.empty_queues, (self.limits.waiters,))}
            )
        except (apsw.Error, PenstockError):
            return ()
        self._seen_version = version
        return changed

    def _data_version(self) -> int:
        """Changes when another connection has committed, and never by our own commits."""
        [(version,)] = self._engine.rows("PRAGMA data_version")
        return int(version)

    def close(self) -> None:
        if os.getpid() == self._process:
            if self._tidying is not None:
                self._tidying.join(_LOOK_S)
            self._let_go()

    def _let_go(self, force: bool = False) -> None:
        with suppress(apsw.Error):
            self._connection.close(force)
        forks.note_closed(self._connection)
        self._file.note_closed()
