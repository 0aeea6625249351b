"""The thread that gives signs of life while a callback runs, and settles what a slow one keeps waiting."""

from __future__ import annotations

import logging
import threading
import time

from penstock.errors import PenstockError, TryAgain
from penstock.gq.backoff import Backoff
from penstock.gq.member import SETTLE_S, Member

log = logging.getLogger("penstock.gq")


class Heart:
    def __init__(self, member: Member, every_s: float) -> None:
        self._member = member
        self._every_s = every_s
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._backoff = Backoff("a heartbeat")
        self._thread = threading.Thread(target=self._run, name="penstock-gq-heart", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def quicken(self) -> None:
        """There are messages at hand: look after their outcomes as well."""
        if not self._wake.is_set():
            self._wake.set()

    def _run(self) -> None:
        beat_at = time.monotonic() + self._every_s
        while not self._stopping.is_set():
            self._rest(beat_at)
            beat = time.monotonic() >= beat_at
            if self._stopping.is_set() or not (beat or self._member.is_settling_due):
                continue
            try:
                self._member.exchange(beat=beat)
            except TryAgain as error:
                beat_at = time.monotonic() + min(self._every_s, self._backoff.failed(error))
            except PenstockError:
                # Whoever runs the callbacks meets it too, and can raise it.
                log.exception("a heartbeat failed")
                beat_at = time.monotonic() + self._every_s
            else:
                self._backoff.worked()
                if beat:
                    beat_at = time.monotonic() + self._every_s

    def _rest(self, beat_at: float) -> None:
        seconds = max(0.0, beat_at - time.monotonic())
        if self._member.is_holding:
            self._stopping.wait(min(seconds, SETTLE_S))
        elif self._wake.wait(seconds):
            self._wake.clear()
