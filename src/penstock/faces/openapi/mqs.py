"""The mqs API. Queues and messages share no path, but a message is deleted where a queue would be sent to."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import limits
from penstock.faces.mqs.messages import MAX_MESSAGES, MAX_WAIT_S
from penstock.faces.openapi.parts import (
    LARGEST,
    NAME_RULE,
    TEXT,
    Face,
    Operation,
    Part,
    answer,
    body,
    header,
    in_header,
    in_query,
    listed,
    maybe,
    number,
    of_any_type,
    parameter,
    queue_name,
    record,
    schema,
    shared,
    text,
    truth,
)

_TAGS = {
    "mqs": "The Mini Queue Service: queues with settings in whole seconds, and messages of any content type. An "
    "`X-TRACE-ID` of a request comes back in its answer."
}
_TAG = "mqs"

_SECONDS = number(0, limits.INT32_MAX)
_REDRIVE = record({"max_receives": number(1, limits.INT32_MAX), "dead_letter_queue": text("a queue that exists")})
_SETTINGS: Mapping[str, Part] = {
    "redrive_policy": {**maybe(schema("MqsRedrive")), "description": "after so many receives, where a message goes"},
    "retention_timeout": number(1, limits.INT32_MAX, "seconds after its send in which a message is handed out"),
    "visibility_timeout": number(0, limits.INT32_MAX, "seconds for which a received message is hidden"),
    "message_delay": maybe(number(0, limits.INT32_MAX, "seconds before a new message is visible")),
    "message_deduplication": truth("whether a message equal to one in the queue is not stored again"),
}
_ANSWERED: Mapping[str, Part] = {"name": text(), **_SETTINGS, "message_delay": _SECONDS}
_STATUS = record(
    {
        "messages": number(0, None, "ready, delayed and claimed ones"),
        "visible_messages": number(0, None, "those that a receive could return now"),
        "oldest_message_age": number(0, None, "seconds; 0 in an empty queue"),
    }
)
_SCHEMAS = {
    "MqsRedrive": _REDRIVE,
    "MqsSettings": record(_SETTINGS, "redrive_policy", "message_delay", description="Unknown keys are ignored."),
    "MqsQueue": record(_ANSWERED),
    "MqsQueueStatus": record({**_ANSWERED, "status": _STATUS}),
}

_EXAMPLE = {
    "redrive_policy": None,
    "retention_timeout": 86400,
    "visibility_timeout": 30,
    "message_delay": 0,
    "message_deduplication": False,
}
_QUEUE_EXAMPLE = {"name": "orders", **_EXAMPLE}
_ID = "01980f3e-8a51-7c3a-8000-000000000001"

_NAME = parameter("path", "name", text(minLength=1), f"The name of the queue: {NAME_RULE}.", example="orders")
_NEW_NAME = {**_NAME, "schema": queue_name()}
_QUEUE = parameter("path", "queue_or_id", text(minLength=1), "The name of the queue.", example="orders")
_MESSAGE = parameter("path", "queue_or_id", text(format="uuid"), "The id of the message.", example=_ID)
_TRACE = in_header("X-TRACE-ID", text(), "Comes back in the answer.")
_TRACED = {"X-TRACE-ID": header(text(), "that of the request; of a received message, the one it was sent with")}

_GONE = {404: shared("NoSuchQueue")}
_QUEUE_BODY = body(schema("MqsSettings"), _EXAMPLE, "All settings: what may be left out gets its default.")
_QUEUE_ANSWER = answer("The queue.", schema("MqsQueue"), _QUEUE_EXAMPLE, headers=_TRACED)

_MESSAGE_HEADERS = {
    "X-MQS-MESSAGE-ID": header(text(format="uuid"), "for the delete"),
    "X-MQS-MESSAGE-RECEIVES": header(number(1), "how often it has been received, this time included"),
    "X-MQS-MESSAGE-PUBLISHED-AT": header(text(format="date-time"), "when it was sent"),
    "X-MQS-MESSAGE-VISIBLE-AT": header(text(format="date-time"), "when it becomes visible again"),
    "Content-Encoding": header(text(), "as it was sent"),
    **_TRACED,
}
_CUT = header(
    text(const=str(limits.BODY_BYTES)), "the message was longer than this and has been cut off, as the server is set to"
)

_OPERATIONS = {
    "GET /health": Operation(
        id="mqsHealth",
        tag=_TAG,
        summary="Ask for the server's health",
        description="Asks the store as well, and at most once a second writes to it.",
        parameters=(_TRACE,),
        answers={
            200: answer(
                "`red` when the store cannot be used.", text(enum=["green", "red"]), "green", TEXT, headers=_TRACED
            )
        },
    ),
    "GET /queues": Operation(
        id="mqsListQueues",
        tag=_TAG,
        summary="List queues",
        description="In the order of their creation.",
        parameters=(
            in_query("offset", number(0, LARGEST, default=0), "How many to skip."),
            in_query(
                "limit",
                number(0, LARGEST, default=limits.LIST_LIMIT),
                f"So many at most, and never over {limits.LIST_LIMIT:,}.",
            ),
            _TRACE,
        ),
        answers={
            200: answer(
                "A part of them, and how many there are in all.",
                record({"total": number(0), "queues": listed(schema("MqsQueue"))}),
                {"total": 1, "queues": [_QUEUE_EXAMPLE]},
                headers=_TRACED,
            )
        },
    ),
    "PUT /queues/{name}": Operation(
        id="mqsCreateQueue",
        tag=_TAG,
        summary="Create a queue",
        description="That a queue of that name exists is found first, whatever the body says.",
        parameters=(_NEW_NAME, _TRACE),
        body=_QUEUE_BODY,
        answers={
            201: _QUEUE_ANSWER,
            409: answer(
                "There is a queue of that name.",
                schema("Error"),
                {"error": "queue 'orders' already exists"},
                headers=_TRACED,
            ),
        },
    ),
    "POST /queues/{name}": Operation(
        id="mqsUpdateQueue",
        tag=_TAG,
        summary="Replace the settings of a queue",
        description="What is left out gets its default; it does not stay as it was. Messages keep the delay they have.",
        parameters=(_NAME, _TRACE),
        body=_QUEUE_BODY,
        answers={200: _QUEUE_ANSWER, **_GONE},
    ),
    "DELETE /queues/{name}": Operation(
        id="mqsDeleteQueue",
        tag=_TAG,
        summary="Delete a queue and its messages",
        description="Answers the settings it had. Queues that used it for their dead letters have no redrive any more.",
        parameters=(_NAME, _TRACE),
        answers={200: _QUEUE_ANSWER, **_GONE},
    ),
    "GET /queues/{name}": Operation(
        id="mqsDescribeQueue",
        tag=_TAG,
        summary="Show a queue",
        description=f"Past {limits.COUNT_ROWS:,} delayed and claimed messages, `visible_messages` is an upper bound.",
        parameters=(_NAME, _TRACE),
        answers={
            200: answer(
                "Its settings, and what is in it.",
                schema("MqsQueueStatus"),
                {**_QUEUE_EXAMPLE, "status": {"messages": 3, "visible_messages": 2, "oldest_message_age": 61}},
                headers=_TRACED,
            ),
            **_GONE,
        },
    ),
    "POST /messages/{queue}": Operation(
        id="mqsSend",
        tag=_TAG,
        summary="Send a message",
        description="The body is the message: any bytes, up to 1 MiB, with their `Content-Type` and "
        f"`Content-Encoding`. A body of `multipart/mixed` sends each of its 1 to {MAX_MESSAGES} parts as a "
        f"message, all of them or none.",
        parameters=(
            _QUEUE,
            in_header("Content-Encoding", text(maxLength=limits.CONTENT_TYPE_BYTES), "Kept, and never undone."),
            _TRACE,
        ),
        body=of_any_type(body({}, "hello", required=False)),
        answers={
            201: answer("Stored; of several, at least one.", headers={"X-MQS-MESSAGE-TRUNCATED": _CUT, **_TRACED}),
            200: answer(
                "The queue deduplicates and holds an equal message; nothing was stored.",
                headers={"X-MQS-MESSAGE-TRUNCATED": _CUT, **_TRACED},
            ),
            **_GONE,
        },
    ),
    "GET /messages/{queue}": Operation(
        id="mqsReceive",
        tag=_TAG,
        summary="Receive a message",
        description="Takes the oldest visible message and hides it for the queue's visibility timeout. With "
        "`X-MQS-MAX-MESSAGES` over 1, two or more come as `multipart/mixed`, each part with the headers of "
        "one message.",
        parameters=(
            _QUEUE,
            in_header("X-MQS-MAX-MESSAGES", number(1, MAX_MESSAGES, default=1), "So many messages at most."),
            in_header("X-MQS-MAX-WAIT-TIME", number(1, MAX_WAIT_S), "Seconds to wait for a message; without it, none."),
            _TRACE,
        ),
        answers={
            200: of_any_type(
                answer("The message, with the `Content-Type` it was sent with.", {}, headers=_MESSAGE_HEADERS)
            ),
            204: answer("No message is visible.", headers=_TRACED),
            **_GONE,
        },
    ),
    "DELETE /messages/{id}": Operation(
        id="mqsDelete",
        tag=_TAG,
        summary="Delete a message",
        description="Whoever has received it last, or nobody: mqs has no receipts.",
        parameters=(_MESSAGE, _TRACE),
        answers={
            204: answer("It is deleted.", headers=_TRACED),
            404: answer(
                "There is no such message.", schema("Error"), {"error": "the message does not exist"}, headers=_TRACED
            ),
        },
    ),
}

FACE = Face(tags=_TAGS, schemas=_SCHEMAS, operations=_OPERATIONS)
