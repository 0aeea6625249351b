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

from penstock.bridge.calls import AckCall, Calls, ClaimCall, SendCall, VerbCall, decode_answers, encode
from penstock.bridge.failures import error_of
from penstock.bridge.frames import BrokenBridge, FrameReader, FrameWriter
from penstock.bridge.verbs import VERBS
from penstock.errors import CommitterGone, StoreSilent, StoreUnavailable
from penstock.model import Draft, Message, Receipt, Sent, Settings
from penstock.pending import Pending, rejected

log = logging.getLogger(__name__)

# Calls with so many bytes do not wait for the iteration to end.
_ENOUGH_BYTES: Final = 1 << 22
# What is kept while the committer is behind: beyond, calls are refused.
_MOST_BYTES: Final = 1 << 26
_MOST_CALLS: Final = 50_000
# About what a call takes beside its bodies, and a receipt in it.
_CALL_BYTES: Final = 128
_RECEIPT_BYTES: Final = 64


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
        # Claims that may be repeated.
        self._with_attempt: set[int] = set()
        # Claims that may wait: since when, and until when.
        self._waiting: dict[int, tuple[float, float]] = {}
        self._is_silent = False
        self._bytes = 0
        self._scheduled = False
        # While the committer is behind, calls are kept, and not yet made into frames.
        self._choked = False
        self._held: deque[Calls] = deque()
        self._held_bytes = 0

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    # Calls

    def send(self, queue: str, drafts: Sequence[Draft], create_as: Settings | None) -> Pending[list[Sent]]:
        if self._is_full():
            return _refused()
        size = _CALL_BYTES
        for draft in drafts:
            size += len(draft.body)
            if draft.attributes:
                size += sum(map(len, draft.attributes.values()))
        pending, number = self._begin(size)
        self._sends.append(SendCall(number, queue, drafts, create_as))  # type: ignore[arg-type]
        if self._bytes > _ENOUGH_BYTES:
            self._flush()
        return pending

    def claim(
        self, queue: str, limit: int, hold_ms: int | None, wait_ms: int, attempt: str | None
    ) -> Pending[list[Message]]:
        if self._is_full():
            return _refused()
        pending, number = self._begin(_CALL_BYTES)
        self._claims.append(ClaimCall(number, queue, limit, hold_ms, wait_ms, attempt))
        if wait_ms:
            pending.on_cancel = partial(self._call_off, number)
            now = self._loop.time()
            self._waiting[number] = now, now + wait_ms / 1000
        if attempt is not None:
            self._with_attempt.add(number)
        return pending

    def ack(self, receipts: Sequence[Receipt]) -> Pending[list[bool]]:
        if self._is_full():
            return _refused()
        pending, number = self._begin(_RECEIPT_BYTES * len(receipts))
        self._acks.append(AckCall(number, receipts))  # type: ignore[arg-type]
        if self._bytes > _ENOUGH_BYTES:
            self._flush()
        return pending

    def call(self, verb: str, arguments: tuple[Any, ...]) -> Pending[Any]:
        if self._is_full():
            return _refused()
        encoded = encode(arguments)
        pending, number = self._begin(len(encoded))
        self._verbs.append(VerbCall(number, verb, Raw(encoded)))
        self._results[number] = VERBS[verb].read_result
        if self._bytes > _ENOUGH_BYTES:
            self._flush()
        return pending

    def call_within(self, verb: str, arguments: tuple[Any, ...], seconds: float) -> Pending[Any]:
        """Rejected where there is no answer by then."""
        told: Pending[Any] = Pending()
        is_told = False

        def tell(result: Any) -> None:
            nonlocal is_told
            if not is_told:
                is_told = True
                timer.cancel()
                self._tell(told, result)

        late = StoreUnavailable("the process that writes to the store does not answer")
        timer = self._loop.call_later(seconds, tell, late)
        self.call(verb, arguments).listen(tell, tell)
        return told

    def give_up(self, why: str, since: float) -> None:
        """The committer does not answer: tell the callers, all but claims that have waited since then or longer. They
        go on waiting until their time is over. What comes of a call all the same is not told to anyone."""
        self._is_silent = True
        for number in list(self._pending):
            begun, until = self._waiting.get(number, (since + 1.0, 0.0))
            if begun <= since:
                self._loop.call_at(until, self._end_wait, number, why)
            else:
                self._forsake(number, why)

    def go_on(self) -> None:
        """The committer answers again."""
        self._is_silent = False

    def _end_wait(self, number: int, why: str) -> None:
        """If the committer answers again, it is the one to say that there is no message."""
        if self._is_silent and number in self._waiting:
            self._forsake(number, why)

    def _forsake(self, number: int, why: str) -> None:
        pending = self._pending[number]
        late = self._pending[number] = Pending()
        late.is_abandoned = True
        self._waiting.pop(number, None)
        self._tell(pending, StoreSilent(why))

    def _is_full(self) -> bool:
        """Whether the committer is so far behind that more would only fill the memory."""
        return self._choked and (self._held_bytes + self._bytes > _MOST_BYTES or len(self._pending) > _MOST_CALLS)

    def _begin(self, size: int) -> tuple[Pending[Any], int]:
        self._number = number = self._number + 1
        pending: Pending[Any] = Pending()
        self._pending[number] = pending
        self._bytes += size
        self._leave_soon()
        return pending, number

    def _call_off(self, number: int) -> bool:
        """The caller of a claim has gone. Whether it is too late is known in the other process only, and the answer
        tells: it comes in any case."""
        self._called_off.append(number)
        self._leave_soon()
        return False

    def _leave_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._leave)

    def _leave(self) -> None:
        self._scheduled = False
        if not self._choked and (self._sends or self._claims or self._acks or self._verbs or self._called_off):
            self._flush()

    def _flush(self) -> None:
        calls = Calls(self._sends, self._claims, self._acks, self._verbs, self._called_off)
        self._sends, self._claims, self._acks, self._verbs, self._called_off = [], [], [], [], []
        size, self._bytes = self._bytes, 0
        if self._choked:
            self._held.append(calls)
            self._held_bytes += size
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
        except (BrokenBridge, DecodeError, KeyError, RecursionError, UnicodeDecodeError) as error:
            log.error("the bridge to the committer has broken: %r", error)
            self.close()

    def eof_received(self) -> None:
        """The committer has gone."""

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._lost(self)
        pending, self._pending, self._waiting = self._pending, {}, {}
        for one in pending.values():
            self._tell(one, gone())

    def pause_writing(self) -> None:
        self._choked = True

    def resume_writing(self) -> None:
        self._choked = False
        while self._held and not self._choked:
            self._write(self._held.popleft())
        if not self._held:
            self._held_bytes = 0
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
            waiting = pending.pop(claimed.number)
            self._waiting.pop(claimed.number, None)
            if waiting.is_abandoned and claimed.messages and claimed.number not in self._with_attempt:
                self._give_back(claimed.messages)
            else:
                self._tell(waiting, claimed.messages)
            self._with_attempt.discard(claimed.number)
        for acked in answers.acked:
            self._tell(pending.pop(acked.number), acked.acked)
        for told in answers.verbs:
            value = self._results.pop(told.number)(told.value)
            self._tell(pending.pop(told.number), value)
        for failed in answers.failed:
            self._results.pop(failed.number, None)
            self._with_attempt.discard(failed.number)
            self._waiting.pop(failed.number, None)
            self._tell(pending.pop(failed.number), error_of(failed))

    def _give_back(self, messages: Sequence[Message]) -> None:
        """What was claimed before its caller had gone: others need not wait for it. Not where it was claimed with an
        attempt: its caller may have asked for it again already."""
        receipts = [Receipt(message.id, message.claim, message.queue) for message in messages]
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


def _refused() -> Pending[Any]:
    return rejected(StoreUnavailable("the process that writes to the store is far behind"))


def gone() -> StoreUnavailable:
    return CommitterGone("the process that writes to the store has ended; another one takes over soon")
