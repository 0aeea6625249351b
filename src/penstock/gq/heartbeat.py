"""The thread that gives signs of life while a callback runs, and reports the outcomes that a slow one keeps waiting."""

from __future__ import annotations

import logging
import threading
import time

from penstock.errors import PenstockError, TryAgain
from penstock.gq.backoff import Backoff
from penstock.gq.membership import Membership
from penstock.gq.timings import GqTimings

log = logging.getLogger("penstock.gq")


class Heartbeat:
    def __init__(self, membership: Membership, every_s: float, timings: GqTimings) -> None:
        self._membership = membership
        self._every_s = every_s
        self._report_s = timings.report_s
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._backoff = Backoff("a heartbeat", timings)
        self._thread = threading.Thread(target=self._run, name="penstock-gq-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def wake(self) -> None:
        """Messages are at hand: look after their outcomes as well."""
        if not self._wake.is_set():
            self._wake.set()

    def _run(self) -> None:
        beat_at = time.monotonic() + self._every_s
        while not self._stopping.is_set():
            self._rest(beat_at)
            beat = time.monotonic() >= beat_at
            if self._stopping.is_set() or not (beat or self._membership.is_report_due):
                continue
            try:
                self._membership.exchange(beat=beat)
            except TryAgain as error:
                beat_at = time.monotonic() + min(self._every_s, self._backoff.failed(error))
            except PenstockError:
                # The thread that runs the callbacks meets it too, and can raise it.
                log.exception("a heartbeat failed")
                beat_at = time.monotonic() + self._every_s
            else:
                self._backoff.worked()
                if beat:
                    beat_at = time.monotonic() + self._every_s

    def _rest(self, beat_at: float) -> None:
        seconds = max(0.0, beat_at - time.monotonic())
        if self._membership.is_holding:
            self._stopping.wait(min(seconds, self._report_s))
        elif self._wake.wait(seconds):
            self._wake.clear()
