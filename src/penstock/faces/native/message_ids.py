"""Messages by their ids, for those who look after a queue: shown, deleted, released, moved, and sent again."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest, MessageNotFound, NotPermitted
from penstock.faces.answers import Error, json_response
from penstock.faces.bodies import decoder
from penstock.faces.description import EXAMPLE_ID, Op, Param, Shared, answer, body, text
from penstock.faces.native.messages import LOOKED_AT_EXAMPLE, LookedAtMessage, looked_at_view
from penstock.faces.native.requests import MEDIUM, QUEUE, VIA, route
from penstock.faces.native.send import BULK, TAG, SendMessage, draft_of
from penstock.faces.permission import Permission, actor_of, permits, rules_of
from penstock.faces.refusals import NO_SUCH_QUEUE
from penstock.keys import EVERY_QUEUE, needed_rule
from penstock.model import Dealing, Found, Resent
from penstock.pending import Pending

_Ids = Annotated[
    list[str],
    Meta(min_length=1, max_length=limits.NAMED_LIMIT, description="of messages in this queue"),
]


class IdsRequest(Struct, forbid_unknown_fields=True):
    ids: _Ids


class MoveIdsRequest(Struct, forbid_unknown_fields=True):
    ids: _Ids
    target: Annotated[
        str | None, Meta(description="left out, each dead letter goes back to the queue it came from")
    ] = None
    as_new: Annotated[
        bool | None,
        Meta(description="whether they arrive as if they were sent now; by default those that go back do"),
    ] = None


class ResendRequest(Struct, forbid_unknown_fields=True):
    message: Annotated[SendMessage, Meta(description="what is sent in its place, as in a send")]
    target: Annotated[
        str | None,
        Meta(description="left out, a dead letter goes back to the queue it came from, any other to its own queue"),
    ] = None


class Outcomes(Struct):
    outcomes: Annotated[
        list[Dealing],
        Meta(
            description="for each id in its place: `missing` is not in this queue, `shipped` is in a shipment, "
            "`homeless` has no queue to go back to"
        ),
    ]


class ResentMessage(Struct):
    outcome: Annotated[Dealing, Meta(description="`twin`: what was sent is the twin of another, and nothing changed")]
    id: Annotated[str | None, Meta(description="of the new message, or of the twin")]


_read_ids = decoder(IdsRequest)
_read_move = decoder(MoveIdsRequest)
_read_resend = decoder(ResendRequest)

_MESSAGE = Param("message", text(minLength=1), "The id of the message.", where="path", example=EXAMPLE_ID)
_NO_MESSAGE = answer(
    "There is no such queue, or no such message in it.",
    Error,
    {"error": f"message '{EXAMPLE_ID}' does not exist, or its record is no longer kept"},
)
_OUTCOMES: dict[int, dict[str, Any] | Shared] = {
    200: answer("What became of each.", Outcomes, {"outcomes": ["done", "missing"]}),
    404: NO_SUCH_QUEUE,
}

_SHOW = Op(
    id="showMessage",
    tag=TAG,
    summary="Show a message",
    description="In any state; it changes nothing.",
    parameters=(QUEUE, _MESSAGE),
    answers={200: answer("The message.", LookedAtMessage, LOOKED_AT_EXAMPLE), 404: _NO_MESSAGE},
)
_DELETE = Op(
    id="deleteMessages",
    tag=TAG,
    summary="Delete messages by id",
    description="In any state, but for those in a shipment. In the ledger they are purged.",
    parameters=(QUEUE,),
    body=body(IdsRequest, {"ids": [EXAMPLE_ID]}),
    answers=_OUTCOMES,
)
_RELEASE = Op(
    id="releaseMessages",
    tag=TAG,
    summary="End claims by id",
    description="The messages are ready now, and the receipts of their claims worthless once they are claimed again. "
    "Delayed ones stay delayed. Those in a shipment count as missing.",
    parameters=(QUEUE,),
    body=body(IdsRequest, {"ids": [EXAMPLE_ID]}),
    answers=_OUTCOMES,
)
_MOVE = Op(
    id="moveMessages",
    tag=TAG,
    summary="Move messages by id",
    description="At once, in any state but for those in a shipment; they arrive unclaimed. See `POST /v1/moves` for "
    "more of them.",
    parameters=(QUEUE,),
    body=body(MoveIdsRequest, {"ids": [EXAMPLE_ID], "target": "orders-2"}, home={"ids": [EXAMPLE_ID], "as_new": False}),
    answers=_OUTCOMES,
)
_RESEND = Op(
    id="resend",
    tag=TAG,
    summary="Send another message in the place of one",
    description="The message is deleted, and the new one is sent: both, or neither.",
    parameters=(QUEUE, _MESSAGE),
    body=body(ResendRequest, {"message": {"body": "corrected"}}, elsewhere={"message": {"body": "x"}, "target": "q2"}),
    answers={
        200: answer("What became of it.", ResentMessage, {"outcome": "done", "id": EXAMPLE_ID}),
        404: NO_SUCH_QUEUE,
    },
)


def message_id_routes(broker: Broker) -> list[Route]:
    face = _MessageIds(broker)
    messages, poll = "/v1/queues/{queue}/messages", Permission("poll")
    return [
        route("GET", f"{messages}/{{message}}", face.show, _SHOW, poll, head=True),
        route("POST", f"{messages}/delete", face.delete, _DELETE, poll, MEDIUM),
        route("POST", f"{messages}/release", face.release, _RELEASE, poll, MEDIUM),
        route("POST", f"{messages}/move", face.move, _MOVE, poll, MEDIUM),
        route("POST", f"{messages}/{{message}}/resend", face.resend, _RESEND, poll, BULK),
    ]


class _MessageIds:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def show(self, request: Request) -> Pending[Response]:
        queue, message_id = request.params

        def shown(found: Found | None) -> Response:
            if found is None:
                raise MessageNotFound(message_id)
            return json_response(200, looked_at_view(found))

        return self._broker.find_message(queue, message_id).map(shown)

    def delete(self, request: Request) -> Pending[Response]:
        [queue] = request.params
        asked = _read_ids(request.body)
        return self._broker.delete_messages(queue, asked.ids, actor_of(request, VIA)).map(_told)

    def release(self, request: Request) -> Pending[Response]:
        [queue] = request.params
        asked = _read_ids(request.body)
        return self._broker.release_messages(queue, asked.ids, actor_of(request, VIA)).map(_told)

    def move(self, request: Request) -> Pending[Response]:
        """Where a dead letter came from is not known before it moves: then it takes a key that may send to every
        queue."""
        [queue] = request.params
        asked = _read_move(request.body)
        if asked.target == queue:
            raise InvalidRequest("a queue cannot be moved into itself")
        _need_post(request, EVERY_QUEUE if asked.target is None else asked.target)
        as_new = asked.target is None if asked.as_new is None else asked.as_new
        return self._broker.move_messages(queue, asked.ids, asked.target, as_new, actor_of(request, VIA)).map(_told)

    def resend(self, request: Request) -> Pending[Response]:
        queue, message_id = request.params
        asked = _read_resend(request.body)
        if asked.target is not None:
            _need_post(request, asked.target)
        return self._broker.resend(
            queue, message_id, draft_of(asked.message), asked.target, rules_of(request), actor_of(request, VIA)
        ).map(_resent)


def _need_post(request: Request, queue: str) -> None:
    if not permits(request, "post", queue):
        raise NotPermitted(needed_rule("post", queue))


def _told(dealings: list[Dealing]) -> Response:
    return json_response(200, Outcomes(dealings))


def _resent(resent: Resent) -> Response:
    return json_response(200, ResentMessage(resent.dealing, resent.id))
