"""A store in a database server, shared by any number of processes on any number of hosts.

What all such databases have in common: a bounded set of connections, a clock that all processes share, and the
database going away and coming back. A lost connection is replaced at the next unit; while the database cannot be
reached, units fail at once instead of each waiting for it.

One file because the connections and the store that lends them out decide together when a database is away.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import repeat
from typing import NamedTuple, Protocol

from penstock.clock import system_clock
from penstock.errors import PenstockError, StoreUnavailable
from penstock.ids import make_ids
from penstock.limits import Limits
from penstock.model import Draft, Happened, Sent
from penstock.stores.figures import SENT, count
from penstock.stores.protocol import Sending
from penstock.stores.sql.engine import Engine, RawSql, Row
from penstock.stores.sql.hints import Hints
from penstock.stores.sql.send import arriving, stores_plainly
from penstock.stores.sql.session import Cache, Session
from penstock.stores.sql.unit import SqlUnit

log = logging.getLogger(__name__)

# How long no unit tries again after the database could not be reached.
_REST_S = 0.5
# The database's time is asked for again when it was last told so long ago.
_TOLD_FOR_S = 1.0
# How often, and with which pause, others are looked for who have the store open.
_LOOKS_FOR_USERS = 40
_LOOK_FOR_USERS_S = 0.05
# Bodies that travel without a thread. More of them would keep the event loop for as long as they take to be copied.
_EXPRESS_BYTES = 1024 * 1024
# What a message takes beside its body and attributes.
_ROW_BYTES = 128
_UNREACHABLE = "the database cannot be reached; trying again soon"
# Rows of every tally, of which a connection counts in one: see the schema.
SLOTS = 64


class Answer(NamedTuple):
    """The database's time, the version of its queues, and the numbers of the messages it has stored; without numbers,
    nothing was stored."""

    now: int
    version: int
    seqs: Sequence[int]


class Sender(Protocol):
    """Stores messages in one exchange with the database, which is a transaction of its own. See `Sending`."""

    @property
    def descriptor(self) -> int: ...

    @property
    def is_writing(self) -> bool: ...

    def begin(self, version: int, rows: Sequence[Row]) -> bool:
        """Store rows of `ARRIVING`, with numbers that the database gives them, if its queues are still of this
        version. False where a unit is needed, because the connection was lost or a value is odd."""

    def go_on(self) -> bool: ...

    def end(self) -> Answer | None:
        """None where the database has refused, and the connection can still be used. Raises StoreUnavailable where the
        connection is lost."""


class NetworkEngine(Engine, Protocol):
    @property
    def sender(self) -> Sender | None:
        """None where the driver can only wait."""

    def begin(self, write: bool) -> tuple[int, int]:
        """Open a transaction, and tell the database's time and the version of its queues."""

    def commit(self) -> None: ...

    def roll_back(self) -> None: ...

    def close(self) -> None: ...

    def probe_other_users(self) -> bool:
        """See `SqlStore`."""


class Watch(Protocol):
    """Word of other processes that have made messages ready. It works in a thread of its own."""

    def tell(self, queues: set[str]) -> None:
        """We have made messages ready in these queues."""

    def changed(self) -> Container[str]: ...

    def close(self) -> None: ...


class Database(Protocol):
    """One kind of database server, at one address."""

    def connect(self) -> NetworkEngine: ...

    def exists(self) -> bool:
        """Whether there is a store at the address; nothing is made."""

    def prepare(self) -> tuple[str, bytes]:
        """Bring the schema up to date, and tell the origin and the secret of the store."""

    def watch(self) -> Watch: ...


class Link:
    """A connection, what was read through it that is still true, and the unit it serves."""

    __slots__ = ("cache", "engine", "session", "unit")

    def __init__(self, engine: NetworkEngine, origin: str, limits: Limits, hints: Hints) -> None:
        self.engine = engine
        self.cache = Cache()
        self.session = Session(engine, origin, self.cache, limits, hints)
        self.unit = SqlUnit(self.session)


