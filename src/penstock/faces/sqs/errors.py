"""What goes wrong, in the words of SQS: one table from errors to codes, classes, statuses and texts.

An error has two names. Old clients read the `code` from XML, current ones from the header `x-amzn-query-error`; the
`shape` is the class that current ones raise. Whose fault it is decides whether they try again by themselves.
"""

from __future__ import annotations

import logging
from typing import Final

from msgspec import Struct

from penstock.errors import (
    CallerError,
    DeadLetterQueueNotFound,
    FeatureMissing,
    MoveConflict,
    MoveNotFound,
    NotPermitted,
    QueueNotFound,
    TryAgain,
)

log = logging.getLogger(__name__)

_OF_SQS: Final = "com.amazonaws.sqs#"
_OF_ALL: Final = "com.amazon.coral.service#"


class Fault(Struct, frozen=True):
    """`of_sqs` says that the class is one of SQS; others belong to all services of AWS."""

    code: str
    name: str
    status: int = 400
    is_ours: bool = False
    of_sqs: bool = True

    @property
    def shape(self) -> str:
        return (_OF_SQS if self.of_sqs else _OF_ALL) + self.name

    @property
    def whose(self) -> str:
        return "Receiver" if self.is_ours else "Sender"


def _own(name: str, status: int = 400) -> Fault:
    """One whose code and class are the same word."""
    return Fault(name, name, status)


def _prefixed(name: str) -> Fault:
    return Fault(f"AWS.SimpleQueueService.{name}", name)


NO_QUEUE: Final = Fault("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
QUEUE_EXISTS: Final = Fault("QueueAlreadyExists", "QueueNameExists")
ATTRIBUTE_NAME: Final = _own("InvalidAttributeName")
ATTRIBUTE_VALUE: Final = _own("InvalidAttributeValue")
PARAMETER: Final = Fault("InvalidParameterValue", "InvalidParameterValueException", of_sqs=False)
MISSING: Final = Fault("MissingParameter", "MissingRequiredParameterException", of_sqs=False)
CONTENTS: Final = _own("InvalidMessageContents")
RECEIPT: Final = _own("ReceiptHandleIsInvalid")
EMPTY_BATCH: Final = _prefixed("EmptyBatchRequest")
LONG_BATCH: Final = _prefixed("TooManyEntriesInBatchRequest")
SAME_IDS: Final = _prefixed("BatchEntryIdsNotDistinct")
ENTRY_ID: Final = _prefixed("InvalidBatchEntryId")
LARGE_BATCH: Final = _prefixed("BatchRequestTooLong")
UNSUPPORTED: Final = _prefixed("UnsupportedOperation")
NO_RESOURCE: Final = _own("ResourceNotFoundException", 404)
OVER_LIMIT: Final = _own("OverLimit", 403)
ACTION: Final = Fault("InvalidAction", "UnknownOperationException", of_sqs=False)
NO_ACTION: Final = Fault("MissingAction", "MissingActionException", of_sqs=False)
UNREADABLE: Final = Fault("SerializationException", "SerializationException", of_sqs=False)
TOO_LARGE: Final = Fault("RequestEntityTooLarge", "RequestEntityTooLargeException", 413, of_sqs=False)
TOO_SLOW: Final = Fault("RequestTimeout", "RequestTimeoutException", 408, of_sqs=False)
NO_TOKEN: Final = Fault("MissingAuthenticationToken", "MissingAuthenticationTokenException", 403, of_sqs=False)
UNKNOWN_TOKEN: Final = Fault("InvalidClientTokenId", "UnrecognizedClientException", 403, of_sqs=False)
SIGNATURE: Final = Fault("SignatureDoesNotMatch", "InvalidSignatureException", 403, of_sqs=False)
BAD_SIGNATURE: Final = Fault("IncompleteSignature", "IncompleteSignatureException", of_sqs=False)
THROTTLED: Final = _own("RequestThrottled", 403)
DENIED: Final = Fault("AccessDenied", "AccessDeniedException", 403, of_sqs=False)
UNAVAILABLE: Final = Fault("ServiceUnavailable", "ServiceUnavailableException", 503, is_ours=True, of_sqs=False)
FAILED: Final = Fault("InternalFailure", "InternalFailure", 500, is_ours=True, of_sqs=False)

# The only text that differs between the protocols.
NO_QUEUE_TEXT: Final = "The specified queue does not exist."
NO_QUEUE_TEXT_IN_XML: Final = "The specified queue does not exist for this wsdl version."


class Rejection(CallerError):
    """A request, or an entry of a batch, that is answered with an error."""

    def __init__(self, fault: Fault, text: str, retry_after_s: int | None = None) -> None:
        super().__init__(text)
        self.fault = fault
        self.text = text
        self.retry_after_s = retry_after_s


def wrong(text: str) -> Rejection:
    return Rejection(PARAMETER, text)


def wrong_value(value: object, parameter: str, reason: str) -> Rejection:
    return wrong(f"Value {value} for parameter {parameter} is invalid. Reason: {reason}")


def missing(parameter: str) -> Rejection:
    return Rejection(MISSING, f"The request must contain the parameter {parameter}.")


def wrong_attribute(name: str, reason: str = "") -> Rejection:
    """The value of an attribute of a queue."""
    return Rejection(
        ATTRIBUTE_VALUE, f"Invalid value for the parameter {name}.{f' Reason: {reason}' if reason else ''}"
    )


def unknown_attribute(name: str) -> Rejection:
    return Rejection(ATTRIBUTE_NAME, f"Unknown Attribute {name}.")


def no_queue() -> Rejection:
    return Rejection(NO_QUEUE, NO_QUEUE_TEXT)


def told(error: Exception) -> Rejection:
    """Any error in these words."""
    match error:
        case Rejection():
            return error
        case QueueNotFound():
            return no_queue()
        case DeadLetterQueueNotFound():
            return wrong_value(error.name, "RedrivePolicy", "Dead letter target does not exist.")
        case MoveConflict():
            return wrong(
                "There is already a task running. Only one active task is allowed for a source queue arn at a given "
                "time."
            )
        case MoveNotFound():
            return Rejection(NO_RESOURCE, "Task does not exist.")
        case NotPermitted():
            return Rejection(DENIED, str(error))
        case CallerError():
            return wrong(str(error))
        case FeatureMissing():
            return Rejection(UNSUPPORTED, str(error))
        case TryAgain():
            return Rejection(UNAVAILABLE, str(error), error.retry_after_s)
        case _:
            log.error("a request failed", exc_info=error)
            return Rejection(FAILED, "the server hit an unexpected error; its log says more")
