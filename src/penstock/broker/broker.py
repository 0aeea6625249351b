"""The broker in this process: every face speaks to it, and nothing else speaks to the store.

It is a door to three rooms: group commit (`commit.py`), long polls (`polls.py`) and what is done unasked
(`chores.py`). The contract of its verbs is in `protocol.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.broker.chores import Chores, ProveWritable
from penstock.broker.commit import Commit
from penstock.broker.keys import Keys
from penstock.broker.ledger import Exports, Ledger
from penstock.broker.messages import (
    AckPermitted,
    CountMessages,
    Peek,
    Purge,
    PurgeOlder,
    Release,
    ReleaseAll,
    Renew,
)
from penstock.broker.moves import Moves
from penstock.broker.queues import (
    CountQueues,
    CreateQueue,
    DeleteQueue,
    DescribeQueue,
    EnsureQueue,
    FindQueues,
    ListQueues,
    UpdateQueue,
)
from penstock.broker.shipments import Shipments
from penstock.clock import Clock
from penstock.model import (
    Count,
    CountedPage,
    Message,
    PeekAfter,
    Queue,
    QueueChange,
    QueuePage,
    QueueReport,
    Receipt,
    Settings,
)
from penstock.pending import Pending
from penstock.stores.protocol import Store
from penstock.timings import Timings


class LocalBroker:
    def __init__(
        self, store: Store, clock: Clock, loop: asyncio.AbstractEventLoop, timings: Timings = Timings()
    ) -> None:
        self.commit = Commit(store, clock, loop, timings, store.limits)
        # Bound once: these are called for every request.
        self.send = self.commit.send
        self.send_once = self.commit.send_once
        self.claim = self.commit.claim
        self.ack = self.commit.ack
        self._loop = loop
        self._prove_s = timings.prove_s
        self._prove_at = 0.0
        self._chores = Chores(self.commit, loop, timings)
        self.moves = Moves(self.commit, self._chores.carry_on)
        self.shipments = Shipments(self.commit)
        self.ledger = Ledger(self.commit)
        self.exports = Exports(self.commit)
        self.keys = Keys(self.commit)

    # Its life

    def start(self) -> None:
        self._chores.start()

    def stop(self) -> None:
        """Waiting claims end without a message; everything else that was accepted is still served."""
        self._chores.stop()
        self.commit.polls.stop()

    async def finish(self, grace_s: float) -> int:
        """After `stop`: begin no more units, and wait until none is open, but not longer than this. How many still are:
        a store that does not answer must not keep the process from ending."""
        return await self.commit.finish(grace_s)

    def check(self) -> Pending[None]:
        # One proof a second that the store can be written to is enough: between them, a look will do.
        if self._loop.time() < self._prove_at:
            return self.commit.work(ListQueues(0, 1)).map(lambda _page: None)

        def proved(_none: None) -> None:
            self._prove_at = self._loop.time() + self._prove_s

        return self.commit.work(ProveWritable()).map(proved)

    def waiting_claims(self) -> list[str]:
        """The queues of claims that wait for a message here, one entry each. Of this process alone, so it is not one of
        the verbs of `Broker`."""
        return [claim.queue for claim in self.commit.polls.waiters]

    # Messages; `send`, `send_once`, `claim` and `ack` are bound above

    def ack_permitted(self, receipts: Sequence[Receipt], rules: Sequence[str]) -> Pending[list[bool]]:
        return self.commit.work(AckPermitted(receipts, rules))

    def renew(self, receipts: Sequence[Receipt], hold_ms: int, shorten: bool = False) -> Pending[list[bool]]:
        return self.commit.work(Renew(receipts, hold_ms, shorten))

    def release(self, receipts: Sequence[Receipt], delay_ms: int | None = None) -> Pending[list[bool]]:
        return self.commit.work(Release(receipts, delay_ms))

    def release_all(self, queue: str) -> Pending[int]:
        return self.commit.work(ReleaseAll(queue))

    def purge(self, queue: str) -> Pending[int]:
        return self.commit.work(Purge(queue))

    def purge_older(self, queue: str, older_than_ms: int) -> Pending[int]:
        return self.commit.work(PurgeOlder(queue, older_than_ms))

    def peek(self, queue: str, limit: int, after: PeekAfter | None = None) -> Pending[list[Message]]:
        return self.commit.work(Peek(queue, limit, after))

    def count(self, queue: str) -> Pending[Count]:
        return self.commit.work(CountMessages(queue))

    # Queues

    def create_queue(self, name: str, settings: Settings) -> Pending[Queue]:
        return self.commit.work(CreateQueue(name, settings))

    def ensure_queue(self, name: str, settings: Settings) -> Pending[None]:
        return self.commit.work(EnsureQueue(name, settings))

    def update_queue(self, name: str, change: QueueChange, rules: Sequence[str] | None = None) -> Pending[Queue]:
        return self.commit.work(UpdateQueue(name, change, rules))

    def delete_queue(self, name: str) -> Pending[Queue]:
        return self.commit.work(DeleteQueue(name))

    def find_queues(self, names: Sequence[str]) -> Pending[list[Queue | None]]:
        return self.commit.work(FindQueues(names))

    def describe_queue(self, name: str, tally: bool = False) -> Pending[QueueReport]:
        return self.commit.work(DescribeQueue(name, tally))

    def list_queues(self, offset: int, limit: int) -> Pending[QueuePage]:
        return self.commit.work(ListQueues(offset, limit))

    def count_queues(self, offset: int, limit: int) -> Pending[CountedPage]:
        return self.commit.work(CountQueues(offset, limit))
