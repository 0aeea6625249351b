"""Messages of the native API."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import limits
from penstock.faces.native.drafts import SendMessage, SendRequest
from penstock.faces.native.messages import ClaimRequest, PurgeRequest, ReceiptsRequest, ReleaseRequest, RenewRequest
from penstock.faces.openapi import structs
from penstock.faces.openapi.native_queues import GONE, QUEUE
from penstock.faces.openapi.parts import (
    ARROW,
    Operation,
    Part,
    also,
    answer,
    body,
    header,
    in_header,
    in_query,
    instant,
    listed,
    maybe,
    number,
    record,
    schema,
    text,
    truth,
)
from penstock.model import Sent, SentOnce

TAG = "native messages"
TAGS: Mapping[str, str] = {
    TAG: "Send, claim, ack and what lies between, many at a time. In bulk messages travel as JSON lines or as an Arrow "
    "stream (`application/vnd.apache.arrow.stream`): ask for it with `Accept`, send it with `Content-Type`. A server "
    "that was installed without Arrow answers 501."
}

_DURATION: Part = {"minimum": 0, "maximum": limits.DURATION_MS}
_RECEIPTS: Part = {
    "items": text(pattern=r"^[^.]*(\.[0-9]{1,18})?$"),
    "minItems": 1,
    "maxItems": limits.ACK_LIMIT,
    "description": "a message's id, a dot, and the number of the claim; or the id alone, whoever holds the message",
}
_MESSAGE: Mapping[str, Part] = {
    "id": text(),
    "queue": text(),
    "content_type": maybe(text()),
    "attributes": {"type": "object", "additionalProperties": text()},
    "sent_at": instant(),
    "ready_at": instant("the end of its claim or delay; 0 when it is ready"),
    "receives": number(0, None, "how often it has been handed out"),
    "came_from": maybe(text("of a dead letter: the queue in which it could not be dealt with")),
    "body": text("the bytes, where they are UTF-8; an empty message has an empty one"),
    "body_base64": text("the bytes, where they are not UTF-8; then there is no `body`", contentEncoding="base64"),
}
# A message has one of the two. That is said in words: as alternatives in the schema it makes two classes of one message
# in the clients that are generated from it.
_BODIES = ("body", "body_base64")

_SEND_MESSAGE = structs.taken(
    SendMessage,
    {
        "body": {"description": "text, stored as UTF-8"},
        "body_base64": {"contentEncoding": "base64", "description": "bytes; a message has one of the two, up to 1 MiB"},
        "content_type": {"maxLength": limits.CONTENT_TYPE_BYTES, "description": "printable characters"},
        "attributes": {"description": "at most 64 KiB as JSON"},
        "delay_ms": {**_DURATION, "description": "instead of the queue's own delay"},
    },
)
SCHEMAS: Mapping[str, Part] = {
    **structs.taken(SendRequest, {"messages": {"minItems": 1, "maxItems": limits.SEND_LIMIT}}),
    **_SEND_MESSAGE,
    **structs.answered(Sent, {}),
    "SentEach": record({"sent": listed(schema("Sent"))}),
    **structs.answered(SentOnce, {"stored": {"description": "those that were not twins of messages in the queue"}}),
    **structs.taken(
        ClaimRequest,
        {
            "limit": {"minimum": 1, "maximum": limits.BULK_LIMIT, "description": "so many messages at most"},
            "hold_ms": {**_DURATION, "description": "how long to hold them; by default the queue's `visibility_ms`"},
            "wait_ms": {"minimum": 0, "maximum": limits.WAIT_MS, "description": "how long to wait for the first one"},
        },
    ),
    **structs.taken(ReceiptsRequest, {"receipts": _RECEIPTS}),
    **structs.taken(RenewRequest, {"receipts": _RECEIPTS, "hold_ms": _DURATION}),
    **structs.taken(
        ReleaseRequest,
        {
            "receipts": _RECEIPTS,
            "delay_ms": {
                **_DURATION,
                "description": "how long nobody can claim them; by default as the queue's `backoff` says",
            },
        },
    ),
    **structs.taken(
        PurgeRequest, {"older_than_ms": {**_DURATION, "description": "only messages that were sent longer ago"}}
    ),
    "Message": record(_MESSAGE, *_BODIES),
    "ClaimedMessage": record({**_MESSAGE, "receipt": text("for ack, renew and release")}, *_BODIES),
    "Done": record({"done": listed(truth("false: the receipt is stale, or the message not in this queue"))}),
}

ID = "01980f3e-8a51-7c3a-8000-000000000001"
RECEIPT = f"{ID}.1"
BYTES: Part = {"description": "an Arrow IPC stream"}
MESSAGE_EXAMPLE = {
    "id": ID,
    "queue": "orders",
    "content_type": "text/plain",
    "attributes": {"kind": "test"},
    "sent_at": 1_760_000_000_000,
    "ready_at": 1_760_000_030_000,
    "receives": 1,
    "came_from": None,
    "body": "one",
}
NEXT = header(text(), "where the next page begins; not there at the end")

_LINES = "application/x-ndjson"
_SENT = answer(
    "All are stored. A JSON object that came without an `Idempotency-Key` is answered with one result each, everything "
    "else with counts.",
    {"anyOf": [schema("SentEach"), schema("SentOnce")]},
    {"sent": [{"id": ID, "stored": True}]},
)
_MESSAGES = body(
    schema("SendRequest"),
    {"messages": [{"body": "one"}, {"body": "two", "attributes": {"kind": "test"}}]},
    f"1 to {limits.SEND_LIMIT:,} messages: a JSON object, a line of JSON each, or an Arrow stream with a column `body` "
    "and perhaps `content_type`, `attributes` and `delay_ms`.",
)
_LINE = '{"body": "one"}\n{"body_base64": "/w=="}\n'
_MESSAGES["content"][_LINES] = {"schema": text(), "examples": {"usual": {"value": _LINE}}}
_SEND_BODY = also(_MESSAGES, ARROW, BYTES)
_DONE = answer("One truth for each receipt, in their order.", schema("Done"), {"done": [True]})


def _settling(verb: str, summary: str, description: str, request: Part) -> Operation:
    return Operation(
        id=verb,
        tag=TAG,
        summary=summary,
        description=f"{description} A queue that does not exist has no messages: every receipt there is `false`.",
        parameters=(QUEUE,),
        body=request,
        answers={200: _DONE},
    )


_RECEIPTS_BODY = body(schema("ReceiptsRequest"), {"receipts": [RECEIPT]}, bare_id={"receipts": [ID]})

OPERATIONS: Mapping[str, Operation] = {
    "POST /v1/queues/{queue}/messages": Operation(
        id="send",
        tag=TAG,
        summary="Send messages",
        description="In the order given: all of them, or none. With an `Idempotency-Key` the same request can be sent "
        "again for 30 days and stores nothing a second time.",
        parameters=(
            QUEUE,
            in_header(
                "Idempotency-Key",
                text(minLength=1, maxLength=limits.IDEMPOTENCY_KEY_LENGTH, pattern="^[!-~]([ -~]*[!-~])?$"),
                "Printable ASCII, the sender's own name for this send.",
            ),
        ),
        body=_SEND_BODY,
        answers={
            201: _SENT,
            200: answer(
                "The same send was stored before, and nothing now.",
                schema("SentOnce"),
                {"count": 2, "stored": 2, "repeated": True},
            ),
            404: GONE,
            409: answer(
                "The key was used for another content.",
                schema("Error"),
                {"error": "the idempotency key 'a1' was used for another content"},
            ),
        },
    ),
    "GET /v1/queues/{queue}/messages": Operation(
        id="peek",
        tag=TAG,
        summary="Look at messages",
        description="In any state; it changes nothing. Ready ones come by age, then the others by when they become "
        "ready. A page holds about 16 MiB of bodies at most.",
        parameters=(
            QUEUE,
            in_query("limit", number(1, limits.BULK_LIMIT, default=10), "So many at most."),
            in_query("after", text(pattern="^[0-9]{1,18}-[0-9]{1,18}$"), "The cursor of the page before."),
        ),
        answers={
            200: also(
                answer(
                    "A page of messages.",
                    record({"messages": listed(schema("Message")), "after": maybe(text("the cursor of this page"))}),
                    {"messages": [MESSAGE_EXAMPLE], "after": "1760000030000-1"},
                    headers={"Penstock-After": NEXT},
                ),
                ARROW,
                BYTES,
            ),
            404: GONE,
        },
    ),
    "POST /v1/queues/{queue}/claim": Operation(
        id="claim",
        tag=TAG,
        summary="Claim messages",
        description="Takes ready messages, oldest first, and hides them from everybody else. It stops at about 16 MiB "
        "of bodies, and never waits for more once it has one.",
        parameters=(QUEUE,),
        body=body(schema("ClaimRequest"), {"limit": 10, "hold_ms": 60_000}, required=False),
        answers={
            200: also(
                answer(
                    "The messages, perhaps none.",
                    record({"messages": listed(schema("ClaimedMessage"))}),
                    {"messages": [{**MESSAGE_EXAMPLE, "receipt": RECEIPT}]},
                ),
                ARROW,
                BYTES,
            ),
            404: GONE,
        },
    ),
    "POST /v1/queues/{queue}/ack": _settling(
        "ack",
        "Finish messages",
        "They are gone for good. An Arrow stream has one column, `receipt`.",
        also(_RECEIPTS_BODY, ARROW, BYTES),
    ),
    "POST /v1/queues/{queue}/renew": _settling(
        "renew",
        "Hold messages for longer",
        "For `hold_ms` from now, whether that is later or sooner than before.",
        body(schema("RenewRequest"), {"receipts": [RECEIPT], "hold_ms": 600_000}),
    ),
    "POST /v1/queues/{queue}/release": _settling(
        "release",
        "Give messages back",
        "They are ready at once, or after `delay_ms` or the queue's backoff, in their old place. A message that is "
        "delayed already stays so.",
        body(
            schema("ReleaseRequest"),
            {"receipts": [RECEIPT]},
            delayed={"receipts": [RECEIPT], "delay_ms": 60_000},
            bare_id={"receipts": [ID]},
        ),
    ),
    "POST /v1/queues/{queue}/purge": Operation(
        id="purge",
        tag=TAG,
        summary="Remove all messages, or the old ones",
        description="Every message that is in the queue when the purge begins, claimed ones too; with `older_than_ms` "
        "only those that were sent longer ago than that.",
        parameters=(QUEUE,),
        body=body(schema("PurgeRequest"), {}, required=False, old={"older_than_ms": 86_400_000}),
        answers={200: answer("How many there were.", record({"purged": number(0)}), {"purged": 3}), 404: GONE},
    ),
}
