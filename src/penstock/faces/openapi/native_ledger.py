"""The ledger of the native API."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import limits
from penstock.faces.native.ledger import ClaimExport, SettleExport
from penstock.faces.native.outcomes import outcome_word
from penstock.faces.openapi import structs
from penstock.faces.openapi.native_messages import BYTES, ID, NEXT
from penstock.faces.openapi.native_shipments import (
    AFTER_NUMBER,
    CONFLICT,
    CONSUMER,
    ENDED,
    LIST_LIMIT,
    NUMBER,
    OF_CONSUMER,
)
from penstock.faces.openapi.parts import (
    ARROW,
    LARGEST,
    Operation,
    Part,
    also,
    answer,
    body,
    in_query,
    instant,
    listed,
    maybe,
    number,
    record,
    schema,
    text,
)
from penstock.model import Export, Outcome

TAG = "native ledger"
TAGS: Mapping[str, str] = {
    TAG: "What became of messages: a row for each that has left its queue. It is read page by page, or handed over to "
    "a named consumer in numbered exports that can be read again until they are settled."
}

_ROW: Mapping[str, Part] = {
    "number": number(1, None, "counts up without end, in the order in which messages left"),
    "queue": text(),
    "id": text(),
    "sent_at": instant(),
    "first_claimed_at": maybe(instant()),
    "last_claimed_at": maybe(instant()),
    "finished_at": instant(),
    "receives": number(0),
    "outcome": text(enum=[outcome_word(outcome) for outcome in Outcome]),
    "size": number(0, None, "bytes of the body"),
    "body_hash": text("in hexadecimal digits", pattern="^[0-9a-f]*$"),
    "content_type": maybe(text()),
    "body": text("where the queue's ledger keeps bodies and it is UTF-8"),
    "body_base64": text("where the queue's ledger keeps bodies and it is not", contentEncoding="base64"),
}

SCHEMAS: Mapping[str, Part] = {
    "LedgerRow": record(_ROW, "body", "body_base64"),
    **structs.answered(Export, {"settled_at": {"description": "null until it is settled"}}),
    **structs.taken(
        ClaimExport, {"limit": {"minimum": 1, "maximum": limits.EXPORT_ROWS, "description": "so many rows at most"}}
    ),
    **structs.taken(SettleExport, {}),
}

_ROW_EXAMPLE = {
    "number": 1,
    "queue": "orders",
    "id": ID,
    "sent_at": 1_760_000_000_000,
    "first_claimed_at": 1_760_000_001_000,
    "last_claimed_at": 1_760_000_001_000,
    "finished_at": 1_760_000_002_000,
    "receives": 1,
    "outcome": "processed",
    "size": 3,
    "body_hash": "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed",
    "content_type": None,
}
_EXAMPLE = {
    "consumer": "lake",
    "number": 1,
    "after": 0,
    "through": 1200,
    "rows": 1200,
    "claimed_at": 1_760_000_000_000,
    "settled_at": None,
}
_EXPORT = answer("The export.", schema("Export"), _EXAMPLE)
_UNKNOWN = answer(
    "That number never was or is no longer remembered.",
    schema("Error"),
    {"error": "'lake' never had number 7, or it is no longer remembered"},
)
_AFTER_ROW = in_query("after", number(0, LARGEST), "Only rows with a higher number.")
_ONE = "/v1/ledger/exports/{consumer}/{number}"

OPERATIONS: Mapping[str, Operation] = {
    "GET /v1/ledger": Operation(
        id="readLedger",
        tag=TAG,
        summary="Read the ledger",
        description="A page of rows. `after` of the answer, or the header `Penstock-After` with Arrow, is where the "
        "next one begins. A page ends early when the bodies in it come to 16 MiB.",
        parameters=(
            _AFTER_ROW,
            in_query("limit", number(1, limits.BULK_LIMIT, default=1_000), "So many at most."),
            in_query("queue", text(), "Only rows of queues that had this name."),
            in_query("id", text(), "Only rows of this message."),
            in_query("since", number(0, LARGEST), "Only what finished at this instant or later."),
            in_query("before", number(0, LARGEST), "Only what finished before this instant."),
        ),
        answers={
            200: also(
                answer(
                    "A page of rows.",
                    record({"rows": listed(schema("LedgerRow")), "after": maybe(number(1))}),
                    {"rows": [_ROW_EXAMPLE], "after": 1},
                    headers={"Penstock-After": NEXT},
                ),
                ARROW,
                BYTES,
            )
        },
    ),
    "GET /v1/ledger/exports": Operation(
        id="listExports",
        tag=TAG,
        summary="List exports",
        description="By consumer and number.",
        parameters=(OF_CONSUMER, AFTER_NUMBER, LIST_LIMIT),
        answers={200: answer("The exports.", record({"exports": listed(schema("Export"))}), {"exports": [_EXAMPLE]})},
    ),
    f"PUT {_ONE}": Operation(
        id="claimExport",
        tag=TAG,
        summary="Claim an export",
        description="Takes the rows after those of the export before, under the next number. The same number again "
        "finds the same export.",
        parameters=(CONSUMER, NUMBER),
        body=body(schema("ClaimExport"), {"limit": 1_000_000}, required=False),
        answers={
            201: answer("A new export.", schema("Export"), _EXAMPLE),
            200: answer("It was there.", schema("Export"), _EXAMPLE),
            204: answer("There are no rows, and no export was made."),
            409: CONFLICT,
            410: ENDED,
        },
    ),
    f"GET {_ONE}": Operation(
        id="showExport",
        tag=TAG,
        summary="Show an export",
        description="Also one that is settled.",
        parameters=(CONSUMER, NUMBER),
        answers={200: _EXPORT, 404: _UNKNOWN},
    ),
    f"GET {_ONE}/rows": Operation(
        id="readExport",
        tag=TAG,
        summary="Read an export",
        description="Rows after `after`, or from its first one. Past its end the page is empty.",
        parameters=(
            CONSUMER,
            NUMBER,
            _AFTER_ROW,
            in_query("limit", number(1, limits.BULK_LIMIT, default=limits.BULK_LIMIT), "So many at most."),
        ),
        answers={
            200: also(
                answer("A page of rows.", record({"rows": listed(schema("LedgerRow"))}), {"rows": [_ROW_EXAMPLE]}),
                ARROW,
                BYTES,
            ),
            404: _UNKNOWN,
            410: ENDED,
        },
    ),
    f"POST {_ONE}/settle": Operation(
        id="settleExport",
        tag=TAG,
        summary="Settle an export",
        description="The consumer has it: the next number can be claimed. Settling again is no error.",
        parameters=(CONSUMER, NUMBER),
        body=body(schema("SettleExport"), {}, required=False),
        answers={200: _EXPORT, 404: _UNKNOWN},
    ),
}
