"""The edge's end of a bridge: it numbers calls, and tells their answers to those who wait for them.

Calls of one iteration of the event loop leave in one frame. While the committer is behind, they are kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from msgspec import DecodeError, Raw

from penstock.bridge.calls import AckCall, Calls, ClaimAnswer, ClaimCall, SendCall, VerbCall, decode_answers, encode
from penstock.bridge.failures import error_of
from penstock.bridge.frames import BrokenBridge, FrameReader, FrameWriter
from penstock.bridge.verbs import VERBS
from penstock.errors import StoreUnavailable
from penstock.model import Draft, Message, Receipt, Sent, Settings
from penstock.pending import Pending

log = logging.getLogger(__name__)

# Calls with so many bytes of bodies do not wait for the turn to end.
_ENOUGH_BYTES: Final = 1 << 22


class EdgeEnd:
    """One protocol of asyncio, for one life of the committer. `lost` is called when the bridge has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lost: Callable[[EdgeEnd], object]) -> None:
        self._loop = loop
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self._writer = FrameWriter()
        self._number = 0
        self._pending: dict[int, Pending[Any]] = {}
        # Of calls by name, how their results are read.
        self._results: dict[int, Callable[[Any], Any]] = {}
        self._sends: list[SendCall] = []
        self._claims: list[ClaimCall] = []
        self._acks: list[AckCall] = []
        self._verbs: list[VerbCall] = []
        self._called_off: list[int] = []
        # Claims that were called off and are not answered yet.
        self._abandoned: set[int] = set()
        self._bytes = 0
        self._scheduled = False
        # While the committer is behind, calls are kept, and not yet made into frames.
        self._choked = False
        self._held: deque[Calls] = deque()

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    # Calls

    def send(self, queue: str, drafts: Sequence[Draft], create_as: Settings | None) -> Pending[list[Sent]]:
        pending, number = self._begin()
        self._sends.append(SendCall(number, queue, drafts, create_as))  # type: ignore[arg-type]
        for draft in drafts:
            self._bytes += len(draft.body)
        if self._bytes > _ENOUGH_BYTES:
            self._flush()
        return pending

    def claim(self, queue: str, limit: int, hold_ms: int | None, wait_ms: int) -> Pending[list[Message]]:
        pending, number = self._begin()
        self._claims.append(ClaimCall(number, queue, limit, hold_ms, wait_ms))
        if wait_ms:
            pending.on_cancel = partial(self._call_off, number)
        return pending

    def ack(self, receipts: Sequence[Receipt]) -> Pending[list[bool]]:
        pending, number = self._begin()
        self._acks.append(AckCall(number, receipts))  # type: ignore[arg-type]
        return pending

    def call(self, verb: str, arguments: tuple[Any, ...]) -> Pending[Any]:
        encoded = encode(arguments)
        pending, number = self._begin()
        self._verbs.append(VerbCall(number, verb, Raw(encoded)))
        self._results[number] = VERBS[verb].read_result
        self._bytes += len(encoded)
        if self._bytes > _ENOUGH_BYTES:
            self._flush()
        return pending

    def _begin(self) -> tuple[Pending[Any], int]:
        self._number = number = self._number + 1
        pending: Pending[Any] = Pending()
        self._pending[number] = pending
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._leave)
        return pending, number

    def _call_off(self, number: int) -> bool:
        """The caller of a claim has gone. Whether it is too late is known in the other process only, and the answer
        tells: it comes in any case."""
        self._called_off.append(number)
        self._abandoned.add(number)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._leave)
        return False

    def _leave(self) -> None:
        self._scheduled = False
        if not self._choked:
            self._flush()

    def _flush(self) -> None:
        calls = Calls(self._sends, self._claims, self._acks, self._verbs, self._called_off)
        self._sends, self._claims, self._acks, self._verbs, self._called_off = [], [], [], [], []
        self._bytes = 0
        if self._choked:
            self._held.append(calls)
        else:
            self._write(calls)

    def _write(self, calls: Calls) -> None:
        if self._transport is None:
            return
        try:
            self._transport.write(self._writer.frame(calls))
        except Exception as error:
            # Those who have made these calls must not wait forever.
            log.error("the bridge to the committer has broken: %r", error)
            self.close()

    # The protocol

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for content in self._reader.feed(data):
                self._take(content)
        except (BrokenBridge, DecodeError, KeyError) as error:
            log.error("the bridge to the committer has broken: %r", error)
            self.close()

    def eof_received(self) -> None:
        """The committer has gone."""

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._lost(self)
        pending, self._pending = self._pending, {}
        for one in pending.values():
            self._tell(one, gone())

    def pause_writing(self) -> None:
        self._choked = True

    def resume_writing(self) -> None:
        self._choked = False
        while self._held and not self._choked:
            self._write(self._held.popleft())
        self._leave()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _take(self, content: memoryview) -> None:
        answers = decode_answers(content)
        pending = self._pending
        for sent in answers.sent:
            self._tell(pending.pop(sent.number), sent.sent)
        for claimed in answers.claimed:
            if claimed.number in self._abandoned:
                self._give_back(claimed)
            self._tell(pending.pop(claimed.number), claimed.messages)
        for acked in answers.acked:
            self._tell(pending.pop(acked.number), acked.acked)
        for told in answers.verbs:
            value = self._results.pop(told.number)(told.value)
            self._tell(pending.pop(told.number), value)
        for failed in answers.failed:
            self._results.pop(failed.number, None)
            self._abandoned.discard(failed.number)
            self._tell(pending.pop(failed.number), error_of(failed))

    def _give_back(self, claimed: ClaimAnswer) -> None:
        """What was claimed before the call-off got across: its caller has gone, and others need not wait for it."""
        self._abandoned.discard(claimed.number)
        if claimed.messages:
            receipts = [Receipt(message.id, message.claim, message.queue) for message in claimed.messages]
            self.call("release", (receipts, 0))

    @staticmethod
    def _tell(pending: Pending[Any], result: Any) -> None:
        """A listener that fails must not keep the others from being told."""
        try:
            if isinstance(result, Exception):
                pending.reject(result)
            else:
                pending.resolve(result)
        except Exception:
            log.exception("a listener has failed on a result")


def gone() -> StoreUnavailable:
    return StoreUnavailable("the process that writes to the store has ended; another one takes over soon")
