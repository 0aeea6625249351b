"""The embedded store: SQLite in WAL mode, every commit synced.

`apsw` brings a SQLite of its own. The one inside Python here and there still has the WAL-reset bug that was fixed in
3.51.3 and that can corrupt a file shared by several processes.

A unit is one `BEGIN IMMEDIATE` transaction, so there is one writer at a time among all processes; a unit takes
well under a millisecond. What the store remembers between units it forgets as soon as SQLite says that another
connection has changed the file.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import SystemRandom
from secrets import token_bytes

import apsw

from penstock import ids, limits
from penstock.complaint import Complaint
from penstock.errors import InvalidSetting, StoreBusy, StoreCorrupt, StoreFull, StoreReadOnly, StoreUnavailable
from penstock.limits import Limits
from penstock.stores.changes import AllBut
from penstock.stores.protocol import Store, Unit
from penstock.stores.sql import forks, migrations
from penstock.stores.sql.apsw_engine import ApswEngine, translated
from penstock.stores.sql.session import Cache, Session
from penstock.stores.sql.sqlite_file import APPLICATION_ID, SqliteFile
from penstock.stores.sql.unit import SqlUnit

log = logging.getLogger(__name__)

_OLDEST_SAFE_SQLITE = (3, 51, 3)

_PAGE_BYTES = 4096
# A longer WAL makes checkpoints rarer, and each of them longer. 4,000 pages are 16 MB.
_CHECKPOINT_PAGES = 4_000
# A page in the WAL has a header of its own.
_LOG_PAGE_BYTES = _PAGE_BYTES + 24
# Whoever writes this often is here to stay.
_UNITS_BEFORE_LENGTHENING = 64
# Kept free for claims and acks: sends stop before the device is full.
_RESERVE_BYTES = 32 * 1024 * 1024
_RESERVE_SHARE = 8
_BUSY_NAP_S = 0.0005
# How often a store at work looks whether its files are still there.
_LOOK_S = 1.0
# A server starts beside others that are at work, and nothing waits for it yet.
_OPENING_PATIENCE_S = 10.0
_EMPTY_QUEUES = """
    SELECT name FROM queue AS q WHERE deleted_at IS NULL
       AND NOT EXISTS (SELECT 1 FROM tally WHERE tally.queue = q.number AND arrived > departed) LIMIT ?"""


def open_sqlite(url: str, path: str, patience_ms: int, limits: Limits = Limits()) -> Store:
    """`path` is what follows `sqlite://`: `/relative/to/here.db`, or `//absolute/path.db`."""
    if not path.startswith("/") or len(path) < 2:
        raise InvalidSetting(f"a SQLite store is sqlite:///relative.db or sqlite:////absolute.db, not {url!r}")
    return SqliteStore(url, Path(path[1:]), patience_ms, limits)


class SqliteStore:
    inline = True
    lanes = 1
    ahead_ms = 0

    def __init__(self, url: str, path: Path, patience_ms: int = 10_000, limits: Limits = Limits()) -> None:
        if tuple(map(int, apsw.sqlite_lib_version().split("."))) < _OLDEST_SAFE_SQLITE:
            raise InvalidSetting(
                f"SQLite {apsw.sqlite_lib_version()} can corrupt shared files; 3.51.3 or later is needed"
            )
        self.url = url
        self.limits = limits
        self._file = SqliteFile(path)
        self.path = self._file.path
        self._process = os.getpid()
        self._patience_s = max(_OPENING_PATIENCE_S, patience_ms / 1000)
        # What has gone wrong since the file was last opened.
        self._failure: Exception | None = None
        self._trouble = Complaint(log)
        self._reserve = 0
        self._file.prepare()
        self._open()
        self._patience_s = patience_ms / 1000

    def _open(self) -> None:
        """While others open a new file too, SQLite calls it busy without asking the busy handler first."""
        patient_until = time.monotonic() + self._patience_s
        while True:
            try:
                return self._connect()
            except StoreBusy:
                if time.monotonic() >= patient_until:
                    raise
            time.sleep(_BUSY_NAP_S)

    def _connect(self) -> None:
        try:
            # It never makes the file: where that is gone, an empty one must not take its place.
            self._connection = apsw.Connection(self._file.real_path, flags=apsw.SQLITE_OPEN_READWRITE)
        except apsw.Error as error:
            raise translated(error) from error
        try:
            forks.note_opened(self._connection, self._file.inode())
            # Whoever is refused leaves the file and its WAL as they are.
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            if self._connection.readonly("main"):
                # SQLite would open it all the same, and refuse to write only when there is something to write.
                raise StoreReadOnly(f"{self.path} may only be read: a store has to be written to")
            self._connection.set_busy_handler(self._wait_for_others)
            self._waiting_since = 0.0
            self._engine = ApswEngine(self._connection)
            self._cache = Cache()
            self._write_units = 0
            stat = os.statvfs(self.path.parent)
            self._reserve = min(_RESERVE_BYTES, stat.f_blocks * stat.f_frsize // _RESERVE_SHARE)
            self._configure()
            self._migrate()
            [(self._origin, self.secret)] = self._engine.rows("SELECT origin, secret FROM store")
            self._seen_version = self._data_version()
            self._file.note_opened()
            self._look_at = time.monotonic() + _LOOK_S
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
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        execute("PRAGMA foreign_keys = ON")
        execute("PRAGMA temp_store = MEMORY")
        execute("PRAGMA cache_size = -16384")
        # The WAL must always fit into the reserve once more, as pages of the database: else a full device
        # could never be checkpointed.
        self._log_pages = min(_CHECKPOINT_PAGES, self._reserve // 2 // _PAGE_BYTES)
        execute(f"PRAGMA wal_autocheckpoint = {self._log_pages}")
        execute(f"PRAGMA journal_size_limit = {self._log_pages * _LOG_PAGE_BYTES}")

    def _migrate(self) -> None:
        """In one transaction, so that a crash leaves the old schema or the new one."""
        with self._transaction("BEGIN IMMEDIATE"):
            [(version,)] = self._engine.rows("PRAGMA user_version")
            self._refuse_foreign_tables(version)
            scripts = migrations.missing("sqlite", version)
            for script in scripts:
                self._connection.execute(script)
            if version == 0:
                self._engine.run("INSERT INTO store VALUES (?, ?)", (ids.new_origin(SystemRandom()), token_bytes(32)))
                self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            if scripts:
                self._connection.execute(f"PRAGMA user_version = {version + len(scripts)}")

    def _refuse_foreign_tables(self, version: int) -> None:
        """The header of a file may still look new while somebody else's tables are in the WAL beside it."""
        [(application,)] = self._engine.rows("PRAGMA application_id")
        [(tables,)] = self._engine.rows("SELECT count(*) FROM sqlite_schema")
        if application != APPLICATION_ID and (application or version or tables):
            raise self._file.not_ours()

    @contextmanager
    def unit(self, write: bool = True) -> Iterator[Unit]:
        if os.getpid() != self._process:
            raise forks.inherited(self.path)
        if self._failure is not None:
            self._reopen(self._failure)
        elif time.monotonic() >= self._look_at:
            self._look()
        with self._transaction("BEGIN IMMEDIATE" if write else "BEGIN"):
            version = self._data_version()
            if version != self._cache.version:
                self._cache.is_of(version)
                self._engine.forget()
            session = Session(self._engine, self._origin, self._cache, limits=self.limits)
            yield SqlUnit(session)
            session.flush()
            if write:
                self._write_units += 1
                if self._write_units == _UNITS_BEFORE_LENGTHENING:
                    self._lengthen_log()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        try:
            self._begin(begin)
            try:
                yield
                self._engine.run("COMMIT")
            except BaseException:
                self._cache.clear()
                self._engine.forget()
                self._roll_back()
                raise
        except (StoreUnavailable, StoreCorrupt) as error:
            # Perhaps a sync has failed. What the kernel then holds in its cache need not be on the disk, and a
            # second sync of the same descriptor would say nothing about it. Nor is a store damaged for good because
            # a connection that has seen a failure says so.
            self._failure = error
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
        now = time.monotonic()
        if not self._waiting_since:
            self._waiting_since = now
        if now - self._waiting_since >= self._patience_s:
            return False
        time.sleep(_BUSY_NAP_S)
        return True

    def _look(self) -> None:
        """The next unit looks again when this raises, so a file that is put back is found at once."""
        self._refuse_gone()
        self._trouble.end(f"{self.path} is there again")
        self._look_at = time.monotonic() + _LOOK_S

    def _refuse_gone(self) -> None:
        try:
            self._file.refuse_gone()
        except StoreUnavailable as error:
            self._trouble.say(str(error))
            raise

    def _reopen(self, failure: Exception) -> None:
        """The store is good again when it could be written to: from a device that fails, reading may go on for long."""
        self._trouble.say(f"opening {self.path} anew after a failure: {failure}")
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

    def is_used_elsewhere(self) -> bool:
        """Whether anybody else has the file open: everybody who has holds a lock on it in share, so nobody gets it
        alone."""
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

    def has_room(self) -> bool:
        try:
            stat = os.statvfs(self.path.parent)
            if stat.f_bavail * stat.f_frsize >= self._reserve:
                return True
            # A file never shrinks; what was acked is room inside it.
            [(free_pages,)] = self._connection.execute("PRAGMA freelist_count").fetchall()
        except (OSError, apsw.Error):
            return True  # the unit itself will say what is wrong
        return bool(free_pages * _PAGE_BYTES >= self._reserve)  # type: ignore[operator]

    def changed_elsewhere(self) -> Container[str]:
        """SQLite does not say what was changed. But in a queue that holds no message, none can have become ready."""
        try:
            version = self._data_version()
            if version == self._seen_version:
                return ()
            changed = AllBut({name for (name,) in self._connection.execute(_EMPTY_QUEUES, (limits.WAITERS,))})
        except apsw.Error:
            return ()
        self._seen_version = version
        return changed

    def _data_version(self) -> int:
        """Changes when another connection has committed, and never by our own commits."""
        [(version,)] = self._connection.execute("PRAGMA data_version").fetchall()
        return int(version)  # type: ignore[arg-type]

    def close(self) -> None:
        if os.getpid() == self._process:
            self._let_go()

    def _let_go(self, force: bool = False) -> None:
        with suppress(apsw.Error):
            self._connection.close(force)
        forks.note_closed(self._connection)
        self._file.note_closed()
