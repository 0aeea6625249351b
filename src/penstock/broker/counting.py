"""What the units of this process have done, until it is added to the store; and how they fared.

Units may run in threads: what they report is taken in under a lock, once a unit.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import islice
from operator import add
from threading import Lock

from penstock.errors import PenstockError
from penstock.model import Happened
from penstock.stores.figures import merge

# Ends of units of which the median is told.
_LATEST = 1_000


class Counting:
    def __init__(self) -> None:
        self._lock = Lock()
        # Not taken yet; and taken, but not known to be in the store.
        self._fresh: Happened = {}
        self._on_the_way: list[Happened] = []
        self._commit_s: deque[float] = deque(maxlen=_LATEST)
        self._errors: Counter[str] = Counter()
        self.unit_seconds = 0.0
        self.commit_seconds = 0.0
        self.units_written = 0

    # What has happened

    def add(self, happened: Happened) -> None:
        if happened:
            with self._lock:
                merge(self._fresh, happened)

    def take(self, limit: int) -> Happened:
        """What has happened in up to so many queues, those first that have waited longest. It is on its way until it
        has `arrived` or `failed`."""
        with self._lock:
            taken = dict(islice(self._fresh.items(), limit))
            for queue in taken:
                del self._fresh[queue]
            if taken:
                self._on_the_way.append(taken)
        return taken

    def arrived(self, taken: Happened) -> None:
        with self._lock:
            self._let_go(taken)

    def failed(self, taken: Happened) -> None:
        """It has not arrived: it goes again with the next."""
        with self._lock:
            self._let_go(taken)
            waiting, self._fresh = self._fresh, dict(taken)
            merge(self._fresh, waiting)

    def _let_go(self, taken: Happened) -> None:
        self._on_the_way = [one for one in self._on_the_way if one is not taken]

    def unkept(self) -> Happened:
        """What has happened and is not known to be in the store."""
        with self._lock:
            unkept = dict(self._fresh)
            for taken in self._on_the_way:
                merge(unkept, taken)
        return unkept

    # How units fared

    def ended(self, began: float, committing: float, ended: float, writes: bool, happened: Happened) -> None:
        """Instants of one unit: its beginning, the beginning of its end, and its end; and what has happened in it."""
        with self._lock:
            self.unit_seconds += ended - began
            if writes:
                self.commit_seconds += ended - committing
                self.units_written += 1
                self._commit_s.append(ended - committing)
            fresh = self._fresh
            for queue, counts in happened.items():
                # As `merge`, whose call a request need not pay for.
                known = fresh.get(queue)
                fresh[queue] = counts if known is None else list(map(add, known, counts))

    def erred(self, error: Exception) -> None:
        kind = type(error).__name__ if isinstance(error, PenstockError) else "other"
        with self._lock:
            self._errors[kind] += 1

    def errors(self) -> dict[str, int]:
        with self._lock:
            return dict(self._errors)

    def commit_ms(self) -> tuple[float, float]:
        """The median of the latest, and what one in a hundred exceeds."""
        with self._lock:
            latest = sorted(self._commit_s)
        if not latest:
            return 0.0, 0.0
        return latest[len(latest) // 2] * 1000, latest[len(latest) * 99 // 100] * 1000
