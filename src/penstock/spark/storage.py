"""Where a lake is kept: whole files by name, on any storage that Arrow reaches.

A file appears in one step or not at all, whatever dies on the way. On disks and on HDFS it is written elsewhere in the
lake, under a name that no reader looks for, and renamed; on object stores, where a rename is a copy that can be seen
half done, it is written on this machine and put as a whole. What has appeared is on stable media: a message is settled
because of it. Nothing here knows what is in a file, and nothing passes through the JVM.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from penstock.spark.errors import JobFailed

# Hadoop's names of what has another one elsewhere.
_ALIASES = {"s3a": "s3", "s3n": "s3"}
_ON_DISK = ("file", "hdfs", "viewfs")
_STAGING = "_staging"
_COPIED_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, order=True)
class StoredFile:
    """`path` is below the storage's root."""

    path: str
    bytes: int


@dataclass(frozen=True)
class Storage:
    """A folder and what is below it. It can be pickled: a task has the same one."""

    root: str

    @classmethod
    def at(cls, address: str) -> Storage:
        """Raises JobFailed for an address that no storage has."""
        if not address.strip():
            raise JobFailed("a lake needs a path")
        scheme = scheme_of(address)
        if scheme == "file":
            # Tasks may have another working directory.
            path = urlsplit(address).path if address.startswith("file:") else address
            return cls(str(Path(path).absolute()))
        storage = cls(address.rstrip("/"))
        storage._open()
        return storage

    @property
    def scheme(self) -> str:
        return scheme_of(self.root)

    @property
    def renames(self) -> bool:
        """Whether a file can be renamed in one step."""
        return self.scheme in _ON_DISK

    def address(self, path: str = "") -> str:
        """As Spark and others are told it."""
        return f"{self.root}/{path}" if path else self.root

    def address_elsewhere(self, path: str = "") -> str:
        """As those are told it that do not know Hadoop's names."""
        scheme = self.scheme
        return (
            self.address(path) if scheme == "file" else _ALIASES.get(scheme, scheme) + self.address(path)[len(scheme) :]
        )

    # Reading

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
        else:
            handle, staged = tempfile.mkstemp(prefix="penstock-")
            os.close(handle)
        try:
            yield staged
            self._publish(staged, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(staged)

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

    def clear_staging(self) -> None:
        """What dead writers have left. One that is alive after all begins again."""
        system, root = self._open()
        if self.renames:
            with suppress(FileNotFoundError):
                system.delete_dir(f"{root}/{_STAGING}")

    def _publish(self, staged: str, path: str) -> None:
        if self.scheme == "file":
            target = Path(self.root, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            _sync(staged)
            os.replace(staged, target)
            for made in (target.parent, *_made_with(target.parent, Path(self.root))):
                _sync(str(made))
            return
        system, root = self._open()
        if not self.renames:
            _copy(staged, system, f"{root}/{path}")
            return
        beside = f"{root}/{_STAGING}/{uuid4().hex}"
        for folder in (f"{root}/{_STAGING}", f"{root}/{path}".rpartition("/")[0]):
            system.create_dir(folder, recursive=True)
        _copy(staged, system, beside)
        system.move(beside, f"{root}/{path}")

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


@cache
def _opened(root: str) -> tuple[fs.FileSystem, str]:
    scheme = scheme_of(root)
    if scheme == "file":
        return fs.LocalFileSystem(), root
    try:
        system, path = fs.FileSystem.from_uri(Storage(root).address_elsewhere())
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise JobFailed(f"no storage answers to {root}: {str(error).splitlines()[0]}") from None
    return system, path.rstrip("/")


def _below(root: str, path: str) -> str:
    return path.removeprefix(f"{root}/")


def _copy(staged: str, system: fs.FileSystem, path: str) -> None:
    """What an object store was given in part never appears if this process dies. If it goes on, Arrow completes what
    it has begun: that is taken away."""
    try:
        with open(staged, "rb") as source, system.open_output_stream(path, compression=None) as sink:
            shutil.copyfileobj(source, sink, _COPIED_BYTES)
    except BaseException:
        with suppress(Exception):
            system.delete_file(path)
        raise


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _made_with(folder: Path, root: Path) -> list[Path]:
    """The folders above one, up to that of the lake: any of them may be new."""
    return [parent for parent in folder.parents if parent == root or root in parent.parents]
