"""What each operation answers, in the words of SQS. Both protocols are written from these: JSON as they stand, XML by
`xml_text.py`.

What is empty is absent: a list or a map without anything in it is never written, because SDKs take it for something.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field


def _listed(name: str) -> Meta:
    """The name of each item's element in XML."""
    return Meta(extra={"item": name})


def _mapped(name: str, key: str = "Name") -> Meta:
    """The name of each pair's element in XML, and that of the key in it."""
    return Meta(extra={"item": name, "key": key})


class QueueUrl(Struct, rename="pascal"):
    """Of CreateQueue and GetQueueUrl."""

    queue_url: str


class QueueUrls(Struct, rename="pascal", omit_defaults=True):
    queue_urls: Annotated[list[str], _listed("QueueUrl")] = []
    next_token: str | None = None


class SourceQueueUrls(Struct, rename="pascal", omit_defaults=True):
    queue_urls: Annotated[list[str], _listed("QueueUrl")] = field(name="queueUrls", default_factory=list)
    next_token: str | None = None


class QueueAttributes(Struct, rename="pascal", omit_defaults=True):
    attributes: Annotated[dict[str, str], _mapped("Attribute")] = {}


class QueueTags(Struct, rename="pascal", omit_defaults=True):
    tags: Annotated[dict[str, str], _mapped("Tag", "Key")] = {}


class SentMessage(Struct, rename="pascal", omit_defaults=True, gc=False):
    md5_of_message_body: str = field(name="MD5OfMessageBody")
    message_id: str
    md5_of_message_attributes: str | None = field(name="MD5OfMessageAttributes", default=None)
    md5_of_message_system_attributes: str | None = field(name="MD5OfMessageSystemAttributes", default=None)
    sequence_number: str | None = None


class SentEntry(Struct, rename="pascal", omit_defaults=True, gc=False):
    id: str
    md5_of_message_body: str = field(name="MD5OfMessageBody")
    message_id: str
    md5_of_message_attributes: str | None = field(name="MD5OfMessageAttributes", default=None)
    md5_of_message_system_attributes: str | None = field(name="MD5OfMessageSystemAttributes", default=None)
    sequence_number: str | None = None


class FailedEntry(Struct, rename="pascal", gc=False):
    id: str
    sender_fault: bool
    code: str
    message: str


class DoneEntry(Struct, rename="pascal", gc=False):
    id: str


_Failed = Annotated[list[FailedEntry], _listed("BatchResultErrorEntry")]


class SentBatch(Struct, rename="pascal", omit_defaults=True):
    successful: Annotated[list[SentEntry], _listed("SendMessageBatchResultEntry")] = []
    failed: _Failed = []


class DeletedBatch(Struct, rename="pascal", omit_defaults=True):
    successful: Annotated[list[DoneEntry], _listed("DeleteMessageBatchResultEntry")] = []
    failed: _Failed = []


class ChangedBatch(Struct, rename="pascal", omit_defaults=True):
    successful: Annotated[list[DoneEntry], _listed("ChangeMessageVisibilityBatchResultEntry")] = []
    failed: _Failed = []


class ShownValue(Struct, rename="pascal", omit_defaults=True, gc=False):
    """One of the two values, as the type says."""

    data_type: str
    string_value: str | None = None
    binary_value: bytes | None = None


class ReceivedMessage(Struct, rename="pascal", omit_defaults=True):
    message_id: str
    receipt_handle: str
    md5_of_body: str = field(name="MD5OfBody")
    body: str
    attributes: Annotated[dict[str, str], _mapped("Attribute")] = {}
    md5_of_message_attributes: str | None = field(name="MD5OfMessageAttributes", default=None)
    message_attributes: Annotated[dict[str, ShownValue], _mapped("MessageAttribute")] = {}


class ReceivedMessages(Struct, rename="pascal", omit_defaults=True):
    messages: Annotated[list[ReceivedMessage], _listed("Message")] = []


class StartedTask(Struct, rename="pascal"):
    task_handle: str


class CancelledTask(Struct, rename="pascal"):
    approximate_number_of_messages_moved: int


class Task(Struct, rename="pascal", omit_defaults=True):
    status: str
    source_arn: str
    approximate_number_of_messages_moved: int
    approximate_number_of_messages_to_move: int
    started_timestamp: int
    task_handle: str | None = None
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None
    failure_reason: str | None = None


class Tasks(Struct, rename="pascal", omit_defaults=True):
    results: Annotated[list[Task], _listed("ListMessageMoveTasksResultEntry")] = []


class CallerIdentity(Struct, rename="pascal"):
    arn: str
    user_id: str
    account: str
