"""What happens to a published message: it is claimed, made ready again, removed.

Each is one change of one name, made with the instance's lock held and told to the mirror at once. The events that
follow about the same change do no harm. A race lost to another process shows as a file that is not there.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from penstock.vsqs import disk, names
from penstock.vsqs.names import READY
from penstock.vsqs.view import View

_MS = 1_000_000


class Claims:
    def __init__(self, directory: int, clock: Callable[[], int], renamer: disk.Renamer, view: View) -> None:
        self._directory = directory
        self._clock = clock
        self._renamer = renamer
        self._view = view

    def take(self, hold_ms: int, since: float) -> tuple[int, int] | None:
        """Claim the oldest message, or find that there is none: its number, and its open file.

        `since` is when the caller began to look.
        """
        self._view.refresh()
        while True:
            if self.requeue():
                # As after a new listing: what the others have made ready meanwhile may be older.
                self._view.refresh(sure=True)
                continue
            number = self._view.mirror.oldest()
            if number is None:
                if self._view.recheck(since):
                    continue
                return None
            descriptor = self._claim(number, hold_ms)
            if descriptor is not None:
                return number, descriptor
            self._view.refresh()

    def _claim(self, number: int, hold_ms: int) -> int | None:
        mirror = self._view.mirror
        try:
            # Before the rename, so that a link or a folder of that name is never touched.
            descriptor = disk.open_file(self._directory, str(number))
        except FileNotFoundError:
            descriptor = None
            self._view.lost_race()
        if descriptor is None:
            mirror.discard(number, READY)
            return None
        try:
            until = self._clock() // _MS + hold_ms
            while True:
                try:
                    self._renamer.rename(self._directory, str(number), names.of(number, until))
                    break
                except FileExistsError:
                    # Two messages have this number, and the other is claimed until the very same instant.
                    until += 1
        except FileNotFoundError:
            os.close(descriptor)
            mirror.discard(number, READY)
            self._view.lost_race()
            return None
        except BaseException:
            os.close(descriptor)
            raise
        mirror.discard(number, READY)
        mirror.add(number, until)
        return descriptor

    def requeue(self) -> bool:
        """Make every message ready whose claim has run out. Whether there was one."""
        mirror = self._view.mirror
        found = False
        now = self._clock() // _MS
        while (first := mirror.first_until()) is not None and first[0] <= now:
            until, number = first
            claimed = names.of(number, until)
            found = True
            if disk.modified_ns(self._directory, claimed) is None:
                # Gone, or replaced by a foreign link or folder.
                mirror.discard(number, until)
                continue
            try:
                self._renamer.rename(self._directory, claimed, str(number))
            except FileNotFoundError:
                mirror.discard(number, until)
                continue
            except FileExistsError:
                # Two messages have this number: this one has to wait until the other is claimed.
                mirror.add(number, READY)
                continue
            mirror.discard(number, until)
            mirror.add(number, READY)
        return found

    def remove(self, number: int) -> bool:
        mirror = self._view.mirror
        sure = False
        while True:
            name = mirror.name_of(number)
            if name is not None:
                mirror.forget(name)
                if disk.modified_ns(self._directory, name) is not None and disk.remove(self._directory, name):
                    return True
            elif sure:
                return False
            # Its name may have changed under our eyes, or this instance has never seen it.
            self._view.refresh(sure=True)
            sure = True
