"""Shipments of the native API."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import limits
from penstock.faces.native.shipments import BeatShipment, ClaimShipment, ReleaseShipment, SettleShipment
from penstock.faces.openapi import structs
from penstock.faces.openapi.native_messages import BYTES, MESSAGE_EXAMPLE
from penstock.faces.openapi.native_queues import GONE, QUEUE
from penstock.faces.openapi.parts import (
    ARROW,
    NAME_RULE,
    Operation,
    Part,
    also,
    answer,
    body,
    in_query,
    listed,
    number,
    parameter,
    queue_name,
    record,
    schema,
    text,
)
from penstock.model import Shipment

TAG = "native shipments"
TAGS: Mapping[str, str] = {
    TAG: "Messages for one named consumer, claimed together under a number that the consumer chooses, counting from 1. "
    "A shipment can be read again and again until it is settled as a whole, so whoever copies it does so once."
}

_HOLD: Part = {"minimum": 1_000, "maximum": limits.DURATION_MS}
_HELD = {
    **_HOLD,
    "description": "without a heartbeat for so long the shipment is lost and its messages are ready again",
}

SCHEMAS: Mapping[str, Part] = {
    **structs.answered(Shipment, {"ended_at": {"description": "null while it is open"}}),
    **structs.taken(
        ClaimShipment,
        {
            "limit": {"minimum": 1, "maximum": limits.SHIPMENT_ROWS, "description": "so many messages at most"},
            "hold_ms": _HELD,
        },
    ),
    **structs.taken(SettleShipment, {"keep": {"description": "whether it stays readable for an hour"}}),
    **structs.taken(BeatShipment, {"hold_ms": _HELD}),
    **structs.taken(ReleaseShipment, {}),
    "Conflict": record({"error": text(), "expected": number(1, None, "the number whose turn it is")}),
    "Ended": record(
        {"error": text(), "how": text("what became of it", enum=["settled", "released", "lost", "purged"])}
    ),
}

CONSUMER = parameter("path", "consumer", queue_name(), f"Who it is for: {NAME_RULE}.", example="lake")
NUMBER = parameter("path", "number", number(1, 2**53), "Its number, from 1.", example=1)
OF_CONSUMER = in_query("consumer", queue_name(), "Only those of one consumer.")
AFTER_NUMBER = in_query("after", number(0, 2**53, default=0), "Only those with a higher number.")
LIST_LIMIT = in_query("limit", number(1, limits.LIST_LIMIT, default=1_000), "So many at most.")
CONFLICT = answer(
    "It is another number's turn.",
    schema("Conflict"),
    {"error": "number 3 of 'lake': it is the turn of number 2", "expected": 2},
)
ENDED = answer(
    "It has ended: there is nothing to read any more.",
    schema("Ended"),
    {"error": "number 1 of 'lake' has ended: it was settled", "how": "settled"},
)
UNKNOWN = answer(
    "There is no such queue, or that number never was or is no longer remembered.",
    schema("Error"),
    {"error": "'lake' never had number 7, or it is no longer remembered"},
)

_GATHERING = answer(
    "Its claim has not come to its end: claim it again, under the same number.",
    schema("Conflict"),
    {"error": "number 1 of 'lake': claim it again, it is not complete yet", "expected": 1},
)

_EXAMPLE = {
    "queue": "orders",
    "consumer": "lake",
    "number": 1,
    "state": "open",
    "messages": 1200,
    "bytes": 240_000,
    "claimed_at": 1_760_000_000_000,
    "until": 1_760_003_600_000,
    "ended_at": None,
}
_SHIPMENT = answer("The shipment.", schema("Shipment"), _EXAMPLE)
_ALL = "/v1/queues/{queue}/shipments"
_ONE = f"{_ALL}/{{consumer}}/{{number}}"
_NAMED = (QUEUE, CONSUMER, NUMBER)

OPERATIONS: Mapping[str, Operation] = {
    f"GET {_ALL}": Operation(
        id="listShipments",
        tag=TAG,
        summary="List shipments",
        description="By consumer and number, those that ended within the last 30 days included.",
        parameters=(QUEUE, OF_CONSUMER, AFTER_NUMBER, LIST_LIMIT),
        answers={
            200: answer("The shipments.", record({"shipments": listed(schema("Shipment"))}), {"shipments": [_EXAMPLE]}),
            404: GONE,
        },
    ),
    f"PUT {_ONE}": Operation(
        id="claimShipment",
        tag=TAG,
        summary="Claim a shipment",
        description="Takes ready messages under the next number. The same number again finds the same shipment.",
        parameters=_NAMED,
        body=body(schema("ClaimShipment"), {"limit": 100_000, "hold_ms": 3_600_000}, required=False),
        answers={
            201: answer("A new shipment.", schema("Shipment"), _EXAMPLE),
            200: answer("It was there.", schema("Shipment"), _EXAMPLE),
            204: answer("No message was ready, and no shipment was made."),
            404: GONE,
            409: CONFLICT,
            410: ENDED,
        },
    ),
    f"GET {_ONE}": Operation(
        id="showShipment",
        tag=TAG,
        summary="Show a shipment",
        description="Also one that has ended, for 30 days.",
        parameters=_NAMED,
        answers={200: _SHIPMENT, 404: UNKNOWN},
    ),
    f"GET {_ONE}/messages": Operation(
        id="readShipment",
        tag=TAG,
        summary="Read a shipment",
        description="Its messages by position, which never changes. A page may be shorter than asked for, about 16 MiB "
        "of bodies; go on at `start` and the number that came. Past the end it is empty.",
        parameters=(
            *_NAMED,
            in_query("start", number(0, limits.SHIPMENT_ROWS, default=0), "The position of the first one."),
            in_query("limit", number(1, limits.BULK_LIMIT, default=limits.BULK_LIMIT), "So many at most."),
        ),
        answers={
            200: also(
                answer(
                    "A page of messages.",
                    record({"messages": listed(schema("Message"))}),
                    {"messages": [MESSAGE_EXAMPLE]},
                ),
                ARROW,
                BYTES,
            ),
            404: UNKNOWN,
            409: _GATHERING,
            410: ENDED,
        },
    ),
    f"POST {_ONE}/settle": Operation(
        id="settleShipment",
        tag=TAG,
        summary="Settle a shipment",
        description="Finishes all its messages. Settling again is no error.",
        parameters=_NAMED,
        body=body(schema("SettleShipment"), {"keep": False}, required=False),
        answers={200: _SHIPMENT, 404: UNKNOWN, 409: _GATHERING, 410: ENDED},
    ),
    f"POST {_ONE}/release": Operation(
        id="releaseShipment",
        tag=TAG,
        summary="Give a shipment back",
        description="All its messages are ready again, in their old places.",
        parameters=_NAMED,
        body=body(schema("ReleaseShipment"), {}, required=False),
        answers={200: _SHIPMENT, 404: UNKNOWN, 410: ENDED},
    ),
    f"POST {_ONE}/heartbeat": Operation(
        id="beatShipment",
        tag=TAG,
        summary="Keep a shipment",
        description="Holds it for `hold_ms` from now.",
        parameters=_NAMED,
        body=body(schema("BeatShipment"), {"hold_ms": 3_600_000}, required=False),
        answers={200: _SHIPMENT, 404: UNKNOWN, 410: ENDED},
    ),
}
