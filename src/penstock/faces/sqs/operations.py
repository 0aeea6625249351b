"""The operations of SQS: what each reads, what a caller needs for it, and what does it. Both protocols share them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from msgspec import Struct

from penstock.broker import Broker
from penstock.edge.http import Request
from penstock.faces.permission import Caller
from penstock.faces.sqs import requests
from penstock.faces.sqs.addresses import Place
from penstock.faces.sqs.move_tasks import MoveTasks
from penstock.faces.sqs.permissions import Permissions
from penstock.faces.sqs.queues import Queues
from penstock.faces.sqs.receipts import Receipts
from penstock.faces.sqs.receive import Receives
from penstock.faces.sqs.results import CallerIdentity
from penstock.faces.sqs.send import Sends
from penstock.faces.sqs.tags import Tags
from penstock.pending import Pending, resolved

# With the request as it came, what was read from it, and the queue it is about.
Run: TypeAlias = Callable[[Request, Any, str], Pending[Any]]

# The namespace of another service, whose one operation is here because tools ask it before anything else.
STS_NAMESPACE: Final = "https://sts.amazonaws.com/doc/2011-06-15/"


class Operation(Struct, frozen=True):
    """`action` is what the caller must be permitted on the queue that `QueueUrl` names. Without one, the operation is
    about no such queue, and asks by itself for what it needs."""

    name: str
    shape: type[Struct]
    run: Run
    action: str | None


def operations(broker: Broker, place: Place) -> dict[str, Operation]:
    """By their names."""
    queues, tags, permissions = Queues(broker, place), Tags(broker), Permissions(broker, place)
    sends, receives, receipts = Sends(broker), Receives(broker, place), Receipts(broker)
    tasks = MoveTasks(broker, place)
    table = (
        Operation("CreateQueue", requests.CreateQueue, queues.create, None),
        Operation("GetQueueUrl", requests.GetQueueUrl, queues.url, None),
        Operation("ListQueues", requests.ListQueues, queues.list_queues, None),
        Operation("DeleteQueue", requests.QueueRequest, queues.delete, "admin"),
        Operation("PurgeQueue", requests.QueueRequest, queues.purge, "poll"),
        Operation("GetQueueAttributes", requests.GetQueueAttributes, queues.show, "get_status"),
        Operation("SetQueueAttributes", requests.SetQueueAttributes, queues.change, "admin"),
        Operation("ListDeadLetterSourceQueues", requests.ListDeadLetterSourceQueues, queues.sources, "get_status"),
        Operation("ListQueueTags", requests.QueueRequest, tags.list, "get_status"),
        Operation("TagQueue", requests.TagQueue, tags.add, "admin"),
        Operation("UntagQueue", requests.UntagQueue, tags.remove, "admin"),
        Operation("AddPermission", requests.AddPermission, permissions.add, "admin"),
        Operation("RemovePermission", requests.RemovePermission, permissions.remove, "admin"),
        Operation("SendMessage", requests.SendMessage, sends.send, "post"),
        Operation("SendMessageBatch", requests.SendMessageBatch, sends.send_batch, "post"),
        Operation("ReceiveMessage", requests.ReceiveMessage, receives.receive, "poll"),
        Operation("DeleteMessage", requests.DeleteMessage, receipts.delete, "poll"),
        Operation("DeleteMessageBatch", requests.DeleteMessageBatch, receipts.delete_batch, "poll"),
        Operation("ChangeMessageVisibility", requests.ChangeMessageVisibility, receipts.change, "poll"),
        Operation("ChangeMessageVisibilityBatch", requests.ChangeMessageVisibilityBatch, receipts.change_batch, "poll"),
        Operation("StartMessageMoveTask", requests.StartMessageMoveTask, tasks.start, None),
        Operation("ListMessageMoveTasks", requests.ListMessageMoveTasks, tasks.list, None),
        Operation("CancelMessageMoveTask", requests.CancelMessageMoveTask, tasks.cancel, None),
    )
    return {operation.name: operation for operation in table}


def caller_identity(place: Place) -> Operation:
    """What STS answers."""

    def tell(request: Request, _asked: Any, _queue: str) -> Pending[CallerIdentity]:
        caller: Caller | None = request.caller
        name = None if caller is None else caller.name
        who = "root" if name is None else f"user/{name}"
        return resolved(CallerIdentity(f"arn:aws:iam::{place.account}:{who}", name or place.account, place.account))

    return Operation("GetCallerIdentity", requests.GetCallerIdentity, tell, None)
