"""The committer's end of a bridge: it calls the broker for one edge, and sends back what comes of it.

Answers of one iteration of the event loop leave in one frame. An edge that does not take its answers is not listened to
until it does. When it has gone, claims that wait for it are called off, as for clients that hang up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from msgspec import DecodeError, Raw

from penstock.bridge.calls import (
    AckAnswer,
    Answers,
    Calls,
    ClaimAnswer,
    Failure,
    SendAnswer,
    VerbAnswer,
    decode_calls,
    encode,
)
from penstock.bridge.failures import failure
from penstock.bridge.frames import BrokenBridge, FrameReader, FrameWriter
from penstock.bridge.verbs import VERBS
from penstock.broker.protocol import Broker
from penstock.model import Message, Receipt, Sent
from penstock.pending import Pending

log = logging.getLogger(__name__)

# Answers with so many bytes do not wait for the iteration to end.
_ENOUGH_BYTES: Final = 1 << 22
# About what one result of a send takes.
_SENT_BYTES: Final = 48


class Desk:
    """One protocol of asyncio. `closed` is called when the edge has gone."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop, closed: Callable[[Desk], object]) -> None:
        self._broker = broker
        self._loop = loop
        self._closed = closed
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self._writer = FrameWriter()
        # Claims that may wait, for as long as they are not answered.
        self.waiting: dict[int, Pending[Any]] = {}
        self._sent: list[SendAnswer] = []
        self._claimed: list[ClaimAnswer] = []
        self._acked: list[AckAnswer] = []
        self._told: list[VerbAnswer] = []
        self._failed: list[Failure] = []
        self._bytes = 0
        self._scheduled = False

    # The protocol

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for content in self._reader.feed(data):
                self._serve(decode_calls(content))
        except (BrokenBridge, DecodeError, KeyError, RecursionError, UnicodeDecodeError) as error:
            log.error("the bridge to an edge has broken: %r", error)
            if self._transport is not None:
                self._transport.abort()

    def eof_received(self) -> None:
        """The edge has gone."""

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        waiting, self.waiting = self.waiting, {}
        for pending in waiting.values():
            pending.cancel()
        self._closed(self)

    def pause_writing(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # Calls

    def _serve(self, calls: Calls) -> None:
        broker = self._broker
        for send in calls.sends:
            reply = _Reply(self, send.number)
            broker.send(send.queue, send.drafts, send.create_as).listen(reply.sent, reply.failed)
        for ack in calls.acks:
            reply = _Reply(self, ack.number)
            broker.ack(ack.receipts).listen(reply.acked, reply.failed)
        for claim in calls.claims:
            reply = _Reply(self, claim.number, gives_back=claim.attempt is None)
            pending = broker.claim(claim.queue, claim.limit, claim.hold_ms, claim.wait_ms, claim.attempt)
            if claim.wait_ms:
                self.waiting[claim.number] = pending
            pending.listen(reply.claimed, reply.failed)
        for call in calls.verbs:
            verb = VERBS[call.verb]
            reply = _Reply(self, call.number)
            verb.of(broker)(*verb.read_arguments(call.arguments)).listen(reply.told, reply.failed)
        for number in calls.called_off:
            waiting = self.waiting.get(number)
            if waiting is not None and waiting.cancel():
                del self.waiting[number]
                self.answer_claim(number, [])

    # Answers

    def answer_send(self, number: int, sent: list[Sent]) -> None:
        self._sent.append(SendAnswer(number, sent))
        self._bytes += _SENT_BYTES * len(sent)
        self._leave_soon()

    def answer_claim(self, number: int, messages: list[Message]) -> None:
        self._claimed.append(ClaimAnswer(number, messages))
        for message in messages:
            self._bytes += len(message.body)
            if message.attributes:
                self._bytes += sum(map(len, message.attributes.values()))
        self._leave_soon()

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def give_back(self, messages: list[Message]) -> None:
        """What was claimed for an edge that has gone: others need not wait for it."""
        receipts = [Receipt(message.id, message.claim, message.queue) for message in messages]
        self._broker.release(receipts, 0).listen(_ignore, _ignore)

    def answer_ack(self, number: int, acked: list[bool]) -> None:
        self._acked.append(AckAnswer(number, acked))
        self._leave_soon()

    def answer(self, number: int, value: Any) -> None:
        encoded = encode(value)
        self._told.append(VerbAnswer(number, Raw(encoded)))
        self._bytes += len(encoded)
        self._leave_soon()

    def answer_failure(self, number: int, error: Exception) -> None:
        self._failed.append(failure(number, error))
        self._leave_soon()

    def _leave_soon(self) -> None:
        if self._bytes > _ENOUGH_BYTES:
            self._flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._leave)

    def _leave(self) -> None:
        self._scheduled = False
        if self._sent or self._claimed or self._acked or self._told or self._failed:
            self._flush()

    def _flush(self) -> None:
        answers = Answers(self._sent, self._claimed, self._acked, self._told, self._failed)
        self._sent, self._claimed, self._acked, self._told, self._failed = [], [], [], [], []
        self._bytes = 0
        if self._transport is None:
            return
        try:
            self._transport.write(self._writer.frame(answers))
        except Exception as error:
            # Those who wait for these answers must not wait forever.
            log.error("the bridge to an edge has broken: %r", error)
            self._transport.abort()

    def close(self) -> None:
        """What is answered so far is still sent."""
        if self._transport is not None:
            self._transport.close()


def _ignore(_result: object) -> None:
    pass


class _Reply:
    """Where the result of one call goes."""

    __slots__ = ("_desk", "_gives_back", "_number")

    def __init__(self, desk: Desk, number: int, gives_back: bool = False) -> None:
        self._desk = desk
        self._number = number
        # What was claimed, if the edge has gone meanwhile. Not where it was claimed with an attempt.
        self._gives_back = gives_back

    def sent(self, sent: list[Sent]) -> None:
        self._desk.answer_send(self._number, sent)

    def claimed(self, messages: list[Message]) -> None:
        self._desk.waiting.pop(self._number, None)
        if messages and self._gives_back and not self._desk.is_open:
            self._desk.give_back(messages)
        else:
            self._desk.answer_claim(self._number, messages)

    def acked(self, acked: list[bool]) -> None:
        self._desk.answer_ack(self._number, acked)

    def told(self, value: Any) -> None:
        self._desk.answer(self._number, value)

    def failed(self, error: Exception) -> None:
        self._desk.waiting.pop(self._number, None)
        self._desk.answer_failure(self._number, error)
