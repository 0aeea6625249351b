"""The file of a SQLite store: made for its owner alone, told from the files of others, and missed when it is gone.

Nothing here opens the file past SQLite: closing such a descriptor would drop every lock that SQLite holds on the file
for this process.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from pathlib import Path

import apsw

from penstock.errors import StoreForeign, StoreUnavailable
from penstock.stores.sql import schema
from penstock.stores.sql.engines.forks import Inode, refuse_inherited

APPLICATION_ID = int.from_bytes(b"Pnst", "big")
# The file's own header, and that of the list of tables behind it.
_HEADER_BYTES = 108
_MODE = 0o600
# Kept free for claims and acks: sends stop before the device is full.
_RESERVE_BYTES = 32 * 1024 * 1024
_RESERVE_SHARE = 8


class SqliteFile:
    def __init__(self, path: Path) -> None:
        # Absolute, because SQLite keeps a file called ":memory:" nowhere.
        self.path = path.absolute()
        # SQLite follows links, and keeps its other files beside the file itself.
        self.real_path = os.path.realpath(self.path)
        self._seen: dict[str, Inode] = {}

    def prepare(self) -> None:
        """Make the file unless it is there. Raise for one that is not ours, before SQLite has had a chance to touch
        it."""
        make_folder(Path(self.real_path).parent)
        self._make()
        refuse_inherited(self.path, self.inode())
        self._refuse_foreign()

    def examine(self) -> None:
        """The same for a file that is only read: it is not made."""
        refuse_inherited(self.path, self.inode())
        self._refuse_foreign()

    def _make(self) -> None:
        """SQLite gives its log the mode of the file, so that one rule holds for all. A file that is there keeps the
        mode it was given."""
        try:
            os.mknod(self.real_path, stat.S_IFREG | _MODE)
        except FileExistsError:
            pass
        except OSError as error:
            raise StoreUnavailable(f"{self.path} cannot be made: {error.strerror}") from error

    def inode(self) -> Inode:
        try:
            return _inode(self.real_path)
        except OSError as error:
            raise StoreUnavailable(f"{self.path} cannot be read: {error.strerror}") from error

    def _refuse_foreign(self) -> None:
        """The first hundred bytes of a SQLite file carry its application id and its schema version. A file of ours that
        was cut off before its first checkpoint is still without tables: then all is in the WAL beside it, or nothing
        has been stored yet."""
        header = self._header()
        if not header:
            return
        if len(header) < _HEADER_BYTES or not header.startswith(b"SQLite format 3\x00"):
            raise StoreForeign(f"{self.path} is not a SQLite database; nothing was changed in it")
        [version] = struct.unpack(">I", header[60:64])
        [application] = struct.unpack(">I", header[68:72])
        # Page 1 is the root of the list of tables: a leaf without cells is an empty list.
        has_tables = header[100:101] != b"\x0d" or header[103:105] != b"\x00\x00"
        if application == 0 and version == 0 and not has_tables:
            return
        if application != APPLICATION_ID:
            raise self.not_ours()
        schema.missing("sqlite", version)

    def _header(self) -> bytes:
        """Read through SQLite's own layer of files, which keeps a descriptor for as long as this process has locks."""
        try:
            found = os.stat(self.real_path)
            if not stat.S_ISREG(found.st_mode):
                what = "a directory" if stat.S_ISDIR(found.st_mode) else "not a plain file"
                raise StoreUnavailable(f"{self.path} cannot be read: it is {what}")
            if not os.access(self.real_path, os.R_OK, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
            file = apsw.VFSFile("unix", self.real_path, flags)
            try:
                return file.xRead(min(_HEADER_BYTES, found.st_size), 0)
            finally:
                file.xClose()
        except OSError as error:
            raise StoreUnavailable(f"{self.path} cannot be read: {error.strerror}") from error
        except apsw.Error as error:
            raise StoreUnavailable(f"{self.path} cannot be read: {error}") from error

    def not_ours(self) -> StoreForeign:
        return StoreForeign(f"{self.path} is a SQLite database, but not one of Penstock's; nothing was changed in it")

    # Whether it is still there

    def note_opened(self) -> Inode:
        """What was opened just now is what must be there from now on."""
        names = [self.real_path, f"{self.real_path}-wal", f"{self.real_path}-shm"]
        try:
            self._seen = {name: _inode(name) for name in names}
        except OSError as error:
            raise StoreUnavailable(f"{self.path} cannot be read: {error.strerror}") from error
        return self._seen[self.real_path]

    def note_closed(self) -> None:
        """From now on another process may delete the log, once it has folded it into the file."""
        self._seen = {name: inode for name, inode in self._seen.items() if name == self.real_path}

    def refuse_gone(self) -> None:
        """What is written to a file that has lost its name is lost as well."""
        for name, inode in self._seen.items():
            try:
                what = "" if _inode(name) == inode else "has been replaced"
            except FileNotFoundError:
                what = "has been deleted or moved"
            except OSError as error:
                what = f"cannot be found any more ({error.strerror})"
            if what:
                raise StoreUnavailable(
                    f"{name} {what} while the store was in use: put the same file back, or stop every program that "
                    "uses the store and start again"
                )


def _inode(path: str) -> Inode:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def reserve(folder: Path) -> int:
    """How many bytes of its device a store leaves free."""
    device = os.statvfs(folder)
    return min(_RESERVE_BYTES, device.f_blocks * device.f_frsize // _RESERVE_SHARE)


def sync_folder(folder: Path) -> None:
    """What was made or renamed in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder so that it survives a power cut: its parent is synced as well."""
    if folder.exists():
        return
    try:
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)
    except OSError as error:
        raise StoreUnavailable(f"the folder {folder} cannot be made: {error.strerror}") from error
