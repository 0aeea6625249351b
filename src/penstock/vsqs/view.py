"""What one instance knows of its queue's directory.

With a watch, `refresh` reads the events since the last one, and the mirror is then what a listing would show; the
directory is listed once, after lost events, and now and then while a consumer finds nothing. Without a watch the
mirror is the last listing and what this instance has done since. It is renewed whenever the caller must be sure, and
otherwise when it is older than a few times what a listing costs, so a queue of any depth spends a bounded share of its
time on listings.

Used by one thread at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.inotify import Event
from penstock.vsqs import disk
from penstock.vsqs.mirror import Mirror
from penstock.vsqs.watch import APPEARED, Watch, open_watch

# Without a watch a listing is trusted for this many times what it has cost.
_TRUST = 4
# With one, a consumer that finds nothing still lists again this often: a mount may hide changes from the kernel's
# events in unforeseen ways, and then a message is late instead of stuck.
RECHECK_S = 5.0
# How long a waiting caller sleeps between two looks when nothing will wake it.
_POLL_S = (0.05, 1.0)
_POLL_SHARE = 20


class View:
    def __init__(self, directory: int, watched: bool, changed: Callable[[], None]) -> None:
        """`changed` is called when something new was seen: by then no event is left that could wake a sleeper."""
        self.mirror = Mirror()
        self._directory = directory
        self._watched = watched
        self._changed = changed
        self._watch: Watch | None = None
        self._listed_at: float | None = None
        self._cost_s = 0.0
        # What the mirror shows cannot be trusted: the next look lists.
        self._stale = True

    @property
    def descriptor(self) -> int | None:
        """Readable when the directory has changed; None without a watch."""
        return None if self._watch is None else self._watch.descriptor

    @property
    def patience_s(self) -> float:
        """How long a waiting caller may sleep before it must look again."""
        if self._watch is not None:
            return RECHECK_S
        least, most = _POLL_S
        return min(most, max(least, _POLL_SHARE * self._cost_s))

    def refresh(self, *, sure: bool = False) -> None:
        """See what others have done.

        With `sure`, the mirror shows everything that happened before this call; without, that is so with a watch,
        and otherwise it may be a few listings' time behind.
        """
        if self._watched and self._listed_at is None and self._watch is None:
            # Before the first listing, so that nothing happens between the two unseen.
            self._watch = open_watch(self._directory)
        if self._watch is not None and not self._stale:
            self._catch_up()
        elif sure or self._stale or self._is_older_than(_TRUST * self._cost_s):
            self._list()

    def recheck(self, since: float) -> bool:
        """For a caller that has looked since then and found nothing: True when it is worth looking again."""
        trusted_from = since if self._watch is None else since - RECHECK_S
        if self._listed_at is not None and self._listed_at >= trusted_from:
            return False
        self._list()
        return True

    def lost_race(self) -> None:
        """A file was not where the mirror had it: another process is at work. A watch reports what it did."""
        if self._watch is None:
            self._stale = True

    def _is_older_than(self, seconds: float) -> bool:
        return self._listed_at is None or time.monotonic() - self._listed_at > seconds

    def _catch_up(self) -> None:
        changes = self._changes()
        if changes is None:
            self._list()
        elif changes:
            self._apply(changes)
            self._changed()

    def _list(self) -> None:
        # Until this has succeeded, nothing is known.
        self._stale = True
        changes: list[Event] | None = None
        while changes is None:
            started = time.monotonic()
            self.mirror.replace(disk.list_files(self._directory))
            self._cost_s = time.monotonic() - started
            # Events that the listing has seen already do no harm: the last one about a name says how it is.
            changes = self._changes()
        self._apply(changes)
        self._listed_at = started
        self._stale = False
        self._changed()

    def _changes(self) -> list[Event] | None:
        if self._watch is None:
            return []
        changes = self._watch.changes()
        if self._watch.over:
            self.close()
        return changes

    def _apply(self, changes: list[Event]) -> None:
        mirror = self.mirror
        for _, mask, name in changes:
            if mask & APPEARED:
                mirror.see(name)
            else:
                mirror.forget(name)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
