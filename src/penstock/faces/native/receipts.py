"""Receipts: ack, renew, release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest
from penstock.faces.answers import json_response
from penstock.faces.bodies import check_count, decoder, wrong_count
from penstock.faces.description import EXAMPLE_ID, Op, Part, also, answer, body, is_number
from penstock.faces.native.arrow import ARROW_MEDIA, ARROW_STREAM, is_arrow, read_columns
from penstock.faces.native.messages import EXAMPLE_RECEIPT
from penstock.faces.native.requests import MEDIUM, QUEUE, Duration, route
from penstock.faces.native.send import TAG
from penstock.faces.permission import Permission
from penstock.model import Receipt
from penstock.pending import Pending

T = TypeVar("T")

_COUNT = Meta(min_length=1, max_length=limits.ACK_LIMIT)
_ReceiptList = Annotated[
    list[Annotated[str, Meta(extra_json_schema={"pattern": r"^[^.]*(\.[0-9]{1,18})?$"})]],
    _COUNT,
    Meta(
        description="a message's id, a dot, and the number of the claim; or the id alone, whichever claim holds the "
        "message"
    ),
]


class ReceiptsRequest(Struct, forbid_unknown_fields=True):
    receipts: _ReceiptList


class RenewRequest(Struct, forbid_unknown_fields=True):
    receipts: _ReceiptList
    hold_ms: Duration


class ReleaseRequest(Struct, forbid_unknown_fields=True):
    receipts: _ReceiptList
    delay_ms: Annotated[
        Duration | None,
        Meta(description="how long they cannot be claimed; by default as the queue's `backoff` says"),
    ] = None


class Done(Struct):
    done: list[Annotated[bool, Meta(description="false: the receipt is stale, or the message not in this queue")]]


def _counting_decoder(shape: type[T]) -> Callable[[bytes], T]:
    """For bodies with receipts, which have no commas: too many are refused before they are built."""
    read = decoder(shape)

    def read_counted(body: bytes) -> T:
        if body.count(b",") > limits.ACK_LIMIT:
            raise wrong_count("receipts", _COUNT)
        return read(body)

    return read_counted


_read_receipts = _counting_decoder(ReceiptsRequest)
_read_release = _counting_decoder(ReleaseRequest)
_read_renew = _counting_decoder(RenewRequest)


def _by_receipt(verb: str, summary: str, description: str, request: Part) -> Op:
    return Op(
        id=verb,
        tag=TAG,
        summary=summary,
        description=f"{description} A queue that does not exist has no messages: every receipt there is `false`.",
        parameters=(QUEUE,),
        body=request,
        answers={200: answer("One boolean for each receipt, in their order.", Done, {"done": [True]})},
    )


_ACK = _by_receipt(
    "ack",
    "Finish messages",
    "They are gone for good. An Arrow stream has one column, `receipt`.",
    also(
        body(ReceiptsRequest, {"receipts": [EXAMPLE_RECEIPT]}, bare_id={"receipts": [EXAMPLE_ID]}),
        ARROW_MEDIA,
        ARROW_STREAM,
    ),
)
_RENEW = _by_receipt(
    "renew",
    "Hold messages for longer",
    "For `hold_ms` from now, whether that is later or sooner than before.",
    body(RenewRequest, {"receipts": [EXAMPLE_RECEIPT], "hold_ms": 600_000}),
)
_RELEASE = _by_receipt(
    "release",
    "Give messages back",
    "They are ready at once, or after `delay_ms` or the queue's backoff, in their old place. A message that is delayed "
    "already stays so.",
    body(
        ReleaseRequest,
        {"receipts": [EXAMPLE_RECEIPT]},
        delayed={"receipts": [EXAMPLE_RECEIPT], "delay_ms": 60_000},
        bare_id={"receipts": [EXAMPLE_ID]},
    ),
)


def receipt_routes(broker: Broker) -> list[Route]:
    face = _Receipts(broker)
    queue, poll = "/v1/queues/{queue}", Permission("poll")
    return [
        route("POST", f"{queue}/ack", face.ack, _ACK, poll, MEDIUM),
        route("POST", f"{queue}/renew", face.renew, _RENEW, poll, MEDIUM),
        route("POST", f"{queue}/release", face.release, _RELEASE, poll, MEDIUM),
    ]


class _Receipts:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def ack(self, request: Request) -> Pending[Response]:
        given = _receipt_column(request.body) if is_arrow(request) else _read_receipts(request.body).receipts
        return self._broker.ack(_receipts(request, given)).map(_done)

    def renew(self, request: Request) -> Pending[Response]:
        asked = _read_renew(request.body)
        receipts = _receipts(request, asked.receipts)
        return self._broker.renew(receipts, asked.hold_ms, shorten=True).map(_done)

    def release(self, request: Request) -> Pending[Response]:
        asked = _read_release(request.body)
        receipts = _receipts(request, asked.receipts)
        return self._broker.release(receipts, asked.delay_ms).map(_done)


def _receipt_column(body: bytes) -> list[str]:
    column = read_columns(body, ("receipt",), limits.ACK_LIMIT)["receipt"]
    if None in column:
        raise InvalidRequest("a receipt must not be null")
    check_count("receipts", len(column), _COUNT)
    return column


def _receipts(request: Request, given: Sequence[str]) -> list[Receipt]:
    """A receipt is a message id and, for a claimed message, a dot and the number of the claim."""
    [queue] = request.params
    receipts = []
    for receipt in given:
        message_id, dot, claim = receipt.partition(".")
        # Cut off after its dot, a receipt must not stand for the message whichever claim holds it.
        if dot and claim != "1" and not is_number(claim):
            raise InvalidRequest(f"{receipt[:80]!r} is not a receipt")
        receipts.append(Receipt(message_id, int(claim) if claim else None, queue))
    return receipts


def _done(done: list[bool]) -> Response:
    return json_response(200, Done(done))
