"""Message move tasks: moves out of a dead-letter queue, back to where each message came from or to a queue of choice.

What arrives is as if sent then, under a new id and with a new age: by its old one it could be over its retention.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request
from penstock.errors import MoveNotFound, NotPermitted
from penstock.faces.permission import actor_of, permits, rules_of
from penstock.faces.sqs.addresses import AwsPlace, queue_of_arn
from penstock.faces.sqs.checks import TASK_RATE, TASK_RESULTS, within
from penstock.faces.sqs.errors import NO_QUEUE, NO_RESOURCE, Rejection, missing, wrong
from penstock.faces.sqs.requests import (
    VIA,
    CancelMessageMoveTaskRequest,
    ListMessageMoveTasksRequest,
    StartMessageMoveTaskRequest,
)
from penstock.faces.sqs.results import CancelledTask, StartedTask, Task, Tasks
from penstock.keys import EVERY_QUEUE, needed_rule
from penstock.model import Move, MoveAction, MoveStatus, MoveTerms, Queue
from penstock.pending import Pending, chained

_STATUSES: Final = {
    MoveStatus.IN_PROGRESS: "RUNNING",
    MoveStatus.COMPLETE: "COMPLETED",
    MoveStatus.ERROR: "FAILED",
    MoveStatus.CANCELLED: "CANCELLED",
}


class _Handle(Struct, frozen=True, rename="camel"):
    """What a task handle says, in base64."""

    task_id: str
    source_arn: str


_read_handle = msgspec.json.Decoder(_Handle).decode
_encode = msgspec.json.Encoder().encode


class MoveTasks:
    def __init__(self, broker: Broker, place: AwsPlace) -> None:
        self._broker = broker
        self._place = place

    def start(self, request: Request, asked: StartMessageMoveTaskRequest, _queue: str) -> Pending[StartedTask]:
        source = _source(asked.source_arn)
        target = None if not asked.destination_arn else _queue_at(asked.destination_arn, "DestinationArn")
        rate = asked.max_number_of_messages_per_second
        if rate is not None:
            within(rate, "MaxNumberOfMessagesPerSecond", TASK_RATE)
        # Where a message came from is not known before it moves.
        for action, queue in (("poll", source), ("post", EVERY_QUEUE if target is None else target)):
            if not permits(request, action, queue):
                raise NotPermitted(needed_rule(action, queue))
        if source == target:
            raise wrong("Source queue arn and destination queue arn cannot be the same.")

        def look(found: list[Queue | None]) -> Pending[list[Queue]]:
            if found[0] is None:
                raise _no_resource("SourceArn")
            if found[-1] is None:
                raise _no_resource("DestinationArn")
            _check_kinds(found[0], found[-1])
            return self._broker.dead_letter_sources(source, "", 1)

        def begin(sources: list[Queue]) -> Pending[StartedTask]:
            if not sources:
                raise wrong("Source queue must be configured as a Dead Letter Queue.")
            terms = MoveTerms(per_second=rate, as_new=True)
            started = self._broker.moves.start(source, target, terms, by=actor_of(request, VIA))
            return started.map(lambda move: StartedTask(self._handle(request, move)))

        names = (source,) if target is None else (source, target)
        return chained(chained(self._broker.find_queues(names), look), begin)

    def list(self, request: Request, asked: ListMessageMoveTasksRequest, _queue: str) -> Pending[Tasks]:
        source = _source(asked.source_arn)
        most = 1 if asked.max_results is None else within(asked.max_results, "MaxResults", TASK_RESULTS)
        if not permits(request, "get_status", source):
            raise NotPermitted(needed_rule("get_status", source))

        def look(found: list[Queue | None]) -> Pending[Sequence[Move]]:
            if found[0] is None:
                raise _no_resource("SourceArn")
            return self._broker.moves.list(limits.LIST_LIMIT)

        def shown(moves: Sequence[Move]) -> Tasks:
            of_queue = [move for move in moves if move.source == source and _is_task(move)]
            return Tasks([self._task(request, move) for move in of_queue[:most]])

        return chained(self._broker.find_queues((source,)), look).map(shown)

    def cancel(self, request: Request, asked: CancelMessageMoveTaskRequest, _queue: str) -> Pending[CancelledTask]:
        handle = _read(asked.task_handle)
        source = _queue_at(handle.source_arn, "SourceArn")
        if not permits(request, "poll", source):
            raise NotPermitted(needed_rule("poll", source))

        def look(found: list[Queue | None]) -> Pending[Move | None]:
            if found[0] is None:
                raise _no_resource("SourceArn")
            return self._broker.moves.find(handle.task_id)

        def stop(move: Move | None) -> Pending[Move]:
            is_running = move is not None and move.source == source and move.status is MoveStatus.IN_PROGRESS
            if move is None or not is_running or not _is_task(move):
                raise MoveNotFound(handle.task_id)
            return self._broker.moves.cancel(handle.task_id, rules_of(request), actor_of(request, VIA))

        looked = chained(self._broker.find_queues((source,)), look)
        return chained(looked, stop).map(lambda move: CancelledTask(move.moved))

    def _handle(self, request: Request, move: Move) -> str:
        return b64encode(_encode(_Handle(move.id, self._place.arn(request, move.source)))).decode()

    def _task(self, request: Request, move: Move) -> Task:
        # What has no home stays where it is, which those who wait for the end must know.
        left = move.status is MoveStatus.COMPLETE and move.homeless > 0
        return Task(
            _STATUSES[MoveStatus.ERROR if left else move.status],
            self._place.arn(request, move.source),
            move.moved,
            move.total,
            move.started_at,
            self._handle(request, move) if move.status is MoveStatus.IN_PROGRESS else None,
            None if move.target is None else self._place.arn(request, move.target),
            move.terms.per_second,
            "CouldNotDetermineMessageSource" if left else _failure(move),
        )


def _is_task(move: Move) -> bool:
    """SQS knows no dry runs, and no tasks that delete or release messages."""
    return move.terms.action is MoveAction.MOVE and not move.terms.dry_run


def _check_kinds(source: Queue, target: Queue) -> None:
    """Messages without a group have no place in a FIFO queue."""
    if source.settings.groups is not target.settings.groups:
        raise wrong("Source queue and destination queue must be of the same type.")


def _failure(move: Move) -> str | None:
    """A move fails when its target is deleted; what else there may be, the core says in words."""
    if move.status is not MoveStatus.ERROR:
        return None
    return NO_QUEUE.code if "does not exist" in (move.error or "") else move.error


def _source(arn: str | None) -> str:
    if not arn:
        raise missing("SourceArn")
    return _queue_at(arn, "SourceArn")


def _queue_at(arn: str, parameter: str) -> str:
    queue = queue_of_arn(arn)
    if queue is None:
        raise wrong(
            f"You must use this format to specify the {parameter}: "
            "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
        )
    return queue


def _no_resource(parameter: str) -> Rejection:
    return Rejection(NO_RESOURCE, f"The resource that you specified for the {parameter} parameter doesn't exist.")


def _read(handle: str | None) -> _Handle:
    if not handle:
        raise missing("TaskHandle")
    try:
        return _read_handle(b64decode(handle, validate=True))
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, ValueError):
        raise wrong("Value for parameter TaskHandle is invalid.") from None
