"""Sends that go to the store without a thread, where it has a way: see `stores.protocol.ExpressStore`.

The event loop watches the store's descriptor in between, as it does those of the callers. A thread would be woken for
every answer of the database, and each time the event loop would wait for the interpreter.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock.broker.counting import Counting
from penstock.broker.operations import Operation, Send, SendOnce, deal_out
from penstock.errors import StoreUnavailable
from penstock.stores import protocol

log = logging.getLogger(__name__)

# A store that has not answered for so long does not answer any more, or another has taken its place.
LONGEST_S = 65.0


class Express:
    """`now` is the time of the store."""

    def __init__(
        self,
        store: protocol.ExpressStore,
        now: Callable[[], int],
        loop: asyncio.AbstractEventLoop,
        counting: Counting,
    ) -> None:
        self._store = store
        self._now = now
        self._loop = loop
        self._counting = counting

    def begin(
        self,
        operations: list[Operation],
        served: Callable[[set[str]], object],
        serve_otherwise: Callable[[], object],
    ) -> bool:
        """Serve operations, and then call `served` with the queues that were stirred; or `serve_otherwise` where the
        store could not do it, and has done nothing. False where it cannot do it from the outset."""
        sends: dict[str, list[Send]] = {}
        for operation in operations:
            if not isinstance(operation, Send) or isinstance(operation, SendOnce):
                return False
            sends.setdefault(operation.queue, []).append(operation)
        # In one order everywhere, as in `operations.serve`.
        groups = sorted(sends.items())
        drafts = [(queue, [draft for send in group for draft in send.drafts]) for queue, group in groups]
        express = self._store.begin_sends(drafts, self._now())
        if express is None:
            return False
        trip = _Trip(self._loop, express, [group for _, group in groups], served, serve_otherwise, self._counting)
        trip.set_out()
        return True


class _Trip:
    """The way of some sends to the store and back."""

    __slots__ = (
        "_counting",
        "_descriptor",
        "_express",
        "_groups",
        "_is_writing",
        "_loop",
        "_serve_otherwise",
        "_served",
        "_timer",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        express: protocol.Sending,
        groups: list[list[Send]],
        served: Callable[[set[str]], object],
        serve_otherwise: Callable[[], object],
        counting: Counting,
    ) -> None:
        self._counting = counting
        self._loop = loop
        self._express = express
        self._groups = groups
        self._served = served
        self._serve_otherwise = serve_otherwise
        self._descriptor = express.descriptor
        self._is_writing = express.is_writing
        self._timer: asyncio.TimerHandle | None = None

    def set_out(self) -> None:
        self._loop.add_reader(self._descriptor, self._go_on)
        # Its end, without an answer, says that nothing is known of it.
        self._timer = self._loop.call_later(LONGEST_S, self._end)
        if self._is_writing:
            self._loop.add_writer(self._descriptor, self._go_on)

    def _go_on(self) -> None:
        try:
            ended = self._express.go_on()
        except Exception:
            # Its end says what is known of it.
            log.exception("sends have failed on their way")
            ended = True
        if ended:
            self._end()
        elif self._is_writing and not self._express.is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._descriptor)

    def _end(self) -> None:
        # Before the end: the descriptor may be closed there, and be another's at once.
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._descriptor)
        self._loop.remove_reader(self._descriptor)
        if self._timer is not None:
            self._timer.cancel()
        self._come_back()

    def _come_back(self) -> None:
        try:
            results = self._express.end()
        except Exception as error:
            if not isinstance(error, StoreUnavailable):
                log.exception("sends have failed")
            self._counting.erred(error)
            for group in self._groups:
                for send in group:
                    send.fail(error)
        else:
            if results is None:
                self._serve_otherwise()
                return
            for group, sent in zip(self._groups, results, strict=True):
                deal_out(sent, group)
            self._counting.add(self._express.happened)
        self._served(set())
