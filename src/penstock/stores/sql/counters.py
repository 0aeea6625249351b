"""Word between servers on a database that sends none: while somebody asks, a counter is looked at."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Container
from contextlib import closing
from typing import Any

import pymysql

from penstock.errors import PenstockError
from penstock.stores.changes import EVERYWHERE

log = logging.getLogger(__name__)

_LOOK_S = 0.1
_RETRY_S = 1.0
# Nobody waits who has not asked for so long.
_ASKED_S = 1.0
# A database that hangs keeps the thread, and must not keep whoever ends.
_END_S = 1.0


class CounterWatch:
    """The sum over queue 0 grows with every unit, of whatever process, that has made messages ready."""

    def __init__(self, connect: Callable[[], pymysql.Connection[Any]]) -> None:
        self._connect = connect
        self._asked_at = 0.0
        self._asked = threading.Event()
        self._changed = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-counters", daemon=True)
        self._thread.start()

    def tell(self, queues: set[str]) -> None:
        """The counter has told it already."""

    def changed(self) -> Container[str]:
        self._asked_at = time.monotonic()
        self._asked.set()
        changed, self._changed = self._changed, False
        return EVERYWHERE if changed else ()

    def close(self) -> None:
        self._stopping.set()
        self._asked.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._asked.wait()
            if self._stopping.is_set():
                return
            try:
                with closing(self._connect()) as connection:
                    connection.autocommit(True)
                    self._look(connection)
            except (PenstockError, pymysql.Error, OSError) as error:
                log.warning("word from other servers comes late: %s", error)
                self._stopping.wait(_RETRY_S)

    def _look(self, connection: pymysql.Connection[Any]) -> None:
        seen: object = None
        with connection.cursor() as cursor:
            while not self._stopping.is_set():
                cursor.execute("SELECT sum(arrived) FROM tally WHERE queue = 0")
                found = cursor.fetchone()
                if found != seen:
                    seen, self._changed = found, True
                self._stopping.wait(_LOOK_S)
                if time.monotonic() - self._asked_at > _ASKED_S:
                    self._asked.clear()
                    if not self._stopping.is_set():  # else nobody would ask again
                        self._asked.wait()
