"""The store, as all producers and consumers of one client share it.

One lock lets one thread at a time use it. Consumers that wait for messages of a queue are woken when a unit of this
client has made some ready, or the store says that another process may have.

What its units count goes into the figures of the store with one of them every few seconds, and at the end: other
batches do not pay for it. A thread for it would be one more that a fork cuts off.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock import names
from penstock.clock import Clock
from penstock.errors import InvalidRequest, InvalidSetting, PenstockError
from penstock.gq.timings import GqTimings
from penstock.model import Dedup, Happened, Settings
from penstock.stores import open_store
from penstock.stores.figures import merge
from penstock.stores.kinds import find_kind
from penstock.stores.protocol import Consumers, Unit, needed

log = logging.getLogger("penstock.gq")

_NEEDED = "gq needs a SQL store: sqlite:///PATH, postgresql://HOST/DATABASE or mariadb://…"


class Access:
    def __init__(self, url: str, clock: Clock, timings: GqTimings) -> None:
        kind = find_kind(url) if isinstance(url, str) else None
        if kind is None or "consumers" in kind.missing:
            raise InvalidSetting(_NEEDED)
        if not kind.is_shared:
            raise InvalidSetting(f"{_NEEDED}; {kind.name} cannot be shared by processes")
        self.timings = timings
        self._clock = clock
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._store = open_store(url, lanes=1)
        self._waiting: dict[threading.Event, str] = {}
        self._asked_at = 0.0
        self._closed = False
        # What has happened and is not in the figures of the store yet, and when they were last added to.
        self._happened: Happened = {}
        self._kept_at = float("-inf")

    @property
    def is_inherited(self) -> bool:
        """Whether this is a copy that a fork has made: its connection belongs to the parent."""
        return os.getpid() != self._process

    def refuse_if_inherited(self) -> None:
        """Before any lock is taken: a thread that the child does not have may hold it."""
        if self.is_inherited:
            raise InvalidRequest(
                "a client does not survive a fork: make one in each process, and on SQLite fork before any is made or "
                "start processes by 'spawn' or 'forkserver'"
            )

    def now(self) -> int:
        """By the clock that all processes of the store share."""
        return self._clock() + self._store.ahead_ms

    @contextmanager
    def unit(self, write: bool = True) -> Iterator[tuple[Unit, int]]:
        """The verbs, and the time."""
        self.refuse_if_inherited()
        with self._lock:
            if self._closed:
                raise InvalidRequest("the client is closed")
            with self._store.unit(write) as unit:
                yield unit, self.now()
                ready = unit.stirred | unit.sent_to
                happened = dict(self._happened)
                merge(happened, unit.happened)
                keeps = write and bool(happened) and time.monotonic() - self._kept_at >= self.timings.figures_s
                if keeps:
                    unit.figures.add(happened, self.now())
            # Only now has it happened.
            self._happened = {} if keeps else happened
            if keeps:
                self._kept_at = time.monotonic()
        if ready:
            self._wake(ready)

    # Figures

    def _keep_figures(self) -> None:
        """With the lock, at the end. A store that does not take them has other worries."""
        if self._happened:
            try:
                with self._store.unit() as unit:
                    unit.figures.add(self._happened, self.now())
            except PenstockError as error:
                log.warning("the last figures of queues are not kept: %s", error)

    # Waiting

    @contextmanager
    def waiting(self, queue: str) -> Iterator[threading.Event]:
        """An event that is set when the queue may have new messages."""
        woken = threading.Event()
        with self._lock:
            self._waiting[woken] = queue
        try:
            yield woken
        finally:
            with self._lock:
                del self._waiting[woken]

    def listen(self) -> None:
        """Wake those who wait for queues in which other processes may have made messages ready."""
        with self._lock:
            if self._closed or time.monotonic() - self._asked_at < self.timings.ask_s:
                return
            self._asked_at = time.monotonic()
            changed = self._store.changed_elsewhere()
            for woken, queue in self._waiting.items():
                if queue in changed:
                    woken.set()

    def _wake(self, queues: set[str]) -> None:
        with self._lock:
            for woken, queue in self._waiting.items():
                if queue in queues:
                    woken.set()

    def close(self) -> None:
        if self.is_inherited:
            return
        with self._lock:
            if not self._closed:
                self._keep_figures()
                self._store.close()
            self._closed = True


def consumers_of(unit: Unit) -> Consumers:
    return needed(unit.consumers, "consumers")


def settings_of(queue: str) -> Settings:
    """Of a queue that comes into being here."""
    return Settings(dedup=Dedup.CLAIM) if queue.startswith(names.DEDUP_SPACE) else Settings()
