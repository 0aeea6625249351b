"""Queues of the native API."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import limits
from penstock.faces.native.queues import BackoffChange, RedriveChange, SettingsChange
from penstock.faces.openapi import structs
from penstock.faces.openapi.parts import (
    LARGEST,
    Operation,
    Part,
    answer,
    body,
    in_query,
    instant,
    listed,
    number,
    parameter,
    record,
    schema,
    shared,
    text,
)
from penstock.model import Count, Tally

TAG = "native queues"
TAGS: Mapping[str, str] = {
    TAG: "Queues and their settings. Times are whole milliseconds: `…_ms` is a duration, `…_at` an instant. A body is "
    "JSON whatever its `Content-Type` says, no body is `{}`, and unknown keys are refused."
}

_DURATION: Part = {"minimum": 0, "maximum": limits.DURATION_MS}
_REFINED: structs.Refinements = {
    "visibility_ms": {**_DURATION, "description": "how long a claim holds a message that does not say otherwise"},
    "retention_ms": {**_DURATION, "minimum": 1, "description": "how long after its send a message is handed out"},
    "delay_ms": {**_DURATION, "description": "how long a new message waits before it is ready"},
    "dedup": {"description": "what becomes of equal messages: `send` stores one, `claim` hands out one"},
    "redrive": {"description": "after so many receives, where a message goes"},
    "ledger": {"description": "what is remembered of a finished message"},
    "backoff": {"description": "how long a message waits after a claim that has run out or was released"},
}
_SETTINGS_CHANGE = structs.taken(SettingsChange, _REFINED) | structs.taken(
    RedriveChange, {"max_receives": {"minimum": 1, "maximum": limits.INT32_MAX}}
)
_SETTINGS_CHANGE |= structs.taken(
    BackoffChange,
    {
        "first_ms": {"minimum": 1, "maximum": limits.DURATION_MS, "description": "after its first receive"},
        "most_ms": {
            "minimum": 1,
            "maximum": limits.DURATION_MS,
            "description": "it doubles with each receive until it is this long; not shorter than `first_ms`",
        },
    },
)
_CHANGES: dict[str, Part] = _SETTINGS_CHANGE["SettingsChange"]["properties"]
_QUEUE: Mapping[str, Part] = {"name": text(), "created_at": instant(), "settings": schema("Settings")}

SCHEMAS: Mapping[str, Part] = {
    **_SETTINGS_CHANGE,
    "Settings": record(_CHANGES),
    "Queue": record(_QUEUE),
    **structs.answered(
        Count,
        {
            "total": {"description": "exact at any depth"},
            "exact": {"description": "whether the parts are; else `delayed` and `claimed` are lower bounds"},
            "oldest_sent_at": {"description": "of the oldest message in any state; null in an empty queue"},
            "oldest_ready_sent_at": {"description": "of the oldest ready message; null where none is ready"},
        },
    ),
    **structs.answered(Tally, {}),
    "QueueListed": record({**_QUEUE, "count": schema("Count")}, "count"),
    "QueueShown": record({**_QUEUE, "count": schema("Count"), "tally": schema("Tally")}),
}

QUEUE = parameter(
    "path",
    "queue",
    text(minLength=1),
    "The name of the queue. In front of it, `dedupq/`, written `dedupq%2F`, names a queue of EmoDB's "
    "DedupQueueService.",
    example="orders",
)
_NEW_QUEUE = {**QUEUE, "schema": text(pattern=r"^(dedupq/)?(?!\.{1,2}$)[A-Za-z0-9._:@-]{1,255}$")}
GONE = shared("NoSuchQueue")

_SETTINGS_EXAMPLE = {
    "visibility_ms": 30_000,
    "retention_ms": 86_400_000,
    "delay_ms": 0,
    "dedup": "off",
    "redrive": None,
    "ledger": "outcomes",
    "backoff": {"first_ms": 1_000, "most_ms": 300_000},
}
_EXAMPLE = {"name": "orders", "created_at": 1_760_000_000_000, "settings": _SETTINGS_EXAMPLE}
_QUEUE_ANSWER = answer("The queue.", schema("Queue"), _EXAMPLE)
_COUNT_EXAMPLE = {
    "total": 3,
    "ready": 2,
    "delayed": 0,
    "claimed": 1,
    "exact": True,
    "oldest_sent_at": 1_760_000_000_000,
    "oldest_ready_sent_at": 1_760_000_000_500,
}
_CHANGE = body(schema("SettingsChange"), {"visibility_ms": 60_000, "ledger": "bodies"}, required=False)

OPERATIONS: Mapping[str, Operation] = {
    "GET /v1/queues": Operation(
        id="listQueues",
        tag=TAG,
        summary="List queues",
        description="In the order of their creation, with what is in each of them now. Where more than "
        f"{limits.LISTED_COUNT_ROWS:,} messages of a queue are delayed or claimed, its parts are not exact.",
        parameters=(
            in_query("offset", number(0, LARGEST, default=0), "How many to skip."),
            in_query("limit", number(1, limits.LIST_LIMIT, default=100), "So many at most."),
            in_query("count", {"type": "boolean", "default": True}, "`false` leaves the counts out."),
        ),
        answers={
            200: answer(
                "A part of them, and how many there are in all.",
                record({"total": number(0), "queues": listed(schema("QueueListed"))}),
                {"total": 1, "queues": [{**_EXAMPLE, "count": _COUNT_EXAMPLE}]},
            )
        },
    ),
    "PUT /v1/queues/{queue}": Operation(
        id="createQueue",
        tag=TAG,
        summary="Create a queue",
        description="With the settings given; the others have their defaults.",
        parameters=(_NEW_QUEUE,),
        body=_CHANGE,
        answers={
            201: _QUEUE_ANSWER,
            409: answer("There is a queue of that name.", schema("Error"), {"error": "queue 'orders' already exists"}),
        },
    ),
    "PATCH /v1/queues/{queue}": Operation(
        id="updateQueue",
        tag=TAG,
        summary="Change settings of a queue",
        description="Those given; the others stay as they are. Messages keep the delay, claim and dedup key they have.",
        parameters=(QUEUE,),
        body=_CHANGE,
        answers={200: _QUEUE_ANSWER, 404: GONE},
    ),
    "GET /v1/queues/{queue}": Operation(
        id="showQueue",
        tag=TAG,
        summary="Show a queue",
        description="Its settings, what is in it now, and what ever arrived and departed.",
        parameters=(QUEUE,),
        answers={
            200: answer(
                "The queue.",
                schema("QueueShown"),
                {**_EXAMPLE, "count": _COUNT_EXAMPLE, "tally": {"arrived": 10, "departed": 7}},
            ),
            404: GONE,
        },
    ),
    "DELETE /v1/queues/{queue}": Operation(
        id="deleteQueue",
        tag=TAG,
        summary="Delete a queue and its messages",
        description="Answers the queue as it was. Queues that used it for their dead letters have no redrive any more.",
        parameters=(QUEUE,),
        answers={200: _QUEUE_ANSWER, 404: GONE},
    ),
}
