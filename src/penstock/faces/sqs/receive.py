"""Receiving: messages as SQS shows them, whichever API has sent them.

A body that is not text comes as base64 with an attribute that says so, never as an error: one message must not stop a
queue.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Final

from penstock.broker import Broker
from penstock.edge.http import Request
from penstock.errors import QueueNotFound
from penstock.faces.sqs import digests, message_attributes
from penstock.faces.sqs.addresses import AwsPlace
from penstock.faces.sqs.checks import (
    FIFO_SUFFIX,
    RECEIVED_AT_ONCE,
    check_id,
    check_visibility,
    check_wait,
    is_plain,
    within,
)
from penstock.faces.sqs.message_attributes import BODY_MARK, CONTENT_TYPE, DEDUP_ID, SENDER, TRACE, TRACE_HEADER
from penstock.faces.sqs.queue_attributes import ALL, wait_seconds
from penstock.faces.sqs.receipts import handle_of
from penstock.faces.sqs.requests import ReceiveMessageRequest
from penstock.faces.sqs.results import ReceivedMessage, ReceivedMessages
from penstock.faces.sqs.send import sequence_number
from penstock.model import Message, Queue
from penstock.pending import Pending, chained

SYSTEM_ATTRIBUTES: Final = (
    "SenderId",
    "SentTimestamp",
    "ApproximateReceiveCount",
    "ApproximateFirstReceiveTimestamp",
    "SequenceNumber",
    "MessageDeduplicationId",
    "MessageGroupId",
    TRACE_HEADER,
    "DeadLetterQueueSourceArn",
)
_EVERY: Final = frozenset(SYSTEM_ATTRIBUTES)
_NONE: Final[frozenset[str]] = frozenset()
_NOTHING: Final = ReceivedMessages()


class Inbox:
    def __init__(self, broker: Broker, place: AwsPlace) -> None:
        self._broker = broker
        self._place = place

    def receive(self, request: Request, asked: ReceiveMessageRequest, queue: str) -> Pending[ReceivedMessages]:
        limit, hold_s, wait_s = asked.max_number_of_messages, asked.visibility_timeout, asked.wait_time_seconds
        limit = 1 if limit is None else within(limit, "MaxNumberOfMessages", RECEIVED_AT_ONCE)
        check_visibility(hold_s)
        check_wait(wait_s)
        attempt = asked.receive_request_attempt_id
        check_id(attempt, "ReceiveRequestAttemptId")
        hold_ms = None if hold_s is None else hold_s * 1000

        def claim(wait_s: int) -> Pending[list[Message]]:
            request.waits = wait_s > 0
            return self._broker.claim(queue, limit, hold_ms, wait_s * 1000, attempt)

        def claim_as_it_says(found: list[Queue | None]) -> Pending[list[Message]]:
            if found[0] is None:
                raise QueueNotFound(queue)
            return claim(wait_seconds(found[0]))

        def answer(messages: list[Message]) -> ReceivedMessages:
            if not messages:
                return _NOTHING
            system = _asked_for(asked.attribute_names, asked.message_system_attribute_names)
            named = asked.message_attribute_names
            return ReceivedMessages([self._shown(request, message, system, named) for message in messages])

        if wait_s is not None:
            return claim(wait_s).map(answer)
        return chained(self._broker.find_queues((queue,)), claim_as_it_says).map(answer)

    def _shown(
        self, request: Request, message: Message, system: frozenset[str], named: Sequence[str] | None
    ) -> ReceivedMessage:
        body, marks = message.body, None
        text = _text_of(body)
        if text is None:
            body = b64encode(body)
            text, marks = body.decode(), _marks_of(message)
        shown = ReceivedMessage(message.id, handle_of(message), digests.of_body(body), text)
        if system:
            shown.attributes = self._system(request, message, system)
        if marks or (named and message.attributes):
            shown.message_attributes, shown.md5_of_message_attributes = message_attributes.shown(
                message.attributes, named, marks
            )
        return shown

    def _system(self, request: Request, message: Message, system: frozenset[str]) -> dict[str, str]:
        stored = message.attributes or {}
        dedup_id = stored.get(DEDUP_ID)
        is_fifo = dedup_id is not None or message.queue.endswith(FIFO_SUFFIX)
        first, came_from = message.first_claimed_at, message.came_from
        every = {
            "SenderId": stored.get(SENDER, self._place.account),
            "SentTimestamp": str(message.sent_at),
            "ApproximateReceiveCount": str(message.claim),
            "ApproximateFirstReceiveTimestamp": None if first is None else str(first),
            "SequenceNumber": sequence_number(message.seq) if is_fifo else None,
            "MessageDeduplicationId": dedup_id,
            "MessageGroupId": message.group,
            TRACE_HEADER: stored.get(TRACE),
            "DeadLetterQueueSourceArn": None if came_from is None else self._place.arn(request, came_from),
        }
        return {name: value for name, value in every.items() if value is not None and name in system}


def _asked_for(old: Sequence[str] | None, new: Sequence[str] | None) -> frozenset[str]:
    """Two parameters for the same: one has replaced the other."""
    if not old and not new:
        return _NONE
    names = (*(old or ()), *(new or ()))
    return _EVERY if ALL in names else _EVERY.intersection(names)


def _text_of(body: bytes) -> str | None:
    if not is_plain(body):
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _marks_of(message: Message) -> dict[str, str]:
    marks = {BODY_MARK: "base64"}
    if message.content_type is not None:
        marks[CONTENT_TYPE] = message.content_type
    return marks
