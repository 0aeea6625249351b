"""Where a lake is kept: whole files by name, on any storage that Arrow reaches.

A file appears in one step or not at all, whatever dies on the way. It is written in the lake's folder `_staging`, under
a name that no reader looks for. From there it is renamed, or, on object stores that cannot rename, copied by the store
itself, in one request. It is never streamed to its own name: Arrow's streams can only be closed, not given up, and one
that is closed after an error puts what it has. What has appeared is on stable media: a message is settled because of
it. Nothing here knows what is in a file, and nothing passes through the JVM.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from penstock.spark.errors import JobFailed

# Hadoop's names of what has another one elsewhere.
_ALIASES = {"s3a": "s3", "s3n": "s3"}
_S3 = ("s3", *_ALIASES)
_HADOOP = ("hdfs", "viewfs")
# Azure renames where an account has a hierarchical namespace, and refuses to elsewhere.
_RENAMING = ("file", *_HADOOP, "abfs", "abfss")
_STAGING = "_staging"
# A writer that is alive writes more often.
_ABANDONED_AFTER = timedelta(hours=1)
# Sent at the same time, in parts, and held in memory until they are.
_SENT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, order=True)
class StoredFile:
    """`path` is below the storage's root."""

    path: str
    bytes: int


@dataclass(frozen=True)
class Storage:
    """A folder and what is below it. It can be pickled: a task has the same one.

    What a storage needs to be told can follow its address as a query (`?region=eu-west-1`), but never a secret: it is
    shown, and kept by servers. Credentials come from the environment."""

    root: str

    @classmethod
    def at(cls, address: str) -> Storage:
        """Raises JobFailed for what cannot be an address."""
        if not address.strip():
            raise JobFailed("a lake needs a path")
        scheme = scheme_of(address)
        if scheme == "file":
            # Tasks may have another working directory.
            path = urlsplit(address).path if address.startswith("file:") else address
            return cls(str(Path(path).absolute()))
        base, mark, query = address.partition("?")
        _refuse_secrets(address)
        return cls(f"{base.rstrip('/')}{mark}{query}")

    @property
    def scheme(self) -> str:
        return scheme_of(self.root)

    @property
    def renames(self) -> bool:
        """Whether a file can be renamed in one step."""
        return self.scheme in _RENAMING

    def address(self, path: str = "") -> str:
        """As Spark and others are told it."""
        base = self.root if self.scheme == "file" else self.root.partition("?")[0]
        return f"{base}/{path}" if path else base

    def address_elsewhere(self, path: str = "") -> str:
        """As those are told it that do not know Hadoop's names."""
        return _elsewhere(self.address(path))

    # Reading

    def check(self) -> None:
        """Raises JobFailed where no store answers, or one that refuses."""
        if self.scheme == "file":
            return
        system, root = self._open()
        try:
            top = root.partition("/")[0]
            is_there = self.scheme in _HADOOP or system.get_file_info(top).type != fs.FileType.NotFound
            system.get_file_info(root)
        except (pa.ArrowException, OSError) as error:
            raise JobFailed(f"{self.address()} cannot be reached: {_line(error)}") from None
        if not is_there:
            raise JobFailed(f"{self.address()} cannot be reached: there is no {top}")

    def names(self, folder: str) -> list[str]:
        """Of the files and folders in a folder, sorted; none where it does not exist."""
        return sorted(info.base_name for info in self._list(folder, recursive=False) if info.base_name)

    def files(self, folder: str) -> list[StoredFile]:
        """Every file below a folder, sorted."""
        _, root = self._open()
        found = [info for info in self._list(folder, recursive=True) if info.type == fs.FileType.File]
        return sorted(StoredFile(_below(root, info.path), info.size or 0) for info in found)

    def size(self, path: str) -> int | None:
        """None where there is no such file."""
        system, root = self._open()
        info = system.get_file_info(f"{root}/{path}")
        return info.size if info.type == fs.FileType.File else None

    def read(self, path: str) -> bytes | None:
        """None where there is no such file."""
        system, root = self._open()
        try:
            with system.open_input_stream(f"{root}/{path}") as stream:
                data: bytes = stream.read()
                return data
        except FileNotFoundError:
            return None

    def open(self, path: str) -> pa.NativeFile:
        """To be read at any place."""
        system, root = self._open()
        return system.open_input_file(f"{root}/{path}")

    # Writing

    def put(self, path: str, data: bytes) -> None:
        with self.writing(path) as file:
            Path(file).write_bytes(data)

    @contextmanager
    def writing(self, path: str) -> Iterator[str]:
        """The name of a file on this machine to be written, which appears at `path` when that went well."""
        if self.scheme == "file":
            staged = f"{self.root}/{_STAGING}/{uuid4().hex}"
            Path(staged).parent.mkdir(parents=True, exist_ok=True)
            try:
                yield staged
                self._rename(staged, path)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(staged)
            return
        # Without a name of its own: it is gone with this process, whatever that dies of.
        with tempfile.TemporaryFile() as written:
            staged = f"/proc/self/fd/{written.fileno()}"
            yield staged
            self._send(staged, path)

    def remove(self, path: str) -> None:
        """A file that does not exist is fine."""
        system, root = self._open()
        with suppress(FileNotFoundError):
            system.delete_file(f"{root}/{path}")

    def remove_empty(self, folder: str) -> None:
        """Object stores have no folders, or only a marker for one."""
        if self.scheme == "file":
            with suppress(OSError):
                os.rmdir(f"{self.root}/{folder}")

    def sync(self, *paths: str) -> None:
        """Bring to stable media what others have written to these files; what object stores have is there already."""
        if self.scheme == "file":
            for path in paths:
                _sync(f"{self.root}/{path}")
            for folder in {path.rpartition("/")[0] for path in paths}:
                for made in (Path(self.root, folder), *_made_with(Path(self.root, folder), Path(self.root))):
                    _sync(str(made))

    def clear_staging(self, older_than: timedelta = _ABANDONED_AFTER) -> None:
        """What dead writers have left. One that is alive after all begins again."""
        system, _ = self._open()
        latest = datetime.now(UTC) - older_than
        for info in self._list(_STAGING, recursive=True):
            if info.type == fs.FileType.File and info.mtime is not None and info.mtime < latest:
                with suppress(FileNotFoundError):
                    system.delete_file(info.path)

    def _rename(self, staged: str, path: str) -> None:
        target = Path(self.root, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        _sync(staged)
        os.replace(staged, target)
        for made in (target.parent, *_made_with(target.parent, Path(self.root))):
            _sync(str(made))

    def _send(self, staged: str, path: str) -> None:
        system, root = self._open()
        target, beside = f"{root}/{path}", f"{root}/{_STAGING}/{uuid4().hex}"
        try:
            if self.renames:
                for folder in (f"{root}/{_STAGING}", target.rpartition("/")[0]):
                    system.create_dir(folder, recursive=True)
            _stream(staged, system, beside)
            if self.scheme in _HADOOP:
                # It renames to no name that is taken. What has it is the like of this file.
                with suppress(FileNotFoundError):
                    system.delete_file(target)
            if self.renames:
                system.move(beside, target)
            else:
                system.copy_file(beside, target)
        except NotImplementedError as error:
            raise JobFailed(f"{self.address()} cannot hold a lake: {_line(error)}") from None
        finally:
            with suppress(Exception):
                system.delete_file(beside)

    def _list(self, folder: str, recursive: bool) -> list[fs.FileInfo]:
        system, root = self._open()
        below = f"{root}/{folder}" if folder else root
        found: list[fs.FileInfo] = system.get_file_info(
            fs.FileSelector(below, allow_not_found=True, recursive=recursive)
        )
        return found

    def _open(self) -> tuple[fs.FileSystem, str]:
        return _opened(self.root)


def scheme_of(address: str) -> str:
    scheme, colon, _ = address.partition(":")
    return scheme.lower() if colon and "/" not in scheme else "file"


def _elsewhere(address: str) -> str:
    scheme = scheme_of(address)
    return address if scheme == "file" else _ALIASES.get(scheme, scheme) + address[len(scheme) :]


@cache
def _opened(root: str) -> tuple[fs.FileSystem, str]:
    scheme = scheme_of(root)
    if scheme == "file":
        return fs.LocalFileSystem(), root
    address = _elsewhere(root)
    if scheme in _S3:
        # A small file is then one request, not three.
        base, _, query = address.partition("?")
        address = f"{base}?{urlencode({'allow_delayed_open': 'true', **dict(parse_qsl(query))})}"
    try:
        system, path = fs.FileSystem.from_uri(address)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise JobFailed(f"no storage answers to {root}: {_line(error)}") from None
    return system, path.rstrip("/")


def _refuse_secrets(address: str) -> None:
    parts = urlsplit(address)
    named = [name for name, _ in parse_qsl(parts.query) if any(word in name for word in ("secret", "key", "token"))]
    if parts.password is not None or named or (parts.scheme in _S3 and parts.username is not None):
        raise JobFailed("a lake's address may not hold credentials: put them into the environment")


def _line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _below(root: str, path: str) -> str:
    return path.removeprefix(f"{root}/")


def _stream(staged: str, system: fs.FileSystem, path: str) -> None:
    with pa.memory_map(staged) as source, system.open_output_stream(path, compression=None) as sink:
        size = source.size()
        while data := source.read_buffer(_SENT_BYTES):
            sink.write(data)
            sink.flush()
    found = system.get_file_info(path).size
    if found != size:
        raise OSError(f"{path} has {found} bytes, not {size}")


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _made_with(folder: Path, root: Path) -> list[Path]:
    """The folders above one, up to that of the lake: any of them may be new."""
    return [parent for parent in folder.parents if parent == root or root in parent.parents]
