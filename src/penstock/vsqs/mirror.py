"""The names in a queue's directory by state, ordered so that the first is found quickly.

It knows nothing of where names come from. Adding a name twice or taking away one that is not there changes nothing:
a listing and the events that overlap it may report the same thing twice.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from penstock.vsqs import names
from penstock.vsqs.names import READY, UNFINISHED

# Heaps are cleared of what is gone when that is more than half of them, and not worth it below this.
_FEW = 256


class Mirror:
    def __init__(self) -> None:
        self.unfinished: set[int] = set()
        # Names made of a number and a foreign extension, by that number.
        self._strays: dict[int, set[str]] = {}
        # The greatest number ever seen on a message: it may have been deleted since.
        self.highest = -1
        self._ready: set[int] = set()
        # By number. Almost always one instant; two when two messages share a number.
        self._claims: dict[int, tuple[int, ...]] = {}
        self._claim_count = 0
        # Heaps that may hold what is gone, and hold again what came back.
        self._order: list[int] = []
        self._untils: list[tuple[int, int]] = []

    def __len__(self) -> int:
        """Messages, ready or claimed."""
        return len(self._ready) + self._claim_count

    def is_taken(self, number: int) -> bool:
        """Whether there is a file of this number that is not being written."""
        return number in self._ready or number in self._claims or number in self._strays

    def see(self, name: str) -> None:
        """A name has appeared in the directory."""
        if (parsed := names.parse(name)) is not None:
            self.add(*parsed)
        elif (number := names.stray_number(name)) is not None:
            self._strays.setdefault(number, set()).add(name)

    def forget(self, name: str) -> None:
        """A name has gone from the directory."""
        if (parsed := names.parse(name)) is not None:
            self.discard(*parsed)
        elif (number := names.stray_number(name)) in self._strays:
            self._strays[number].discard(name)
            if not self._strays[number]:
                del self._strays[number]

    def replace(self, listing: Iterable[str]) -> None:
        """Forget everything but the highest number, and hold these."""
        ready: list[int] = []
        claims: list[tuple[int, int]] = []
        self.unfinished = set()
        self._strays = {}
        for name in listing:
            parsed = names.parse(name)
            if parsed is None:
                self.see(name)
                continue
            number, state = parsed
            if state == READY:
                ready.append(number)
            elif state == UNFINISHED:
                self.unfinished.add(number)
            else:
                claims.append((state, number))
        # What is sorted is a heap.
        ready.sort()
        claims.sort()
        self._ready, self._order, self._untils = set(ready), ready, claims
        self._claims, self._claim_count = {}, len(claims)
        for until, number in claims:
            self._claims[number] = (*self._claims.get(number, ()), until)
        self.highest = max(self.highest, ready[-1] if ready else -1, max(self._claims, default=-1))

    def add(self, number: int, state: int) -> None:
        if state == UNFINISHED:
            self.unfinished.add(number)
            return
        self.highest = max(self.highest, number)
        if state == READY:
            if number not in self._ready:
                self._ready.add(number)
                heapq.heappush(self._order, number)
                if len(self._order) > 2 * len(self._ready) + _FEW:
                    self._order = sorted(self._ready)
        elif state not in self._claims.get(number, ()):
            self._claims[number] = (*self._claims.get(number, ()), state)
            self._claim_count += 1
            heapq.heappush(self._untils, (state, number))
            if len(self._untils) > 2 * self._claim_count + _FEW:
                self._untils = sorted((until, number) for number, untils in self._claims.items() for until in untils)

    def discard(self, number: int, state: int) -> None:
        if state == UNFINISHED:
            self.unfinished.discard(number)
        elif state == READY:
            if number in self._ready:
                self._ready.remove(number)
                for until in self._claims.get(number, ()):
                    # Passed over by `first_until` as long as its number was taken.
                    heapq.heappush(self._untils, (until, number))
        elif state in (untils := self._claims.get(number, ())):
            left = tuple(until for until in untils if until != state)
            self._claim_count -= 1
            if left:
                self._claims[number] = left
            else:
                del self._claims[number]

    def oldest(self) -> int | None:
        """The ready message with the smallest number."""
        while self._order:
            if self._order[0] in self._ready:
                return self._order[0]
            heapq.heappop(self._order)
        return None

    def first_until(self) -> tuple[int, int] | None:
        """The claim that ends first, as (until, number), among those that can be made ready again.

        One whose number is ready at the same time cannot: it would replace the other message.
        """
        while self._untils:
            until, number = self._untils[0]
            if until in self._claims.get(number, ()) and number not in self._ready:
                return until, number
            heapq.heappop(self._untils)
        return None

    def name_of(self, number: int) -> str | None:
        """The file of a number, in any state: the claim that ends last if there are two, then a ready message, then
        one that is being written, then a stray."""
        if number in self._claims:
            return names.of(number, max(self._claims[number]))
        if number in self._ready:
            return names.of(number, READY)
        if number in self.unfinished:
            return names.of(number, UNFINISHED)
        return min(self._strays.get(number, ()), default=None)
