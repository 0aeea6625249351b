"""Word between servers on one PostgreSQL database: `LISTEN` and `NOTIFY`, on a connection of their own.

Nothing depends on it: a notice is sent after the commit it tells of, many queues in one, and may be lost together with
its connection. Whoever waits looks for himself from time to time.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable, Container
from contextlib import suppress

import msgspec
import psycopg

from penstock.errors import PenstockError
from penstock.stores.changes import EVERYWHERE
from penstock.stores.sql.engine import Row

log = logging.getLogger(__name__)

# Notices of a busy server are gathered for so long; all notices of a database pass through one lock.
_GATHER_S = 0.01
_RETRY_S = 1.0
_SLEEP_MS = 30_000
# A database that hangs keeps the thread, and must not keep whoever ends.
_END_S = 1.0
# PostgreSQL takes 8,000 bytes. A longer list of queues means: look everywhere.
_PAYLOAD_BYTES = 7_900
_ALL = ""


class NoticeWatch:
    def __init__(self, connect: Callable[[], psycopg.Connection[Row]], channel: str) -> None:
        self._connect = connect
        self._channel = channel
        self._lock = threading.Lock()
        self._to_tell: set[str] = set()
        self._heard: set[str] = set()
        self._heard_of_all = False
        self._stopping = threading.Event()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._thread = threading.Thread(target=self._run, name="penstock-notices", daemon=True)
        self._thread.start()

    def tell(self, queues: set[str]) -> None:
        with self._lock:
            is_first = not self._to_tell
            self._to_tell |= queues
            if is_first and not self._stopping.is_set():
                self._wake()

    def changed(self) -> Container[str]:
        if not self._heard_of_all and not self._heard:
            return ()
        with self._lock:
            heard, self._heard = self._heard, set()
            everywhere, self._heard_of_all = self._heard_of_all, False
        return EVERYWHERE if everywhere else heard

    def close(self) -> None:
        with self._lock:
            self._stopping.set()
            self._wake()
        self._thread.join(_END_S)
        if not self._thread.is_alive():
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._connect() as connection:
                    self._listen(connection)
            except (PenstockError, psycopg.Error, OSError) as error:
                if not self._stopping.is_set():
                    log.warning("word from other servers comes late: %s", str(error).strip())
            self._stopping.wait(_RETRY_S)

    def _listen(self, connection: psycopg.Connection[Row]) -> None:
        # A notice is no data: its commit need not wait for the disk.
        connection.execute("SET synchronous_commit = off")
        connection.execute(f"LISTEN {self._channel}")
        self._heard_of_all = True  # whatever was said before we listened
        poll = select.poll()  # and not select, which knows no descriptor above 1,023
        poll.register(connection.fileno(), select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while not self._stopping.is_set():
            # Both before we sleep: what an earlier connection has not said wakes nobody any more, and what has come
            # while we spoke is with the driver already.
            self._say(connection)
            self._hear(connection)
            if self._wake_read in dict(poll.poll(_SLEEP_MS)):
                os.read(self._wake_read, 4096)

    def _hear(self, connection: psycopg.Connection[Row]) -> None:
        own = connection.info.backend_pid
        for notice in connection.notifies(timeout=0):
            if notice.pid != own:
                try:
                    queues = msgspec.json.decode(notice.payload, type=list[str])
                except msgspec.MsgspecError:  # too many to tell, or not in our words
                    self._heard_of_all = True
                else:
                    with self._lock:
                        self._heard.update(queues)

    def _say(self, connection: psycopg.Connection[Row]) -> None:
        with self._lock:
            queues, self._to_tell = self._to_tell, set()
        if queues:
            encoded = msgspec.json.encode(sorted(queues))
            payload = encoded.decode() if len(encoded) <= _PAYLOAD_BYTES else _ALL
            try:
                connection.execute("SELECT pg_notify(%s, %s)", (self._channel, payload))
            except psycopg.Error:
                with self._lock:
                    self._to_tell |= queues
                raise
            self._stopping.wait(_GATHER_S)
