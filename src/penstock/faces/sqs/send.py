"""Sending: one message, or a batch whose entries fail one by one.

A message goes straight to the broker wherever that is possible. The settings of its queue are looked at only for a
message that some queue might find too long, and where what is given, or not given, fits one kind of queue alone.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from penstock.broker import Broker
from penstock.edge.http import Request
from penstock.errors import QueueNotFound
from penstock.faces.permission import Caller
from penstock.faces.sqs import digests
from penstock.faces.sqs.checks import (
    FIFO_SUFFIX,
    LEAST_MESSAGE_BYTES,
    body_bytes,
    check_batch_size,
    check_delay,
    check_id,
    check_size,
    checked_entries,
)
from penstock.faces.sqs.errors import Rejection, missing, wrong, wrong_value
from penstock.faces.sqs.message_attributes import DEDUP_ID, NONE, SENDER, TRACE, Kept, kept, kept_trace
from penstock.faces.sqs.queue_attributes import longest_message, needs_dedup_id
from penstock.faces.sqs.receipts import failed_entry
from penstock.faces.sqs.requests import SendEntry, SendMessageBatchRequest, SendMessageRequest
from penstock.faces.sqs.results import FailedEntry, SentBatch, SentEntry, SentMessage
from penstock.faces.traceparent import KEY as TRACE_KEY
from penstock.faces.traceparent import trace_of, with_trace
from penstock.ids import dedup_key_of, seq_of
from penstock.model import Dedup, Draft, Groups, Queue, Sent
from penstock.pending import Pending, chained, resolved

_NO_DEDUP_ID: Final = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)
_NO_GROUP: Final = "The request must contain the parameter MessageGroupId."
_OTHER_KIND: Final = "The request include parameter that is not valid for this queue type."


class _Letter(Struct, frozen=True, gc=False):
    """A message that may be sent, as far as that can be told without its queue."""

    body: bytes
    attributes: Kept
    delay_s: int | None
    group: str | None
    dedup_id: str | None
    trace: str | None
    trace_md5: str | None
    sender: str | None
    context: dict[str, str] | None

    @property
    def size(self) -> int:
        return len(self.body) + self.attributes.size


class Outbox:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def send(self, request: Request, asked: SendMessageRequest, queue: str) -> Pending[SentMessage]:
        letter = _letter(request, asked)
        is_fifo = queue.endswith(FIFO_SUFFIX)
        if _fits_any_queue(letter, is_fifo):
            return self._post(queue, letter, is_fifo)

        def judge(found: list[Queue | None]) -> Pending[SentMessage]:
            about = _there(found, queue)
            _check_kind(letter, about, missing("MessageGroupId"))
            check_size(letter.size, longest_message(about))
            return self._post(queue, _with_dedup_id(letter, about), about.settings.groups is Groups.FIFO)

        return chained(self._broker.find_queues((queue,)), judge)

    def _post(self, queue: str, letter: _Letter, is_fifo: bool) -> Pending[SentMessage]:
        def answer(sent: list[Sent]) -> SentMessage:
            return SentMessage(
                digests.of_body(letter.body),
                sent[0].id,
                letter.attributes.md5,
                letter.trace_md5,
                sequence_number(seq_of(sent[0].id)) if is_fifo else None,
            )

        return self._broker.send(queue, (_draft(letter, is_fifo),)).map(answer)

    def send_batch(self, request: Request, asked: SendMessageBatchRequest, queue: str) -> Pending[SentBatch]:
        entries = checked_entries(asked.entries, "SendMessageBatch")
        letters: dict[str, _Letter] = {}
        failed: dict[str, Rejection] = {}
        for entry in entries:
            try:
                letters[str(entry.id)] = _letter(request, entry)
            except Rejection as error:
                failed[str(entry.id)] = error
        check_batch_size(sum(letter.size for letter in letters.values()))
        order = [str(entry.id) for entry in entries]
        is_fifo = queue.endswith(FIFO_SUFFIX)
        if letters and all(_fits_any_queue(letter, is_fifo) for letter in letters.values()):
            return self._post_batch(queue, order, letters, failed, is_fifo)

        def judge(found: list[Queue | None]) -> Pending[SentBatch]:
            about = _there(found, queue)
            for letter in letters.values():
                # What is missing concerns all entries: they would be out of order.
                _check_ids(letter, about, wrong(_NO_GROUP))
            good: dict[str, _Letter] = {}
            for entry_id, letter in letters.items():
                try:
                    _check_kind(letter, about, wrong(_NO_GROUP))
                    check_size(letter.size, longest_message(about), in_batch=True)
                    good[entry_id] = _with_dedup_id(letter, about)
                except Rejection as error:
                    failed[entry_id] = error
            return self._post_batch(queue, order, good, failed, about.settings.groups is Groups.FIFO)

        return chained(self._broker.find_queues((queue,)), judge)

    def _post_batch(
        self, queue: str, order: list[str], letters: dict[str, _Letter], failed: dict[str, Rejection], is_fifo: bool
    ) -> Pending[SentBatch]:
        def answer(sent: list[Sent]) -> SentBatch:
            results = zip(letters.items(), sent, strict=True)
            good = [_sent_entry(entry_id, letter, one, is_fifo) for (entry_id, letter), one in results]
            wrong_ones: list[FailedEntry] = [failed_entry(one, failed[one]) for one in order if one in failed]
            return SentBatch(good, wrong_ones)

        if not letters:
            return resolved(answer([]))
        return self._broker.send(queue, [_draft(letter, is_fifo) for letter in letters.values()]).map(answer)


def _letter(request: Request, asked: SendMessageRequest | SendEntry) -> _Letter:
    body = body_bytes(asked.message_body)
    check_delay(asked.delay_seconds)
    group, dedup_id = asked.message_group_id, asked.message_deduplication_id
    check_id(group, "MessageGroupId")
    check_id(dedup_id, "MessageDeduplicationId")
    attributes = kept(asked.message_attributes) if asked.message_attributes else NONE
    context = trace_of(request.headers) if TRACE_KEY in request.headers else None
    trace = trace_md5 = None
    if asked.message_system_attributes:
        trace, trace_md5 = kept_trace(asked.message_system_attributes)
    elif b"x-amzn-trace-id" in request.headers:
        trace = request.headers[b"x-amzn-trace-id"].decode("latin-1")
    caller: Caller | None = request.caller
    sender = None if caller is None else caller.name
    return _Letter(body, attributes, asked.delay_seconds, group, dedup_id, trace, trace_md5, sender, context)


def _fits_any_queue(letter: _Letter, is_fifo: bool) -> bool:
    """Whether a message needs no look at its queue, whose name says what kind it ought to be."""
    if letter.size > LEAST_MESSAGE_BYTES:
        return False
    if is_fifo:
        return letter.group is not None and letter.dedup_id is not None and not letter.delay_s
    return letter.dedup_id is None


def _there(found: list[Queue | None], name: str) -> Queue:
    [queue] = found
    if queue is None:
        raise QueueNotFound(name)
    return queue


def _check_ids(letter: _Letter, queue: Queue, no_group: Rejection) -> None:
    if queue.settings.groups is not Groups.FIFO:
        return
    if letter.group is None:
        raise no_group
    if letter.dedup_id is None and needs_dedup_id(queue):
        raise wrong(_NO_DEDUP_ID)


def _check_kind(letter: _Letter, queue: Queue, no_group: Rejection) -> None:
    """Raises Rejection for what does not fit a queue of its kind."""
    _check_ids(letter, queue, no_group)
    if queue.settings.groups is Groups.FIFO:
        if letter.delay_s:
            raise wrong_value(letter.delay_s, "DelaySeconds", _OTHER_KIND)
    elif letter.dedup_id is not None and queue.settings.dedup is not Dedup.WINDOW:
        raise wrong_value(letter.dedup_id, "MessageDeduplicationId", _OTHER_KIND)


def _with_dedup_id(letter: _Letter, queue: Queue) -> _Letter:
    """In a FIFO queue that knows messages again by their content, that is what the message is called."""
    settings = queue.settings
    if letter.dedup_id is not None or settings.groups is not Groups.FIFO or settings.dedup is not Dedup.WINDOW:
        return letter
    return msgspec.structs.replace(letter, dedup_id=sha256(letter.body).hexdigest())


def _draft(letter: _Letter, is_fifo: bool) -> Draft:
    """In a FIFO queue there is only the queue's own delay."""
    dedup_id = letter.dedup_id
    delay_s = None if is_fifo else letter.delay_s
    attributes = with_trace(letter.attributes.texts or None, letter.context)
    if dedup_id is not None or letter.trace is not None or letter.sender is not None:
        own = ((DEDUP_ID, dedup_id), (TRACE, letter.trace), (SENDER, letter.sender))
        attributes = (attributes or {}) | {name: value for name, value in own if value is not None}
    return Draft(
        letter.body,
        None,
        attributes,
        None if delay_s is None else delay_s * 1000,
        None,
        None if dedup_id is None else dedup_key_of(dedup_id),
        letter.group,
    )


def _sent_entry(entry_id: str, letter: _Letter, sent: Sent, is_fifo: bool) -> SentEntry:
    return SentEntry(
        entry_id,
        digests.of_body(letter.body),
        sent.id,
        letter.attributes.md5,
        letter.trace_md5,
        sequence_number(seq_of(sent.id)) if is_fifo else None,
    )


def sequence_number(seq: int | None) -> str:
    return f"{seq or 0:020}"
