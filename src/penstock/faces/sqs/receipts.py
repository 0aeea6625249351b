"""Receipt handles, and what is done with them: messages are deleted, hidden for longer or given back.

A handle carries the message, the claim and the queue, in letters and digits that need no escaping anywhere. One that
was made for another queue is not a handle here.

A stale handle, after which the message was received again, does nothing and is answered as if it had. In a FIFO queue
one whose time is over is an error, as SQS has it.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from msgspec import Struct

from penstock.broker import Broker
from penstock.edge.http import Request
from penstock.errors import QueueNotFound
from penstock.faces.description import is_number
from penstock.faces.sqs.checks import check_visibility, checked_entries
from penstock.faces.sqs.errors import RECEIPT, Rejection, missing, told, wrong_value
from penstock.faces.sqs.requests import (
    ChangeMessageVisibilityBatchRequest,
    ChangeMessageVisibilityRequest,
    DeleteMessageBatchRequest,
    DeleteMessageRequest,
)
from penstock.faces.sqs.results import ChangedBatch, DeletedBatch, DoneEntry, FailedEntry
from penstock.model import Groups, Message, Queue, Receipt
from penstock.pending import Pending, chained, gather, resolved

R = TypeVar("R")

_LONGEST: Final = 1_024
_FROM_URLS: Final = str.maketrans("-_", "+/")
_GONE: Final = "Message does not exist or is not available for visibility timeout change."
_EXPIRED: Final = "The receipt handle has expired."


def handle_of(message: Message) -> str:
    return urlsafe_b64encode(f"{message.id}.{message.claim}.{message.queue}".encode()).rstrip(b"=").decode()


def receipt_of(handle: str | None, queue: str) -> Receipt:
    if handle is None:
        raise missing("ReceiptHandle")
    try:
        # Strict, or whatever is not base64 would be passed over.
        text = binascii.a2b_base64(
            handle.translate(_FROM_URLS) + "=" * (-len(handle) % 4) if len(handle) <= _LONGEST else "-",
            strict_mode=True,
        ).decode()
        message_id, claim, of_queue = text.split(".", 2)
    except ValueError:
        raise _not_a_handle(handle) from None
    if of_queue != queue or not is_number(claim):
        raise _not_a_handle(handle)
    return Receipt(message_id, int(claim), queue)


def _not_a_handle(handle: str) -> Rejection:
    return Rejection(RECEIPT, f'The input receipt handle "{handle[:_LONGEST]}" is not a valid receipt handle.')


class _Held(Struct, frozen=True):
    """A handle that was given, and what it says."""

    handle: str
    receipt: Receipt

    def refused(self, reason: str) -> Rejection:
        return wrong_value(self.handle, "ReceiptHandle", reason)


# What became of each handle: None where it is answered as done.
_Outcomes = list[Rejection | None]


class Receipts:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    # Deleting

    def delete(self, _request: Request, asked: DeleteMessageRequest, queue: str) -> Pending[None]:
        try:
            held = _held(asked.receipt_handle, queue)
        except Rejection as error:
            return self._refuse(queue, error)
        return self._delete(queue, [held]).map(_alone)

    def delete_batch(self, _request: Request, asked: DeleteMessageBatchRequest, queue: str) -> Pending[DeletedBatch]:
        entries = {str(entry.id): entry for entry in checked_entries(asked.entries, "DeleteMessageBatch")}
        good, failed = _sorted_out(entries, lambda entry: _held(entry.receipt_handle, queue))
        return self._delete(queue, list(good.values())).map(
            lambda outcomes: DeletedBatch(*_told(entries, good, outcomes, failed))
        )

    def _delete(self, queue: str, held: list[_Held]) -> Pending[_Outcomes]:
        def judge(done: list[bool]) -> Pending[_Outcomes]:
            if all(done):
                return resolved([None] * len(held))
            return self._explain(queue, held, done, _of_deleted)

        if not held:
            return self._explain(queue, [], [], _of_deleted)
        return chained(self._broker.ack([one.receipt for one in held]), judge)

    # Hiding

    def change(self, _request: Request, asked: ChangeMessageVisibilityRequest, queue: str) -> Pending[None]:
        try:
            held, seconds = _held(asked.receipt_handle, queue), _seconds(asked.visibility_timeout)
        except Rejection as error:
            return self._refuse(queue, error)
        return self._hide(queue, {seconds: [held]}).map(_alone)

    def change_batch(
        self, _request: Request, asked: ChangeMessageVisibilityBatchRequest, queue: str
    ) -> Pending[ChangedBatch]:
        entries = {str(entry.id): entry for entry in checked_entries(asked.entries, "ChangeMessageVisibilityBatch")}
        good, failed = _sorted_out(
            entries, lambda entry: (_seconds(entry.visibility_timeout), _held(entry.receipt_handle, queue))
        )
        times: dict[int, list[_Held]] = {}
        order: list[str] = []
        for seconds in sorted({seconds for seconds, _ in good.values()}):
            times[seconds] = [held for given, held in good.values() if given == seconds]
            order += [entry_id for entry_id, (given, _) in good.items() if given == seconds]
        return self._hide(queue, times).map(
            lambda outcomes: ChangedBatch(*_told(entries, dict.fromkeys(order), outcomes, failed))
        )

    def _hide(self, queue: str, times: Mapping[int, list[_Held]]) -> Pending[_Outcomes]:
        """The outcomes are in the order of the times."""
        every = [held for of_time in times.values() for held in of_time]

        def change(seconds: int, of_time: list[_Held]) -> Pending[list[bool]]:
            receipts = [held.receipt for held in of_time]
            if seconds == 0:
                return self._broker.release(receipts, 0)
            return self._broker.renew(receipts, seconds * 1000, shorten=True)

        def judge(lists: list[list[bool]]) -> Pending[_Outcomes]:
            done = [one for of_time in lists for one in of_time]
            if all(done):
                return resolved([None] * len(every))
            return self._explain(queue, every, done, _of_hidden)

        if not every:
            return self._explain(queue, [], [], _of_hidden)
        return chained(gather([change(seconds, of_time) for seconds, of_time in times.items()]), judge)

    # What nothing was done with

    def _refuse(self, queue: str, refused: Rejection) -> Pending[None]:
        """Where there is no such queue, that is what is wrong."""

        def judge(found: list[Queue | None]) -> None:
            if found[0] is None:
                raise QueueNotFound(queue)
            raise refused

        return self._broker.find_queues((queue,)).map(judge)

    def _explain(
        self,
        queue: str,
        held: list[_Held],
        done: list[bool],
        judge: Callable[[_Held, bool, bool], Rejection | None],
    ) -> Pending[_Outcomes]:
        """`judge` is told of a handle that did nothing whether its message is still in the queue, and whether that is
        a FIFO queue. Raises QueueNotFound, also where there is no handle to explain."""
        missed = [one for one, was_done in zip(held, done, strict=True) if not was_done]
        whichever = [Receipt(one.receipt.id, None, queue) for one in missed]

        def locate(found: list[Queue | None]) -> Pending[_Outcomes]:
            about = found[0]
            if about is None:
                raise QueueNotFound(queue)
            is_fifo = about.settings.groups is Groups.FIFO

            def outcomes(places: list[str | None]) -> _Outcomes:
                judged = {
                    one.handle: judge(one, place == queue, is_fifo) for one, place in zip(missed, places, strict=True)
                }
                return [None if was_done else judged[one.handle] for one, was_done in zip(held, done, strict=True)]

            return self._broker.locate(whichever).map(outcomes) if whichever else resolved(outcomes([]))

        return chained(self._broker.find_queues((queue,)), locate)


def _of_deleted(held: _Held, is_there: bool, is_fifo: bool) -> Rejection | None:
    """What is gone is deleted."""
    return held.refused(_EXPIRED) if is_there and is_fifo else None


def _of_hidden(held: _Held, is_there: bool, is_fifo: bool) -> Rejection | None:
    if not is_there:
        return held.refused(_GONE)
    return held.refused(_EXPIRED) if is_fifo else None


def _held(handle: str | None, queue: str) -> _Held:
    return _Held(handle or "", receipt_of(handle, queue))


def _seconds(visibility_timeout: int | None) -> int:
    if visibility_timeout is None:
        raise missing("VisibilityTimeout")
    check_visibility(visibility_timeout)
    return visibility_timeout


def _alone(outcomes: _Outcomes) -> None:
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


E = TypeVar("E")


def _sorted_out(entries: Mapping[str, E], read: Callable[[E], R]) -> tuple[dict[str, R], dict[str, Rejection]]:
    """Entries of a batch that can be read, and those that cannot."""
    good: dict[str, R] = {}
    failed: dict[str, Rejection] = {}
    for entry_id, entry in entries.items():
        try:
            good[entry_id] = read(entry)
        except Rejection as error:
            failed[entry_id] = error
    return good, failed


def _told(
    entries: Mapping[str, object], good: Mapping[str, object], outcomes: _Outcomes, failed: dict[str, Rejection]
) -> tuple[list[DoneEntry], list[FailedEntry]]:
    """Both lists of a batch's answer, each in the order of the request. `outcomes` are in the order of `good`."""
    wrong = failed | {entry_id: one for entry_id, one in zip(good, outcomes, strict=True) if one is not None}
    return (
        [DoneEntry(entry_id) for entry_id in entries if entry_id not in wrong],
        [failed_entry(entry_id, wrong[entry_id]) for entry_id in entries if entry_id in wrong],
    )


def failed_entry(entry_id: str, error: Exception) -> FailedEntry:
    refused = told(error)
    return FailedEntry(entry_id, not refused.fault.is_ours, refused.fault.code, refused.text)
