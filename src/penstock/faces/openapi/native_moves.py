"""Moves of the native API."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import limits
from penstock.faces.native.moves import FilterJson, MoveFilter, MoveRequest
from penstock.faces.native.outcomes import status_word
from penstock.faces.openapi import structs
from penstock.faces.openapi.native_queues import GONE
from penstock.faces.openapi.parts import (
    Operation,
    Part,
    answer,
    body,
    in_query,
    instant,
    listed,
    maybe,
    number,
    parameter,
    record,
    schema,
    text,
    truth,
)
from penstock.model import MoveStatus, Selection

TAG = "native moves"
TAGS: Mapping[str, str] = {
    TAG: "Messages from one queue into another, or dead letters back to where they came from: in the background, in "
    "steps, also after a restart. What is claimed stays where it is."
}

_DURATION: Part = {"minimum": 0, "maximum": limits.DURATION_MS}
_RECEIVES: Part = {"minimum": 0, "maximum": limits.INT32_MAX}
_NAME = r"\.[A-Za-z_][A-Za-z0-9_-]*"
_INDEX = r"\[(0|[1-9][0-9]{0,8})\]"
_QUOTED = r'\["([^"\\]|\\.)*"\]'
_STATUS: Part = {"type": "string", "enum": [status_word(status) for status in MoveStatus]}
_MOVE: Mapping[str, Part] = {
    "id": text(),
    "source": text(),
    "target": maybe(text("null: each dead letter goes back to the queue it came from")),
    "filter": schema("Selection"),
    "limit": maybe(number(1)),
    "per_second": maybe(number(1)),
    "dry_run": truth("it only counts"),
    "status": _STATUS,
    "examined": number(0, None, "messages looked at"),
    "matched": number(0, None, "those that are meant"),
    "moved": number(0, None, "those that have left the source"),
    "homeless": number(0, None, "those meant that stay, because they came from no queue that is there"),
    "started_at": instant(),
    "finished_at": maybe(instant()),
    "error": maybe(text()),
}

SCHEMAS: Mapping[str, Part] = {
    **structs.taken(
        FilterJson,
        {
            "path": {
                "pattern": rf"^\$({_NAME}|{_INDEX}|{_QUOTED})*$",
                "maxLength": limits.PATH_LENGTH,
                "description": f'such as `$.order.lines[0]["unit price"]`, of at most {limits.PATH_STEPS} steps',
            },
            "value": {"description": "what stands there: text, a number, a truth or null"},
        },
    ),
    **structs.taken(
        MoveFilter,
        {
            "older_than_ms": {**_DURATION, "description": "sent at least so long ago"},
            "newer_than_ms": {**_DURATION, "description": "sent less long ago"},
            "min_receives": _RECEIVES,
            "max_receives": _RECEIVES,
            "content_type": {
                "minLength": 1,
                "maxLength": limits.CONTENT_TYPE_BYTES,
                "description": "without regard to case and parameters",
            },
            "text": {
                "minLength": 1,
                "maxLength": limits.FILTER_TEXT_LENGTH,
                "description": "a part of the body, in UTF-8",
            },
            "json": {"description": "the body is JSON, and a value of it is this"},
        },
    ),
    **structs.taken(
        MoveRequest,
        {
            "target": {"description": "left out, each dead letter goes back to the queue it came from"},
            "filter": {"description": "only messages for which all of it holds"},
            "limit": {"minimum": 1, "maximum": limits.DURATION_MS, "description": "so many messages at most"},
            "per_second": {"minimum": 1, "maximum": limits.MOVES_PER_SECOND, "description": "no faster than this"},
            "dry_run": {"description": "count what would move, and move nothing"},
        },
    ),
    **structs.taken(Selection, {}),
    "Move": record(_MOVE),
}

_ID = "7e1c1f5c-2b50-4f0e-9d0c-1a35a4b8c6f1"
_EXAMPLE = {
    "id": _ID,
    "source": "orders-dead",
    "target": "orders",
    "filter": {"sent_until": 1_760_000_000_000, "text": "timeout"},
    "limit": None,
    "per_second": 100,
    "dry_run": False,
    "status": "in-progress",
    "examined": 2_000,
    "matched": 120,
    "moved": 120,
    "homeless": 0,
    "started_at": 1_760_000_000_000,
    "finished_at": None,
    "error": None,
}
_MOVE_PARAMETER = parameter("path", "move", text(minLength=1), "The id of the move.", example=_ID)
_NO_MOVE = answer("There is no such move.", schema("Error"), {"error": f"there is no move '{_ID}'"})

OPERATIONS: Mapping[str, Operation] = {
    "POST /v1/moves": Operation(
        id="move",
        tag=TAG,
        summary="Move messages to another queue, or dead letters home",
        description="Starts the move and answers at once. What is sent to the source later stays there. Messages keep "
        "their id and their age, and have never been received in their new queue.",
        body=body(
            schema("MoveRequest"),
            {"source": "orders-dead", "target": "orders", "filter": {"older_than_ms": 0, "text": "timeout"}},
            home={"source": "orders-dead", "per_second": 100},
            count={"source": "orders-dead", "dry_run": True, "filter": {"json": {"path": "$.order", "value": 1}}},
        ),
        answers={
            201: answer("The move has started.", schema("Move"), _EXAMPLE),
            404: GONE,
            409: answer(
                "One of the two queues is part of another move.",
                schema("Error"),
                {"error": "'orders-dead' or 'orders' is part of another move that is still in progress"},
            ),
        },
    ),
    "GET /v1/moves": Operation(
        id="listMoves",
        tag=TAG,
        summary="List moves",
        description="The latest first: those in progress, and those that ended within a day.",
        parameters=(in_query("limit", number(1, limits.LIST_LIMIT, default=100), "So many at most."),),
        answers={200: answer("The moves.", record({"moves": listed(schema("Move"))}), {"moves": [_EXAMPLE]})},
    ),
    "GET /v1/moves/{move}": Operation(
        id="showMove",
        tag=TAG,
        summary="Ask how a move goes",
        description="For a day after its end.",
        parameters=(_MOVE_PARAMETER,),
        answers={200: answer("The move.", schema("Move"), _EXAMPLE), 404: _NO_MOVE},
    ),
    "POST /v1/moves/{move}/cancel": Operation(
        id="cancelMove",
        tag=TAG,
        summary="Cancel a move",
        description="What has moved stays moved. One that has ended stays as it is. A body is ignored.",
        parameters=(_MOVE_PARAMETER,),
        answers={200: answer("The move.", schema("Move"), {**_EXAMPLE, "status": "cancelled"}), 404: _NO_MOVE},
    ),
}
