"""Destroys what is in `remove`: files of messages, and whole folders of deleted queues.

The only place where a message is unlinked. Nothing is synced: what a power cut brings back is still in `remove`.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from errno import ENOTEMPTY

from penstock.stores.mqcore.folders import Folders
from penstock.stores.mqcore.freshness import Freshness
from penstock.stores.mqcore.paths import parse

log = logging.getLogger(__name__)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Reaper:
    def __init__(self) -> None:
        self._names: list[str] = []
        self._freshness = Freshness()

    def reap(self, folders: Folders, limit: int, monotonic: float) -> int:
        """Destroy up to about `limit` messages; how many."""
        if not self._names:
            self._freshness.look(folders.remove, monotonic)
            if self._freshness.is_stale:
                self._names = [name for name in os.listdir(folders.remove) if parse(name)]
                self._freshness.listed(monotonic)
        reaped = 0
        while self._names and reaped < limit:
            name = self._names.pop()
            try:
                os.unlink(name, dir_fd=folders.remove)
                reaped += 1
            except FileNotFoundError:
                pass
            except (IsADirectoryError, PermissionError):
                reaped += self._reap_folder(folders, name, limit - reaped)
        return reaped

    def _reap_folder(self, folders: Folders, name: str, limit: int) -> int:
        reaped = 0
        try:
            descriptor = os.open(name, _FOLDER, dir_fd=folders.remove)
        except FileNotFoundError:
            return 0
        try:
            names = os.listdir(descriptor)
            for inner in names[:limit]:
                with suppress(FileNotFoundError):
                    os.unlink(inner, dir_fd=descriptor)
                    reaped += 1
        except (IsADirectoryError, PermissionError):
            log.warning("remove/%s holds something that is not a message; it stays", name)
            return reaped
        finally:
            os.close(descriptor)
        if len(names) > limit:
            self._names.append(name)
            return reaped
        try:
            os.rmdir(name, dir_fd=folders.remove)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno != ENOTEMPTY:
                raise
            self._names.append(name)  # a send was under way when the queue was deleted
        return reaped + 1
