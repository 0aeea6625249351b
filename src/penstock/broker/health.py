"""Whether the store can be used, as a health check asks it."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from msgspec import Struct

from penstock.broker.commit import Commit, Units
from penstock.broker.queues import ListQueues
from penstock.errors import StoreFull
from penstock.limits import Limits
from penstock.pending import Pending
from penstock.stores.protocol import Unit


class ProveWritable(Struct, frozen=True):
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> None:
        unit.prove_writable()


class Health:
    """One proof every `prove_s` that the store can be written to is enough: between them, a look will do."""

    def __init__(self, commit: Commit, units: Units, loop: asyncio.AbstractEventLoop, prove_s: float) -> None:
        self._commit = commit
        self._units = units
        self._loop = loop
        self._prove_s = prove_s
        self._prove_at = 0.0

    def check(self) -> Pending[None]:
        if self._loop.time() < self._prove_at:
            return self._commit.work(ListQueues(0, 1)).map(lambda _page: None)
        return self._commit.work(ProveWritable()).map(self._proved)

    def check_room(self) -> Pending[bool]:
        return self.check().map(lambda _none: self._units.had_room, _is_not_full)

    def _proved(self, _none: None) -> None:
        self._prove_at = self._loop.time() + self._prove_s


def _is_not_full(error: Exception) -> bool:
    if isinstance(error, StoreFull):
        return False
    raise error