class LinkExpress:
    """Sends on the way over a link, which comes back to the store with their end."""

    __slots__ = ("_link", "_sender", "_sends", "_sent_at", "_store", "happened")

    def __init__(
        self,
        store: NetworkStore,
        link: Link,
        sender: Sender,
        sends: Sequence[tuple[str, Sequence[Draft]]],
        sent_at: int,
    ) -> None:
        self._store = store
        self._link = link
        self._sender = sender
        self._sends = sends
        self._sent_at = sent_at
        self.happened: Happened = {}
        for name, drafts in sends:
            count(self.happened, link.cache.queues[name].number, SENT, len(drafts))

    @property
    def descriptor(self) -> int:
        return self._sender.descriptor

    @property
    def is_writing(self) -> bool:
        return self._sender.is_writing

    def go_on(self) -> bool:
        return self._sender.go_on()

    def end(self) -> list[list[Sent]] | None:
        seqs = self._store.end_sends(self._link, self._sender, {queue for queue, _ in self._sends})
        if not seqs:
            return None
        sent = [Sent(made, True) for made in make_ids(self._link.session.origin, self._sent_at, seqs)]
        results = []
        start = 0
        for _, drafts in self._sends:
            end = start + len(drafts)
            results.append(sent[start:end])
            start = end
        return results


