"""Whether the store can be used, as a health check asks it."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from msgspec import Struct

from penstock.broker.commit import Commit
from penstock.broker.queues import ListQueues
from penstock.limits import Limits
from penstock.pending import Pending
from penstock.stores.protocol import Unit


class ProveWritable(Struct, frozen=True):
    writes: ClassVar[bool] = True

    def apply(self, unit: Unit, _now: int, _limits: Limits) -> None:
        unit.prove_writable()


class Health:
    """One proof every `prove_s` that the store can be written to is enough: between them, a look will do."""

    def __init__(self, commit: Commit, loop: asyncio.AbstractEventLoop, prove_s: float) -> None:
        self._commit = commit
        self._loop = loop
        self._prove_s = prove_s
        self._prove_at = 0.0

    def check(self) -> Pending[None]:
        if self._loop.time() < self._prove_at:
            return self._commit.work(ListQueues(0, 1)).map(lambda _page: None)
        return self._commit.work(ProveWritable()).map(self._proved)

    def _proved(self, _none: None) -> None:
        self._prove_at = self._loop.time() + self._prove_s
