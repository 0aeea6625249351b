"""EmoDB: the same thirteen operations for each of its two services."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import limits
from penstock.faces.emodb.messages import DEFAULT_LIMIT, DEFAULT_TTL_S, LARGEST_LIMIT, LONGEST_TTL_S
from penstock.faces.emodb.service import DEDUP_QUEUE_SERVICE, QUEUE_SERVICE
from penstock.faces.openapi.components import THROWN
from penstock.faces.openapi.parts import (
    LARGEST,
    TEXT,
    Face,
    Operation,
    Part,
    answer,
    body,
    in_query,
    listed,
    number,
    parameter,
    record,
    schema,
    shared,
    text,
    truth,
)

_SERVICES = {
    "EmoDB queue": (QUEUE_SERVICE.base, "queue"),
    "EmoDB dedup queue": (DEDUP_QUEUE_SERVICE.base, "dedupQueue"),
}
_TAGS = {
    "EmoDB queue": "The QueueService. A message is any JSON value. Queues come into being with their first message, "
    "and one that does not exist is an empty one. The parameter `partitioned` of EmoDB's own clients is "
    "accepted and ignored.",
    "EmoDB dedup queue": "The DedupQueueService: the same, but equal messages become one when they are polled. Its "
    "queues are a name space of their own.",
}

_ID = "01980f3e-8a51-7c3a-8000-000000000001"

_SCHEMAS: Mapping[str, Part] = {
    "EmoDBSuccess": record({"success": truth()}),
    "EmoDBMessage": record(
        {"id": text("for ack and renew"), "payload": {"description": "the message, any JSON value"}}
    ),
    "EmoDBMove": record(
        {
            "from": text("the queue that is emptied"),
            "to": text("the queue that is filled"),
            "status": text("`ERROR`: the target was deleted meanwhile", enum=["IN_PROGRESS", "COMPLETE", "ERROR"]),
        }
    ),
}

_NAME = text(minLength=1, maxLength=limits.NAME_LENGTH, pattern=r"^(?!\.{1,2}$)(?!_(?!_))[a-z0-9.:@_-]+$")
_NAME_RULE = "1 to 255 of `a-z 0-9 - . : @ _`, neither `.` nor `..`, and no single underscore in front"
_QUEUE = parameter("path", "queue", _NAME, f"The name of the queue: {_NAME_RULE}.", example="orders")
_LIMIT = in_query("limit", number(1, LARGEST_LIMIT, default=DEFAULT_LIMIT), "So many messages at most.")
_TTL = in_query("ttl", number(0, LONGEST_TTL_S, default=DEFAULT_TTL_S), "How many seconds the claims last.")

_DONE = answer("Done.", schema("EmoDBSuccess"), {"success": True})
_MESSAGES = answer(
    "The messages, perhaps none.",
    listed(schema("EmoDBMessage")),
    [{"id": _ID, "payload": {"order": 1}}],
)
_NOT_JSON = answer("The content type is not `application/json`.", text(), media=TEXT)
_COUNT = answer("The count, as a bare number.", number(0), 3)
_IDS = body(listed(text("the id of a message"), maxItems=limits.ACK_LIMIT), [_ID], "The ids of messages.")
_ANY_JSON: Part = {"description": "any JSON value, at most 1 MiB and 500 levels deep"}

_BY_QUEUE: Part = {"type": "object", "propertyNames": _NAME, "additionalProperties": listed(_ANY_JSON)}


def _operations(tag: str, base: str, prefix: str) -> dict[str, Operation]:
    return {**_messages(tag, base, prefix), **_administration(tag, base, prefix)}


def _messages(tag: str, base: str, prefix: str) -> dict[str, Operation]:
    queue = f"{base}/{{queue}}"
    by_queue = {"orders": [{"order": 1}, {"order": 2}], "mails": ["hello"]}
    return {
        f"POST {base}/_sendbatch": Operation(
            id=f"{prefix}SendBatchByQueue",
            tag=tag,
            summary="Send to several queues",
            description="All messages are sent, or none: one bad name or one queue without permission refuses "
            "them all.",
            body=body(_BY_QUEUE, by_queue, "Messages by queue."),
            answers={200: _DONE, 415: _NOT_JSON},
        ),
        f"POST {queue}/send": Operation(
            id=f"{prefix}Send",
            tag=tag,
            summary="Send a message",
            description="The body is the message.",
            parameters=(_QUEUE,),
            body=body(_ANY_JSON, {"order": 1}),
            answers={200: _DONE, 415: _NOT_JSON},
        ),
        f"POST {queue}/sendbatch": Operation(
            id=f"{prefix}SendBatch",
            tag=tag,
            summary="Send messages",
            description=f"At most {limits.SEND_LIMIT:,} messages and 16 MiB. All are sent, or none.",
            parameters=(_QUEUE,),
            body=body(listed(_ANY_JSON, maxItems=limits.SEND_LIMIT), [{"order": 1}, {"order": 2}]),
            answers={200: _DONE, 415: _NOT_JSON},
        ),
        f"GET {queue}/poll": Operation(
            id=f"{prefix}Poll",
            tag=tag,
            summary="Claim messages",
            description="Hides messages from other polls for `ttl` seconds and answers them, oldest first. With "
            "`ttl=0` it hands them out and claims nothing. What another API has sent and is not JSON comes as a text, "
            "or in base64 where it is no UTF-8 either.",
            parameters=(_QUEUE, _TTL, _LIMIT),
            answers={200: _MESSAGES},
        ),
        f"POST {queue}/ack": Operation(
            id=f"{prefix}Ack",
            tag=tag,
            summary="Finish messages",
            description="They are gone for good. An id that is not, or no longer, in this queue is no error.",
            parameters=(_QUEUE,),
            body=_IDS,
            answers={200: _DONE, 415: _NOT_JSON},
        ),
        f"POST {queue}/renew": Operation(
            id=f"{prefix}Renew",
            tag=tag,
            summary="Hold messages for longer",
            description="Their claims last at least `ttl` seconds from now. `ttl=0` releases them instead.",
            parameters=(_QUEUE, _TTL),
            body=_IDS,
            answers={200: _DONE, 415: _NOT_JSON},
        ),
        f"GET {queue}/peek": Operation(
            id=f"{prefix}Peek",
            tag=tag,
            summary="Look at messages",
            description="As poll, but it ignores claims and changes nothing.",
            parameters=(_QUEUE, _LIMIT),
            answers={200: _MESSAGES},
        ),
    }


def _administration(tag: str, base: str, prefix: str) -> dict[str, Operation]:
    queue = f"{base}/{{queue}}"
    return {
        f"GET {queue}/size": Operation(
            id=f"{prefix}Size",
            tag=tag,
            summary="Count messages",
            description="Claimed ones included, exact at any depth. A `limit` is checked and then not needed.",
            parameters=(_QUEUE, in_query("limit", number(1, LARGEST), "Checked, and then not needed.")),
            answers={200: _COUNT},
        ),
        f"GET {queue}/claimcount": Operation(
            id=f"{prefix}ClaimCount",
            tag=tag,
            summary="Count claimed messages",
            description=f"Exact up to {limits.COUNT_ROWS:,}, and that number beyond.",
            parameters=(_QUEUE,),
            answers={200: _COUNT},
        ),
        f"DELETE {queue}": Operation(
            id=f"{prefix}Purge",
            tag=tag,
            summary="Delete all messages",
            description="Every message that is in the queue now, claimed or not. The queue and its settings stay.",
            parameters=(_QUEUE,),
            answers={200: _DONE},
        ),
        f"POST {queue}/unclaimall": Operation(
            id=f"{prefix}UnclaimAll",
            tag=tag,
            summary="Release every claim",
            description="All claimed messages of the queue can be polled again at once.",
            parameters=(_QUEUE,),
            answers={200: _DONE},
        ),
        f"POST {base}/_move": Operation(
            id=f"{prefix}Move",
            tag=tag,
            summary="Move all messages to another queue",
            description="Starts the move and answers at once; it goes on in the background, also after a restart. What "
            "is claimed goes along and arrives unclaimed; what is sent after the start stays.",
            parameters=(
                {
                    **in_query("from", _NAME, f"The queue to empty: {_NAME_RULE}."),
                    "required": True,
                    "example": "orders",
                },
                {**in_query("to", _NAME, "The queue to fill; it is made if there is none."), "required": True}
                | {"example": "archive"},
            ),
            answers={
                200: answer("The move has started.", record({"id": text("its reference")}), {"id": _ID}),
                409: answer("One of the two queues is part of another move.", text(), media=TEXT),
            },
        ),
        f"GET {base}/_move/{{reference}}": Operation(
            id=f"{prefix}MoveStatus",
            tag=tag,
            summary="Ask how a move goes",
            description="It can be asked for until a day after its end.",
            parameters=(parameter("path", "reference", text(minLength=1), "What the start answered.", example=_ID),),
            answers={
                200: answer(
                    "How it goes.",
                    schema("EmoDBMove"),
                    {"from": "orders", "to": "archive", "status": "COMPLETE"},
                ),
                404: answer(
                    "There is no such move.",
                    record({"id": text(), "message": text()}),
                    {"id": "no-such-move", "message": "there is no move 'no-such-move'"},
                    headers={"X-BV-Exception": THROWN},
                ),
            },
        ),
    }


FACE = Face(
    tags=_TAGS,
    schemas=_SCHEMAS,
    operations={
        asked: operation
        for tag, (base, prefix) in _SERVICES.items()
        for asked, operation in _operations(tag, base, prefix).items()
    },
    # A bad key is always 403 here, and most reasons are plain text.
    own={
        400: shared("EmoDBBadRequest"),
        403: shared("EmoDBNotAuthorized"),
        413: shared("EmoDBTooLarge"),
        503: shared("EmoDBTryAgain"),
    },
    never=frozenset({401}),
)
