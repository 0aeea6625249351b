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
import struct
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import SystemRandom
from secrets import token_bytes

import apsw

from penstock import ids
from penstock.errors import (
    InvalidSetting,
    StoreBusy,
    StoreForeign,
    StoreUnavailable,
)
from penstock.stores.protocol import ALL_FEATURES, EVERYWHERE, Store, Unit
from penstock.stores.sql import migrations
from penstock.stores.sql.apsw_engine import ApswEngine, translated
from penstock.stores.sql.session import Cache, Session
from penstock.stores.sql.unit import SqlUnit

log = logging.getLogger(__name__)

APPLICATION_ID = int.from_bytes(b"Pnst", "big")
_OLDEST_SAFE_SQLITE = (3, 51, 3)

_PAGE_BYTES = 4096
# The file's own header, and that of the list of tables behind it.
_HEADER_BYTES = 108
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
# A server starts beside others that are at work, and nothing waits for it yet.
_OPENING_PATIENCE_S = 10.0


def open_sqlite(url: str, path: str, patience_ms: int) -> Store:
    """`path` is what follows `sqlite://`: `/relative/to/here.db`, or `//absolute/path.db`."""
    if not path.startswith("/") or len(path) < 2:
        raise InvalidSetting(f"a SQLite store is sqlite:///relative.db or sqlite:////absolute.db, not {url!r}")
    return SqliteStore(url, Path(path[1:]), patience_ms)


class SqliteStore:
    features = ALL_FEATURES
    inline = True
    lanes = 1
    ahead_ms = 0

    def __init__(self, url: str, path: Path, patience_ms: int = 10_000) -> None:
        if tuple(map(int, apsw.sqlite_lib_version().split("."))) < _OLDEST_SAFE_SQLITE:
            raise InvalidSetting(
                f"SQLite {apsw.sqlite_lib_version()} can corrupt shared files; 3.51.3 or later is needed"
            )
        self.url = url
        # Absolute, because SQLite keeps a file called ":memory:" nowhere.
        self.path = path = path.absolute()
        self._patience_s = max(_OPENING_PATIENCE_S, patience_ms / 1000)
        self._broken = False
        self._reserve = 0
        refuse_foreign(path)
        make_folder(path.parent)
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
            self._connection = apsw.Connection(str(self.path))
        except apsw.Error as error:
            raise translated(error) from error
        try:
            # Whoever is refused leaves the file and its WAL as they are.
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
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
            raise not_ours(self.path)

    @contextmanager
    def unit(self, write: bool = True) -> Iterator[Unit]:
        if self._broken:
            self._reopen()
        with self._transaction("BEGIN IMMEDIATE" if write else "BEGIN"):
            version = self._data_version()
            if version != self._cache.version:
                self._cache.is_of(version)
                self._engine.forget()
            session = Session(self._engine, self._origin, self._cache)
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
        except StoreUnavailable:
            # Perhaps a sync has failed. What the kernel then holds in its cache need not be on the disk, and a
            # second sync of the same descriptor would say nothing about it.
            self._broken = True
            raise

    def _lengthen_log(self) -> None:
        """Give the WAL its full length at once, while we hold the write lock.

        A sync that also has to record a new file length takes twice as long as one of blocks that are already there.
        SQLite trusts only frames whose checksums continue the chain, so zeros behind the last one mean nothing to it;
        it leaves such a tail itself whenever it starts the WAL over.
        """
        with suppress(OSError), Path(f"{self.path}-wal").open("r+b", buffering=0) as log_file:
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

    def _reopen(self) -> None:
        log.warning("opening the store anew after a failure: %s", self.path)
        with suppress(apsw.Error):
            self._connection.close(True)
        self._open()
        self._broken = False

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
        try:
            version = self._data_version()
        except apsw.Error:
            return ()
        changed = version != self._seen_version
        self._seen_version = version
        return EVERYWHERE if changed else ()

    def _data_version(self) -> int:
        """Changes when another connection has committed, and never by our own commits."""
        [(version,)] = self._connection.execute("PRAGMA data_version").fetchall()
        return int(version)  # type: ignore[arg-type]

    def close(self) -> None:
        with suppress(apsw.Error):
            self._connection.close()


def make_folder(folder: Path) -> None:
    """Create a folder so that it survives a power cut: its parent is synced as well."""
    if folder.exists():
        return
    try:
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(folder.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreUnavailable(f"the folder {folder} cannot be made: {error.strerror}") from error


def not_ours(path: Path) -> StoreForeign:
    return StoreForeign(f"{path} is a SQLite database, but not one of Penstock's; nothing was changed in it")


def refuse_foreign(path: Path) -> None:
    """Raise for a file that is not ours, before SQLite has had a chance to touch it.

    The first hundred bytes of a SQLite file carry its application id and its schema version. A file of ours
    that was cut off before its first checkpoint is still without tables: then all is in the WAL beside it, or
    nothing has been stored yet.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}") from error
    if not header:
        return
    if len(header) < _HEADER_BYTES or not header.startswith(b"SQLite format 3\x00"):
        raise StoreForeign(f"{path} is not a SQLite database; nothing was changed in it")
    [version] = struct.unpack(">I", header[60:64])
    [application] = struct.unpack(">I", header[68:72])
    # Page 1 is the root of the list of tables: a leaf without cells is an empty list.
    has_tables = header[100:101] != b"\x0d" or header[103:105] != b"\x00\x00"
    if application == 0 and version == 0 and not has_tables:
        return
    if application != APPLICATION_ID:
        raise not_ours(path)
    migrations.missing("sqlite", version)
