"""A store of plain files, exactly as MQ-Core lays them out, shared by any number of processes and hosts.

    new/queue:id ──► queues/queue/id ──fetch──► delay/queue:id ──time──► queues/queue/id
                          └── delete, from any of the three ──► remove/queue:id ──► gone

The process that renames a file first has it: correctness needs nothing else, and a process may die at any point. A
unit writes all its files, syncs them, moves them, and syncs every folder it has touched once.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom

from penstock.errors import InvalidSetting
from penstock.limits import Limits
from penstock.model import Sizes
from penstock.stores.figures import FigureBook
from penstock.stores.mqcore.cursor import Relisting
from penstock.stores.mqcore.folders import Folders, translated
from penstock.stores.mqcore.mover import GRACE_S, Mover
from penstock.stores.mqcore.reaper import Reaper
from penstock.stores.mqcore.round import Round
from penstock.stores.mqcore.state import State
from penstock.stores.mqcore.syncs import Syncs
from penstock.stores.mqcore.unit import MqCoreUnit
from penstock.stores.protocol import Unit

log = logging.getLogger(__name__)

# Kept free for claims and acks, whose moves may need room in the folders: sends stop before the device is full.
_RESERVE_BYTES = 16 * 1024 * 1024
_RESERVE_SHARE = 16


@dataclass(frozen=True, slots=True)
class MqCoreOptions:
    """`peers` are the other processes that fetch from the same store. Without `daemons`, mq-mover and mq-reaper
    redeliver and destroy. `grace_s` is how long a message in `new` is left to its writer. With one of
    `sync_threads`, syncs come one after the other. `relisting` says how often a folder that others change is listed."""

    peers: int = 0
    daemons: bool = True
    grace_s: float = GRACE_S
    sync_threads: int = 16
    relisting: Relisting = Relisting()


def open_mqcore(url: str, path: str, options: MqCoreOptions, limits: Limits = Limits()) -> MqCoreStore:
    """`path` is what follows `mqcore://`: `/relative/folder`, or `//absolute/folder`."""
    return MqCoreStore(url, folder_of(url, path), options, SystemRandom(), limits)


def folder_of(url: str, path: str) -> Path:
    if not path.startswith("/") or len(path) < 2:
        raise InvalidSetting(
            f"an MQ-Core store is mqcore:///relative/folder or mqcore:////absolute/folder, not {url!r}"
        )
    return Path(path[1:]).absolute()


class MqCoreStore:
    secret = b""
    # A unit waits for as many syncs as it has files: the event loop must not.
    inline = False
    lanes = 1
    ahead_ms = 0

    def __init__(self, url: str, root: Path, options: MqCoreOptions, random: Random, limits: Limits = Limits()) -> None:
        self.url = url
        self.limits = limits
        self.sync_seconds = 0.0
        self.root = root
        self._options = options
        self._random = random
        mover = Mover(options.grace_s) if options.daemons else None
        figures = FigureBook(measure=self._sizes)
        self.state = State(random, mover, Reaper() if options.daemons else None, figures)
        self._syncs = Syncs(options.sync_threads)
        self._broken = False
        self._open()

    def _open(self) -> None:
        self._folders = Folders(self.root, self._options.peers, self._random, self._options.relisting)
        stat = os.statvfs(self.root)
        self._reserve = min(_RESERVE_BYTES, stat.f_blocks * stat.f_frsize // _RESERVE_SHARE)
        if self.state.mover is not None:
            self.state.mover.delays.refresh(self._folders.delay)

    @contextmanager
    def unit(self, write: bool = True) -> Iterator[Unit]:
        if self._broken:
            self._reopen()
        self._folders.forget_some()
        round_ = Round(self._folders, self._syncs)
        unit = MqCoreUnit(self.state, round_, self.limits)
        try:
            yield unit
            unit.end()
            began = time.perf_counter()
            round_.commit()
            if write:
                self.sync_seconds += time.perf_counter() - began
        except OSError as error:
            # Perhaps a sync has failed. What the kernel then holds in its cache need not be on the disk, and a second
            # sync of the same descriptor would say nothing about it.
            self._broken = True
            round_.roll_back()
            raise translated(error) from error
        except BaseException:
            round_.roll_back()
            raise

    def _reopen(self) -> None:
        log.warning("opening the store again after a failure: %s", self.root)
        self._folders.close()
        try:
            self._open()
        except OSError as error:
            raise translated(error) from error
        self._broken = False

    def has_room(self) -> bool:
        try:
            stat = os.statvfs(self.root)
        except OSError:
            return True  # the unit itself will say what is wrong
        # A file system without a number of inodes has no end of them.
        return stat.f_bavail * stat.f_frsize >= self._reserve and (stat.f_favail > 0 or stat.f_files == 0)

    def _sizes(self) -> Sizes:
        """To add up its files would take as long as there are many."""
        stat = os.statvfs(self.root)
        return Sizes(free_bytes=stat.f_bavail * stat.f_frsize)

    def tidy(self) -> None:
        pass

    def changed_elsewhere(self) -> Container[str]:
        """No claim waits on this store, so this is never asked."""
        return ()

    def close(self) -> None:
        if self.state.claimed:
            log.info("%d messages were fetched; %d times another was faster", self.state.claimed, self.state.lost)
        self._syncs.close()
        self._folders.close()
