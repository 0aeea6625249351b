"""`penstock backup`: a copy of a SQLite store as it is at one moment, made while servers go on using the store.

SQLite's own way of copying a file, page by page, starts over whenever another process has written between two steps:
under constant writes it would never end. Here all steps belong to one read transaction, so the copy is of one moment
and takes as long as its pages do, whatever is written meanwhile. A reader of a WAL does not hold up writers, nor
checkpoints of what was there before it; but the WAL cannot start over while it reads, and grows by all that is written
in that time. `VACUUM INTO` needs such a transaction as well; it would rebuild every table and index, which takes
longer, and neither show how far it is nor stop when it is told to.

The copy has another name until it is complete and on the disk.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from penstock.errors import InvalidSetting, StoreUnavailable
from penstock.stores.kinds import kind_of
from penstock.stores.sql.engines.sqlite_file import reserve, sync_folder
from penstock.stores.sql.engines.sqlite_reading import reading

# Pages, done and in all.
Advance = Callable[[int, int], None]

# 4 MiB, as pages of 4 KiB.
_STEP_PAGES = 1024
# A sync of one file may wait for what others have written: no more than 16 MiB pile up before the servers' next one.
_STEPS_BEFORE_SYNC = 4
_MODE = 0o600
# The bytes of the header that tell a WAL from a rollback journal, and what the second is.
_JOURNAL_AT = 18
_ROLLBACK_JOURNAL = b"\x01\x01"
_OTHER_TOOLS = {"postgresql": "pg_dump", "postgres": "pg_dump", "mariadb": "mariadb-dump", "mysql": "mariadb-dump"}


@dataclass(frozen=True)
class BackupSummary:
    file: Path
    size: int
    seconds: float


def back_up(url: str, target: Path, advance: Advance, *, force: bool = False) -> BackupSummary:
    """Copy the store into one file, which must not be there unless `force` says so.

    Raises InvalidSetting where that cannot be begun; nothing was changed then. Whatever else it raises, the unfinished
    copy is removed, and a file that was there before is as it was.
    """
    started_at = time.monotonic()
    source = _source(url)
    _refuse_target(target, source, force)
    with reading(source) as store:
        size = int(store.pragma("page_count")) * int(store.pragma("page_size"))
        with _Partial(target).open() as partial:
            partial.refuse_without_room(size, source)
            _copy(store, partial, advance)
            _refuse_target(target, source, force)
            partial.finish()
    return BackupSummary(target, size, time.monotonic() - started_at)


def _source(url: str) -> Path:
    kind = kind_of(url)
    scheme = url.partition("://")[0]
    path = kind.path(url)
    if scheme != "sqlite":
        how = f"; back up the database with {_OTHER_TOOLS[scheme]}" if scheme in _OTHER_TOOLS else ""
        if scheme == "mqcore":
            how = "; its folder can be copied with every server stopped"
        raise InvalidSetting(f"'penstock backup' copies SQLite stores, not {kind.name}{how}")
    if path is None or not path.is_file():
        raise InvalidSetting(f"there is no store at {url}")
    return path


def _refuse_target(target: Path, source: Path, force: bool) -> None:
    store = os.path.realpath(source)
    if os.path.realpath(target) in (store, f"{store}-wal", f"{store}-shm", f"{store}-journal"):
        raise InvalidSetting("a store cannot be backed up into itself: name another file")
    if not target.parent.is_dir():
        raise InvalidSetting(f"there is no folder {target.parent}")
    if target.is_dir():
        raise InvalidSetting(f"{target} is a folder: name a file in it")
    if os.path.lexists(target) and not force:
        raise InvalidSetting(f"{target} is already there: name another file, or add --force to replace it")
    for log in (Path(f"{target}-wal"), Path(f"{target}-journal")):
        with suppress(FileNotFoundError):
            if log.stat().st_size:
                # SQLite would take it for the log of the copy, and spoil that.
                raise InvalidSetting(f"{log} is there: {target} is a store in use, or one that was not closed")


def _copy(store: apsw.Connection, partial: _Partial, advance: Advance) -> None:
    try:
        with closing(apsw.Connection(str(partial.path), flags=apsw.SQLITE_OPEN_READWRITE)) as copy:
            # The file has another name until it is complete: there is nothing to roll back.
            copy.pragma("journal_mode", "OFF")
            copy.pragma("synchronous", "OFF")
            with copy.backup("main", store, "main") as job:
                steps = 0
                while not job.done:
                    job.step(_STEP_PAGES)
                    steps += 1
                    if steps % _STEPS_BEFORE_SYNC == 0:
                        partial.sync()
                    advance(job.page_count - job.remaining, job.page_count)
    except apsw.FullError as error:
        raise StoreUnavailable(f"the device of {partial.path.parent} is full: no copy was made") from error
    except apsw.IOError as error:
        raise StoreUnavailable(f"the copy could not be written or the store not read: {error}") from error


class _Partial:
    """The copy while it is being made: `FILE.partial`, locked by the process that makes it. One that was left behind by
    a process that was killed is written over."""

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(f"{target.name}.partial")
        self._target = target
        self._descriptor = -1
        self._finished = False

    @contextmanager
    def open(self) -> Iterator[_Partial]:
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
        except OSError as error:
            raise InvalidSetting(f"{self.path} cannot be written: {error.strerror}") from error
        try:
            self._take()
            try:
                yield self
            finally:
                if not self._finished:
                    self.path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"the copy cannot be written to {self.path.parent}: {error.strerror}") from error
        finally:
            os.close(self._descriptor)

    def _take(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.path.samestat(os.fstat(self._descriptor), os.stat(self.path))
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        if not is_ours:
            raise InvalidSetting(f"another 'penstock backup' is writing {self.path}")
        os.fchmod(self._descriptor, _MODE)
        os.ftruncate(self._descriptor, 0)

    def refuse_without_room(self, size: int, source: Path) -> None:
        """Where the copy is on the device of the store, it must not take the room that the store keeps free: sends
        would stop."""
        folder = self.path.parent
        device = os.statvfs(folder)
        kept = reserve(folder) if os.stat(folder).st_dev == os.stat(source).st_dev else 0
        free = device.f_bavail * device.f_frsize
        if free < size + kept:
            raise StoreUnavailable(
                f"there is no room for the copy in {folder}: it takes {size:,} bytes"
                + (f", the store keeps {kept:,} free there" if kept else "")
                + f", and {free:,} are free"
            )

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def finish(self) -> None:
        """A rollback journal in its header makes the copy readable where nothing can be written beside it; a server
        that opens it changes that back. SQLite has closed the file: no lock is lost by writing past it."""
        os.pwrite(self._descriptor, _ROLLBACK_JOURNAL, _JOURNAL_AT)
        os.fsync(self._descriptor)
        os.replace(self.path, self._target)
        self._finished = True
        sync_folder(self._target.parent)
