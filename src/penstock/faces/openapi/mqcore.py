"""MQ-Core: six operations at the root of all paths."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.faces.openapi.parts import (
    Face,
    Operation,
    answer,
    body,
    header,
    of_any_type,
    parameter,
    shared,
    text,
)

_TAG = "MQ-Core"
_TAGS = {
    _TAG: "Six endpoints at the root. Queues have no settings, a message that was fetched comes back after a while "
    "unless it is deleted, and words that other APIs begin their paths with are no queues here."
}

# No pattern: a name that no queue can have is one that does not exist, which is no mistake in most requests.
_QUEUE = parameter(
    "path",
    "queue",
    text(minLength=1),
    "Its name: 1 to 255 of `A-Z a-z 0-9 . _ @ -`, neither `.` nor `..`, and no reserved word.",
    example="orders",
)
_ID = parameter(
    "path", "id", text(minLength=1), "The id of the message.", example="01980f3e-8a51-7c3a-8000-000000000001"
)
_MESSAGE_ID = {"X-Message-Id": header(text(format="uuid"), "the id of the message", required=True)}

_OPERATIONS: Mapping[str, Operation] = {
    "PUT /{queue}": Operation(
        id="mqcoreCreateQueue",
        tag=_TAG,
        summary="Create a queue",
        description="Makes a queue with default settings. That it exists already is no error. A body is read "
        "and dropped.",
        parameters=(_QUEUE,),
        answers={201: answer("The queue exists now.")},
    ),
    "GET /{queue}": Operation(
        id="mqcoreFindQueue",
        tag=_TAG,
        summary="Ask whether a queue exists",
        description="The status is the whole answer; there is no body.",
        parameters=(_QUEUE,),
        answers={200: answer("It exists."), 404: answer("There is no such queue.")},
    ),
    "DELETE /{queue}": Operation(
        id="mqcoreDeleteQueue",
        tag=_TAG,
        summary="Delete a queue and its messages",
        description="That there is none is no error.",
        parameters=(_QUEUE,),
        answers={200: answer("The queue does not exist any more.")},
    ),
    "POST /{queue}/messages": Operation(
        id="mqcoreSend",
        tag=_TAG,
        summary="Send a message",
        description="The body is the message: any bytes, up to 1 MiB. Its `Content-Type` comes back with it.",
        parameters=(_QUEUE,),
        body=of_any_type(body({}, "hello", required=False)),
        answers={
            201: answer("The message is on stable media.", headers=_MESSAGE_ID),
            404: shared("NoSuchQueue"),
        },
    ),
    "GET /{queue}/messages": Operation(
        id="mqcoreFetch",
        tag=_TAG,
        summary="Fetch the oldest message",
        description="Nobody else gets the message for a while, 10 seconds unless the server is set otherwise. Then it "
        "is back in its old place, unless it was deleted meanwhile.",
        parameters=(_QUEUE,),
        answers={
            200: of_any_type(answer("The message, with the `Content-Type` it was sent with.", {}, headers=_MESSAGE_ID)),
            204: answer("There is no message to fetch, or no such queue."),
        },
    ),
    "DELETE /{queue}/messages/{id}": Operation(
        id="mqcoreDeleteMessage",
        tag=_TAG,
        summary="Delete a message",
        description="Fetched or not. Whoever knows the id can delete the message.",
        parameters=(_QUEUE, _ID),
        answers={202: answer("The message is gone, or has been before.")},
    ),
}

FACE = Face(tags=_TAGS, schemas={}, operations=_OPERATIONS)