class NetworkStore:
    inline = False

    def __init__(
        self,
        url: str,
        database: Database,
        lanes: int,
        limits: Limits = Limits(),
        clock: Callable[[], int] = system_clock,
    ) -> None:
        self.url = url
        self.lanes = lanes
        self.limits = limits
        self.sync_seconds = 0.0
        self._counting = threading.Lock()
        self._clock = clock
        # The database's time, and when it was that by the clock that is never set.
        self._told: tuple[int, float] | None = None
        self._database = database
        self._lanes = threading.BoundedSemaphore(lanes)
        self._idle: list[Link] = []
        self._hints = Hints()
        self._resting_until = 0.0
        self._closed = False
        self._watch: Watch | None = None
        self._watch_lock = threading.Lock()
        self._origin, self.secret = database.prepare()

    @property
    def ahead_ms(self) -> int:
        """Setting this machine's clock while a unit is open does not change the time of the others."""
        if self._told is None:
            return 0
        now, at = self._told
        return now + round((time.monotonic() - at) * 1000) - self._clock()

    @contextmanager
    def unit(self, write: bool = True) -> Iterator[SqlUnit]:
        with self._lanes:
            link = self._begin(write)
            session = link.session
            try:
                yield link.unit
                session.flush()
                began = time.perf_counter()
                link.engine.commit()
            except BaseException as error:
                self._abandon(link, error)
                raise
            if write:
                with self._counting:
                    self.sync_seconds += time.perf_counter() - began
            # Before another unit has the connection.
            stirred = session.stirred | session.sent_to
            self._keep(link)
        self._tell(stirred)

    def begin_sends(self, sends: Sequence[tuple[str, Sequence[Draft]]], now: int) -> Sending | None:
        if self._told is None or time.monotonic() - self._told[1] > _TOLD_FOR_S:
            return None
        if not self._lanes.acquire(blocking=False):
            return None
        express = None
        try:
            express = self._begin_sends(sends, now)
        finally:
            if express is None:
                self._lanes.release()
        return express

    def _begin_sends(self, sends: Sequence[tuple[str, Sequence[Draft]]], now: int) -> Sending | None:
        try:
            link = self._idle.pop()
        except IndexError:
            return None
        sender = link.engine.sender
        has_begun = False
        try:
            if sender is not None:
                rows = _express_rows(link.cache, sends, now)
                if rows:
                    has_begun = sender.begin(link.cache.version, rows)
        finally:
            if not has_begun:
                self._keep(link)  # a unit finds out whether it is still connected
        return LinkExpress(self, link, sender, sends, now) if has_begun and sender is not None else None

    def end_sends(self, link: Link, sender: Sender, queues: set[str]) -> Sequence[int]:
        """The numbers of what was stored: all of it, or nothing."""
        try:
            answer = sender.end()
        except BaseException as error:
            self._abandon(link, error)
            self._lanes.release()
            raise
        if answer is not None:
            self._told = answer.now, time.monotonic()
            link.cache.keep_only(answer.version)
        self._keep(link)
        self._lanes.release()
        if answer is None or not answer.seqs:
            return ()
        self._tell(queues)
        return answer.seqs

    def _tell(self, queues: set[str]) -> None:
        if queues and not self._closed:
            # A hint that cannot be given must not look as if the unit had failed.
            with suppress(OSError, RuntimeError):
                self._watching().tell(queues)

    @contextmanager
    def raw(self, write: bool = True) -> Iterator[RawSql[Engine]]:
        with self.unit(write) as unit:
            yield RawSql(unit.session.engine)

    def _begin(self, write: bool) -> Link:
        """A connection may have been lost while it was idle: then another one is made."""
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                link = None
            if link is None:
                link = self._connect()
                self._start(link, write)
                return link
            try:
                self._start(link, write)
                return link
            except StoreUnavailable:
                self._close_idle()

    def _start(self, link: Link, write: bool) -> None:
        try:
            now, version = link.engine.begin(write)
        except BaseException as error:
            self._abandon(link, error)
            raise
        self._told = now, time.monotonic()
        link.cache.keep_only(version)
        link.session.begin()

    def _connect(self) -> Link:
        if time.monotonic() < self._resting_until:
            raise StoreUnavailable(_UNREACHABLE)
        try:
            return Link(self._database.connect(), self._origin, self.limits, self._hints)
        except PenstockError as error:
            self._resting_until = time.monotonic() + _REST_S
            # Where the database is, is for the log, not for the client that has sent a request.
            log.warning("%s", error)
            raise StoreUnavailable(_UNREACHABLE) from error

    def _abandon(self, link: Link, error: BaseException) -> None:
        """Nothing of the unit has happened, or, if the database went away at its very end, it is not known."""
        link.cache.clear()
        self._hints.forget()
        if not isinstance(error, StoreUnavailable):
            try:
                link.engine.roll_back()
            except PenstockError:
                pass
            else:
                self._keep(link)
                return
        link.engine.close()

    def _keep(self, link: Link) -> None:
        self._idle.append(link)
        if self._closed:  # while the unit was open
            self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().engine.close()

    def _watching(self) -> Watch:
        with self._watch_lock:
            if self._watch is None:
                self._watch = self._database.watch()
            return self._watch

    def probe_other_users(self) -> bool:
        """The database may still see those who have just left: it is asked again before one is taken for a user."""
        for _ in range(_LOOKS_FOR_USERS - 1):
            if not self._has_other_users():
                return False
            time.sleep(_LOOK_FOR_USERS_S)
        return self._has_other_users()

    def _has_other_users(self) -> bool:
        with self._lanes:
            link = self._begin(write=False)
            try:
                used = link.engine.probe_other_users()
                link.engine.commit()
            except BaseException as error:
                self._abandon(link, error)
                raise
            self._keep(link)
            return used

    def has_room(self) -> bool:
        """The database itself says when it is full."""
        return True

    def tidy(self) -> None:
        pass

    def changed_elsewhere(self) -> Container[str]:
        return self._watching().changed()

    def close(self) -> None:
        self._closed = True
        if self._watch is not None:
            self._watch.close()
        self._close_idle()


def _express_rows(cache: Cache, sends: Sequence[tuple[str, Sequence[Draft]]], now: int) -> list[Row] | None:
    """None where a queue is not known by heart, or wants more than an INSERT, or the bodies are too much."""
    rows: list[Row] = []
    room = _EXPRESS_BYTES
    for name, drafts in sends:
        queue = cache.queues.get(name)
        if queue is None or not stores_plainly(queue):
            return None
        for draft in drafts:
            room -= _ROW_BYTES + len(draft.body)
            for key, value in (draft.attributes or {}).items():
                room -= len(key) + len(value)
            if room < 0:
                return None
        # The database numbers them.
        rows += arriving(queue, repeat(0, len(drafts)), repeat(now, len(drafts)), drafts, now)
    return rows
