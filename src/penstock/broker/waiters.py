"""Claims that found nothing and wait for a message."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from penstock.broker.operations import Claim


class Waiters:
    """Per queue, in the order of arrival."""

    def __init__(self) -> None:
        self._by_queue: dict[str, OrderedDict[Claim, None]] = {}
        self._last_seen: dict[str, Any] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Claim]:
        return (claim for claims in self._by_queue.values() for claim in claims)

    def queues(self) -> list[str]:
        return list(self._by_queue)

    def add(self, claim: Claim) -> None:
        """It comes with what it has seen, which counts for all who wait for the queue."""
        self._by_queue.setdefault(claim.queue, OrderedDict())[claim] = None
        self._last_seen[claim.queue] = claim.result
        self._count += 1

    def last_seen(self, queue: str) -> Any:
        """What is told to those whose time is over: no messages, or why nobody could look."""
        return self._last_seen.get(queue, [])

    def put_first(self, claims: Sequence[Claim]) -> None:
        """Give claims that wait, in their order of arrival, back the place they had before they were taken."""
        for claim in reversed(claims):
            waiting = self._by_queue.get(claim.queue)
            if waiting is not None and claim in waiting:  # it may have been called off meanwhile
                waiting.move_to_end(claim, last=False)

    def has(self, queue: str) -> bool:
        return queue in self._by_queue

    def remove(self, claim: Claim) -> bool:
        """False when it was not waiting any more."""
        claims = self._by_queue.get(claim.queue)
        if claims is None or claim not in claims:
            return False
        del claims[claim]
        self._count -= 1
        if not claims:
            del self._by_queue[claim.queue]
            del self._last_seen[claim.queue]
        return True

    def take(self, queue: str, count: int | None = None) -> list[Claim]:
        """The first `count` who wait for a queue, or all of them; they wait no more."""
        claims = list(islice(self._by_queue.get(queue, ()), count))
        for claim in claims:
            self.remove(claim)
        return claims
