"""What each operation is asked, in the words of SQS.

JSON is read straight into these; what the older protocol sends as a form is turned into the same (`form.py`). Nothing
is required here and nothing is bounded: what is missing or wrong is refused by the operations, in SQS's own texts.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct, field

# What the log of actions calls this API.
VIA: Final = "sqs"


def _listed(name: str) -> Meta:
    """The name that the items of a list have in a form, before their number."""
    return Meta(extra={"item": name})


def _mapped(name: str, key: str = "Name") -> Meta:
    """The name that the pairs of a map have in a form, and that of their keys."""
    return Meta(extra={"item": name, "key": key})


class AttributeValue(Struct, rename="pascal"):
    """One of the two values, as the type says."""

    data_type: str | None = None
    string_value: str | None = None
    binary_value: bytes | None = None
    string_list_values: Annotated[list[str] | None, _listed("StringListValue")] = None
    binary_list_values: Annotated[list[str] | None, _listed("BinaryListValue")] = None


_AttributeValues = Annotated[dict[str, AttributeValue] | None, _mapped("MessageAttribute")]
_SystemAttributeValues = Annotated[dict[str, AttributeValue] | None, _mapped("MessageSystemAttribute")]
_Texts = Annotated[dict[str, str] | None, _mapped("Attribute")]
_Tags = Annotated[dict[str, str] | None, _mapped("Tag", "Key")]


class QueueRequest(Struct, rename="pascal"):
    """All that DeleteQueue, PurgeQueue and ListQueueTags are told."""

    queue_url: str | None = None


class CreateQueueRequest(Struct, rename="pascal"):
    queue_name: str | None = None
    attributes: _Texts = None
    tags: _Tags = field(name="tags", default=None)


class GetQueueUrlRequest(Struct, rename="pascal"):
    queue_name: str | None = None


class ListQueuesRequest(Struct, rename="pascal"):
    queue_name_prefix: str | None = None
    next_token: str | None = None
    max_results: int | None = None


class ListDeadLetterSourceQueuesRequest(Struct, rename="pascal"):
    queue_url: str | None = None
    next_token: str | None = None
    max_results: int | None = None


class GetQueueAttributesRequest(Struct, rename="pascal"):
    queue_url: str | None = None
    attribute_names: Annotated[list[str] | None, _listed("AttributeName")] = None


class SetQueueAttributesRequest(Struct, rename="pascal"):
    queue_url: str | None = None
    attributes: _Texts = None


class TagQueueRequest(Struct, rename="pascal"):
    queue_url: str | None = None
    tags: _Tags = None


class UntagQueueRequest(Struct, rename="pascal"):
    queue_url: str | None = None
    tag_keys: Annotated[list[str] | None, _listed("TagKey")] = None


class AddPermissionRequest(Struct, rename="pascal"):
    queue_url: str | None = None
    label: str | None = None
    account_ids: Annotated[list[str] | None, _listed("AWSAccountId")] = field(name="AWSAccountIds", default=None)
    actions: Annotated[list[str] | None, _listed("ActionName")] = None


class RemovePermissionRequest(Struct, rename="pascal"):
    queue_url: str | None = None
    label: str | None = None


class SendMessageRequest(Struct, rename="pascal"):
    queue_url: str | None = None
    message_body: str | None = None
    delay_seconds: int | None = None
    message_attributes: _AttributeValues = None
    message_system_attributes: _SystemAttributeValues = None
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class SendEntry(Struct, rename="pascal"):
    id: str | None = None
    message_body: str | None = None
    delay_seconds: int | None = None
    message_attributes: _AttributeValues = None
    message_system_attributes: _SystemAttributeValues = None
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class SendMessageBatchRequest(Struct, rename="pascal"):
    queue_url: str | None = None
    entries: Annotated[list[SendEntry] | None, _listed("SendMessageBatchRequestEntry")] = None


class ReceiveMessageRequest(Struct, rename="pascal"):
    queue_url: str | None = None
    attribute_names: Annotated[list[str] | None, _listed("AttributeName")] = None
    message_system_attribute_names: Annotated[list[str] | None, _listed("MessageSystemAttributeName")] = None
    message_attribute_names: Annotated[list[str] | None, _listed("MessageAttributeName")] = None
    max_number_of_messages: int | None = None
    visibility_timeout: int | None = None
    wait_time_seconds: int | None = None
    receive_request_attempt_id: str | None = None


class DeleteMessageRequest(Struct, rename="pascal"):
    queue_url: str | None = None
    receipt_handle: str | None = None


class DeleteEntry(Struct, rename="pascal"):
    id: str | None = None
    receipt_handle: str | None = None


class DeleteMessageBatchRequest(Struct, rename="pascal"):
    queue_url: str | None = None
    entries: Annotated[list[DeleteEntry] | None, _listed("DeleteMessageBatchRequestEntry")] = None


class ChangeMessageVisibilityRequest(Struct, rename="pascal"):
    queue_url: str | None = None
    receipt_handle: str | None = None
    visibility_timeout: int | None = None


class VisibilityEntry(Struct, rename="pascal"):
    id: str | None = None
    receipt_handle: str | None = None
    visibility_timeout: int | None = None


class ChangeMessageVisibilityBatchRequest(Struct, rename="pascal"):
    queue_url: str | None = None
    entries: Annotated[list[VisibilityEntry] | None, _listed("ChangeMessageVisibilityBatchRequestEntry")] = None


class StartMessageMoveTaskRequest(Struct, rename="pascal"):
    source_arn: str | None = None
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None


class ListMessageMoveTasksRequest(Struct, rename="pascal"):
    source_arn: str | None = None
    max_results: int | None = None


class CancelMessageMoveTaskRequest(Struct, rename="pascal"):
    task_handle: str | None = None


class GetCallerIdentityRequest(Struct):
    """Of another service: what tools ask before anything else."""
