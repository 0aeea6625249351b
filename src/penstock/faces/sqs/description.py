"""What is said of the routes. An operation of SQS is not a route: it is named in a header or a parameter, and what it
takes and answers is in the documentation of AWS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from penstock.faces.answers import Error
from penstock.faces.description import JSON, Op, Param, Part, Shared, Tag, also, answer, body, header, text
from penstock.faces.refusals import FOREIGN, RETRY_AFTER
from penstock.faces.sqs.answers import JSON_MEDIA, XML_MEDIA

NAMES: Final = (
    "AddPermission",
    "CancelMessageMoveTask",
    "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch",
    "CreateQueue",
    "DeleteMessage",
    "DeleteMessageBatch",
    "DeleteQueue",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListDeadLetterSourceQueues",
    "ListMessageMoveTasks",
    "ListQueues",
    "ListQueueTags",
    "PurgeQueue",
    "ReceiveMessage",
    "RemovePermission",
    "SendMessage",
    "SendMessageBatch",
    "SetQueueAttributes",
    "StartMessageMoveTask",
    "TagQueue",
    "UntagQueue",
)

_FORM: Final = "application/x-www-form-urlencoded"
_EXAMPLE_URL: Final = "http://127.0.0.1:8080/000000000000/orders"
_ID_EXAMPLE: Final = "8e9d1c0a-52cc-4d9e-9a5e-000000000001"


class RejectionShape(Struct):
    """Why a request was not served, in the words of SQS. Its code is in the header `x-amzn-query-error`."""

    type: Annotated[str, Meta(description="the class of the error, after its service")] = msgspec.field(name="__type")
    message: Annotated[str, Meta(description="what is wrong, for people")]


_REQUEST_ID: Final = Shared(
    "headers", "AwsRequestId", header(text(), "the id of this answer, which is in no other", required=True)
)
_QUERY_ERROR: Final = Shared(
    "headers",
    "AwsQueryError",
    header(text(), "in JSON: the code of the error, and whose fault it is, as `InvalidParameterValue;Sender`"),
)


def _refusal(description: str, code: str, message: str, headers: Mapping[str, Part | Shared] | None = None) -> Part:
    shown = {"x-amzn-RequestId": _REQUEST_ID, "x-amzn-query-error": _QUERY_ERROR, **(headers or {})}
    example = {"__type": f"com.amazonaws.sqs#{code}", "message": message}
    return also(
        answer(description, RejectionShape, example, JSON_MEDIA, shown),
        XML_MEDIA,
        text(),
        "<ErrorResponse><Error><Type>Sender</Type><Code>…</Code><Message>…</Message></Error></ErrorResponse>",
    )


_LATER: Final = {"Retry-After": RETRY_AFTER}
_OWN: Final[Mapping[int, Part]] = {
    400: _refusal(
        "The request is malformed, a value is missing, does not parse or is out of range, or there is no such queue.",
        "QueueDoesNotExist",
        "The specified queue does not exist.",
    ),
    403: _refusal(
        f"The credentials are missing, unknown or wrong, or their key does not permit it. {FOREIGN}",
        "AccessDeniedException",
        "this API key does not permit it: it needs queue|post|orders",
    ),
    408: _refusal("The request did not arrive in time.", "RequestTimeoutException", "too slow"),
    413: _refusal("The request is too long.", "RequestEntityTooLargeException", "the body is too long"),
    414: _refusal("The path and query together are too long.", "InvalidRequestException", "the target is too long"),
    417: _refusal("`Expect` asks for anything but `100-continue`.", "InvalidRequestException", "unknown expectation"),
    431: _refusal("There are too many headers.", "InvalidRequestException", "too many headers"),
    500: _refusal(
        "The server hit an error that it did not expect; its log says more.",
        "InternalFailure",
        "the server hit an unexpected error; its log says more",
    ),
    501: _refusal("A transfer coding other than `chunked`.", "ServiceUnavailableException", "unknown transfer coding"),
    503: _refusal(
        "Not now: the store is busy, full or does not answer. SDKs try again by themselves.",
        "ServiceUnavailableException",
        "the store is busy",
        _LATER,
    ),
}

TAG: Final = Tag(
    "SQS",
    "Amazon SQS, version 2012-11-05: every operation, for every SDK, in both protocols. What an operation takes and "
    "answers is in the documentation of AWS; what is different here is on the page about this API. A caller needs "
    "`post` to send, `poll` to receive, delete, hide and purge, `get_status` to look, and `admin` to change queues.",
    own=_OWN,
    never=frozenset({401, 429}),
)
_TARGET: Final = Param(
    "X-Amz-Target",
    text(enum=[f"AmazonSQS.{name}" for name in NAMES]),
    "In JSON: the operation.",
    where="header",
    example="AmazonSQS.ListQueues",
)
_ACTION: Final = Param("Action", text(enum=list(NAMES)), "The operation.", required=True, example="ListQueues")
_VERSION: Final = Param("Version", text(), "2012-11-05; any other is read alike.", example="2012-11-05")
_NAME: Final = Param("name", text(minLength=1), "The name of the queue.", where="path", example="orders")
_ACCOUNT: Final = Param(
    "account", text(pattern="^[0-9]+$"), "Any account: there is one queue of a name.", where="path", example="1"
)

_DONE: Final = also(
    answer(
        "Done. What is empty is absent.",
        {"type": "object"},
        {"QueueUrls": [_EXAMPLE_URL]},
        JSON_MEDIA,
        {"x-amzn-RequestId": _REQUEST_ID},
    ),
    XML_MEDIA,
    text(),
    "<ListQueuesResponse><ListQueuesResult>…</ListQueuesResult>"
    f"<ResponseMetadata><RequestId>{_ID_EXAMPLE}</RequestId></ResponseMetadata></ListQueuesResponse>",
)
_IN_XML: Final = answer(
    "Done. What is empty is absent.",
    text(),
    "<ListQueuesResponse>…</ListQueuesResponse>",
    XML_MEDIA,
    {"x-amzn-RequestId": _REQUEST_ID},
)
_NOT_THERE: Final = _refusal(
    "A move task, or a queue that one is about, does not exist; or a request asks for nothing.",
    "ResourceNotFoundException",
    "Task does not exist.",
)
_BODY: Final = also(
    body({"type": "object"}, {"QueueNamePrefix": "ord"}, "The parameters of the operation.", JSON_MEDIA),
    _FORM,
    {"type": "object", "properties": {"Action": text(enum=list(NAMES))}, "required": ["Action"]},
    {"Action": "ListQueues", "Version": "2012-11-05"},
)


# Two words of which the first is not an account are a path that no API knows, and answered like any other.
_NOT_THERE_AT_ALL: Final = also(
    {**_NOT_THERE, "headers": {"x-amzn-query-error": _QUERY_ERROR}}, JSON, Error, {"error": "not found"}
)


def _post(op_id: str, summary: str, description: str, *path: Param, missing: Part = _NOT_THERE) -> Op:
    return Op(
        id=op_id,
        tag=TAG,
        summary=summary,
        description=f"{description} In JSON, the header `X-Amz-Target` names the operation; in a form, the parameter "
        "`Action` does, and the answer is XML.",
        parameters=(*path, _TARGET),
        body=_BODY,
        answers={200: _DONE, 404: missing},
    )


def _get(op_id: str, summary: str, description: str, *path: Param, missing: Part = _NOT_THERE) -> Op:
    return Op(
        id=op_id,
        tag=TAG,
        summary=summary,
        description=f"{description} The parameters are in the query, and the answer is XML.",
        parameters=(*path, _ACTION, _VERSION),
        answers={200: _IN_XML, 404: missing},
    )


_ANY: Final = "The same as with this server's own account, by any other."

POST: Final = _post("sqs", "An operation of SQS", "All operations of SQS.")
_GET: Final = _get(
    "sqsByQuery",
    "An operation of SQS, in the query",
    "Only with an `Action`: without one, this is the page for people, or for programs what server this is.",
)
_AT_ROOT: Final = also(also({**_IN_XML, "headers": {}}, JSON, {"type": "object"}), "text/html", text())
GET: Final = msgspec.structs.replace(
    _GET,
    parameters=(Param("Action", text(enum=list(NAMES)), "The operation.", example="ListQueues"), _VERSION),
    answers={**_GET.answers, 200: _AT_ROOT},
)
POST_QUEUE: Final = _post(
    "sqsOfQueue",
    "An operation of SQS on a queue",
    "Where no `QueueUrl` is given, it is about the queue of this URL.",
    _NAME,
)
GET_QUEUE: Final = _get(
    "sqsOfQueueByQuery",
    "An operation of SQS on a queue, in the query",
    "Where no `QueueUrl` is given, it is about the queue of this URL.",
    _NAME,
)
POST_ANY_ACCOUNT: Final = _post(
    "sqsOfAccount",
    "An operation of SQS on a queue of any account",
    _ANY,
    _ACCOUNT,
    _NAME,
    missing=_NOT_THERE_AT_ALL,
)
GET_ANY_ACCOUNT: Final = _get(
    "sqsOfAccountByQuery",
    "An operation of SQS on a queue of any account, in the query",
    _ANY,
    _ACCOUNT,
    _NAME,
    missing=_NOT_THERE_AT_ALL,
)
