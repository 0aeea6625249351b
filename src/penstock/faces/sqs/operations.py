"""The operations of SQS: what each reads, what a caller needs for it, and what does it. Both protocols share them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from msgspec import Struct

from penstock.broker import Broker
from penstock.edge.http import Request
from penstock.faces.permission import Caller
from penstock.faces.sqs import requests
from penstock.faces.sqs.addresses import AwsPlace
from penstock.faces.sqs.move_tasks import MoveTasks
from penstock.faces.sqs.permissions import Permissions
from penstock.faces.sqs.queues import Queues
from penstock.faces.sqs.receipts import Receipts
from penstock.faces.sqs.receive import Inbox
from penstock.faces.sqs.results import CallerIdentity
from penstock.faces.sqs.send import Outbox
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


def operations(broker: Broker, place: AwsPlace) -> dict[str, Operation]:
    """By their names."""
    queues, tags, permissions = Queues(broker, place), Tags(broker), Permissions(broker, place)
    outbox, inbox, receipts = Outbox(broker), Inbox(broker, place), Receipts(broker)
    tasks = MoveTasks(broker, place)
    table = (
        Operation("CreateQueue", requests.CreateQueueRequest, queues.create, None),
        Operation("GetQueueUrl", requests.GetQueueUrlRequest, queues.url, None),
        Operation("ListQueues", requests.ListQueuesRequest, queues.list_queues, None),
        Operation("DeleteQueue", requests.QueueRequest, queues.delete, "admin"),
        Operation("PurgeQueue", requests.QueueRequest, queues.purge, "poll"),
        Operation("GetQueueAttributes", requests.GetQueueAttributesRequest, queues.show, "get_status"),
        Operation("SetQueueAttributes", requests.SetQueueAttributesRequest, queues.change, "admin"),
        Operation(
            "ListDeadLetterSourceQueues", requests.ListDeadLetterSourceQueuesRequest, queues.sources, "get_status"
        ),
        Operation("ListQueueTags", requests.QueueRequest, tags.list, "get_status"),
        Operation("TagQueue", requests.TagQueueRequest, tags.add, "admin"),
        Operation("UntagQueue", requests.UntagQueueRequest, tags.remove, "admin"),
        Operation("AddPermission", requests.AddPermissionRequest, permissions.add, "admin"),
        Operation("RemovePermission", requests.RemovePermissionRequest, permissions.remove, "admin"),
        Operation("SendMessage", requests.SendMessageRequest, outbox.send, "post"),
        Operation("SendMessageBatch", requests.SendMessageBatchRequest, outbox.send_batch, "post"),
        Operation("ReceiveMessage", requests.ReceiveMessageRequest, inbox.receive, "poll"),
        Operation("DeleteMessage", requests.DeleteMessageRequest, receipts.delete, "poll"),
        Operation("DeleteMessageBatch", requests.DeleteMessageBatchRequest, receipts.delete_batch, "poll"),
        Operation("ChangeMessageVisibility", requests.ChangeMessageVisibilityRequest, receipts.change, "poll"),
        Operation(
            "ChangeMessageVisibilityBatch", requests.ChangeMessageVisibilityBatchRequest, receipts.change_batch, "poll"
        ),
        Operation("StartMessageMoveTask", requests.StartMessageMoveTaskRequest, tasks.start, None),
        Operation("ListMessageMoveTasks", requests.ListMessageMoveTasksRequest, tasks.list, None),
        Operation("CancelMessageMoveTask", requests.CancelMessageMoveTaskRequest, tasks.cancel, None),
    )
    return {operation.name: operation for operation in table}


def caller_identity(place: AwsPlace) -> Operation:
    """What STS answers."""

    def tell(request: Request, _asked: Any, _queue: str) -> Pending[CallerIdentity]:
        caller: Caller | None = request.caller
        name = None if caller is None else caller.name
        who = "root" if name is None else f"user/{name}"
        return resolved(CallerIdentity(f"arn:aws:iam::{place.account}:{who}", name or place.account, place.account))

    return Operation("GetCallerIdentity", requests.GetCallerIdentityRequest, tell, None)
