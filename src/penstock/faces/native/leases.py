"""Leases: what only one may do at a time in a queue, such as to write what one consumer reads."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest
from penstock.faces.answers import Error, Taken, json_response
from penstock.faces.bodies import decoder
from penstock.faces.description import NAME_RULE, Op, Param, Tag, answer, body, name_text, text
from penstock.faces.native.requests import QUEUE, SMALL, checked_lease, checked_word, route
from penstock.faces.permission import Permission
from penstock.faces.refusals import NO_SUCH_QUEUE
from penstock.model import Lease
from penstock.pending import Pending


class TakeLease(Struct, forbid_unknown_fields=True):
    holder: Annotated[
        str,
        Meta(min_length=1, max_length=limits.HOLDER_LENGTH, description="who takes it, in printable characters"),
    ]
    hold_ms: Annotated[
        int, Meta(ge=1_000, le=limits.DURATION_MS, description="for how long from now, unless it is taken again")
    ]


_read_take = decoder(TakeLease)

_TAG = Tag(
    "native leases",
    "One at a time: what the name of a lease stands for is done by the one who holds it. A lease is free again when "
    "its holder drops it, when its time has run out, and when its queue is deleted.",
)
_NAME = Param("name", name_text(), f"The name of the lease: {NAME_RULE}.", where="path", example="drain")
_HOLDER = Param(
    "holder",
    text(minLength=1, maxLength=limits.HOLDER_LENGTH),
    "Who gives it up.",
    required=True,
    example="spark-7f3a",
)
_EXAMPLE = {
    "queue": "orders",
    "name": "drain",
    "holder": "spark-7f3a",
    "taken_at": 1_760_000_000_000,
    "until": 1_760_000_060_000,
}
_LEASE = answer("The lease.", Lease, _EXAMPLE)

_TAKE = Op(
    id="takeLease",
    tag=_TAG,
    summary="Take a lease",
    description="It is the holder's for `hold_ms` from now, if it is free, or the holder's already: then it is "
    "prolonged.",
    parameters=(QUEUE, _NAME),
    body=body(TakeLease, {"holder": "spark-7f3a", "hold_ms": 60_000}),
    answers={
        200: _LEASE,
        404: NO_SUCH_QUEUE,
        409: answer(
            "Another one has it.",
            Taken,
            {
                "error": "the lease 'drain' is held by 'spark-7f3a'",
                "holder": "spark-7f3a",
                "until": 1_760_000_060_000,
            },
        ),
    },
)
_SHOW = Op(
    id="showLease",
    tag=_TAG,
    summary="Show a lease",
    description="Who has it, and until when.",
    parameters=(QUEUE, _NAME),
    answers={
        200: _LEASE,
        404: answer("There is no such queue, or no one has it.", Error, {"error": "no one has the lease 'drain'"}),
    },
)
_DROP = Op(
    id="dropLease",
    tag=_TAG,
    summary="Drop a lease",
    description="Frees it, if it is this holder's. If it is not, or not any more, nothing happens.",
    parameters=(QUEUE, _NAME, _HOLDER),
    answers={204: answer("This holder does not have it any more.")},
)


def lease_routes(broker: Broker) -> list[Route]:
    face = _Leases(broker)
    poll = Permission("poll")
    one = "/v1/queues/{queue}/leases/{name}"
    return [
        route("PUT", one, face.take, _TAKE, poll, SMALL),
        route("GET", one, face.show, _SHOW, poll, head=True),
        route("DELETE", one, face.drop, _DROP, poll),
    ]


class _Leases:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def take(self, request: Request) -> Pending[Response]:
        queue, name = _named(request)
        asked = _read_take(request.body)
        holder = checked_word("holder", asked.holder, limits.HOLDER_LENGTH)
        return self._broker.leases.take(queue, name, holder, asked.hold_ms).map(lambda lease: json_response(200, lease))

    def show(self, request: Request) -> Pending[Response]:
        queue, name = _named(request)

        def told(lease: Lease | None) -> Response:
            if lease is None:
                return json_response(404, Error(f"no one has the lease {name!r}"))
            return json_response(200, lease)

        return self._broker.leases.find(queue, name).map(told)

    def drop(self, request: Request) -> Pending[Response]:
        queue, name = _named(request)
        holder = request.query_params().get(_HOLDER.name)
        if holder is None:
            raise InvalidRequest("say whose lease it is: ?holder=")
        holder = checked_word("holder", holder, limits.HOLDER_LENGTH)
        return self._broker.leases.drop(queue, name, holder).map(lambda _: Response(204))


def _named(request: Request) -> tuple[str, str]:
    queue, name = request.params
    return queue, checked_lease(name)
