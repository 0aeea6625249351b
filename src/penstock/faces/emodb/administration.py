"""Counts, purge, unclaimall, and moves."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from penstock import names
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest, MoveNotFound, QueueNotFound
from penstock.faces.answers import json_response
from penstock.faces.description import EXAMPLE_ID, LARGEST, TEXT, NumberParam, Op, Param, answer, text
from penstock.faces.emodb.service import (
    DONE,
    NAME,
    NAME_RULE,
    NOT_AUTHORIZED,
    QUEUE,
    THROWN,
    VIA,
    EmoDBUnknownMove,
    Service,
    answered,
    failure,
    needs,
    number,
    success,
)
from penstock.faces.permission import Scope, actor_of, permits
from penstock.limits import Limits
from penstock.model import Count, Move, MoveStatus
from penstock.pending import Pending

# EmoDB cannot cancel a move, and has no word for one that was.
_STATUSES = {status: status.value for status in MoveStatus} | {MoveStatus.CANCELLED: MoveStatus.ERROR.value}


_STATUS_WORDS = [MoveStatus.IN_PROGRESS, MoveStatus.COMPLETE, MoveStatus.ERROR]


class EmoDBMoveStarted(Struct):
    id: Annotated[str, Meta(description="its reference")]


class EmoDBMove(Struct):
    source: Annotated[str, Meta(description="the queue that is emptied")] = field(name="from")
    target: Annotated[str, Meta(description="the queue that is filled")] = field(name="to")
    status: Annotated[
        str,
        Meta(
            description="`ERROR`: the target was deleted meanwhile",
            extra_json_schema={"enum": [status.value for status in _STATUS_WORDS]},
        ),
    ]


_COUNT = answer("The count, as a bare number.", Annotated[int, Meta(ge=0)], 3)
_LIMIT = NumberParam("limit", 1, LARGEST, "Checked, and then not needed.")
_FROM = Param("from", NAME, f"The queue to empty: {NAME_RULE}.", example="orders", required=True)
_TO = Param("to", NAME, "The queue to fill; it is made if there is none.", example="archive", required=True)
_REFERENCE = Param("reference", text(minLength=1), "What the start answered.", where="path", example=EXAMPLE_ID)


def administration_routes(broker: Broker, service: Service) -> list[Route]:
    face = _Administration(broker, service)
    tag, prefix, queue = service.tag, service.prefix, f"{service.base}/{{queue}}"
    status, poll = needs("get_status"), needs("poll")
    moves = f"{service.base}/_move"
    return [
        Route(
            "GET",
            f"{queue}/size",
            answered(face.size),
            head=True,
            permission=status,
            describe=Op(
                id=f"{prefix}Size",
                tag=tag,
                summary="Count messages",
                description="Claimed ones included, exact at any depth. A `limit` is checked and then not needed.",
                parameters=(QUEUE, _LIMIT),
                answers={200: _COUNT},
            ),
        ),
        Route(
            "GET",
            f"{queue}/claimcount",
            answered(face.claim_count),
            head=True,
            permission=status,
            describe=Op(
                id=f"{prefix}ClaimCount",
                tag=tag,
                summary="Count claimed messages",
                description=f"Exact up to {Limits().count_rows:,}, and that number beyond.",
                parameters=(QUEUE,),
                answers={200: _COUNT},
            ),
        ),
        Route(
            "DELETE",
            queue,
            answered(face.purge),
            permission=poll,
            describe=Op(
                id=f"{prefix}Purge",
                tag=tag,
                summary="Delete all messages",
                description="Every message that is in the queue now, claimed or not. The queue and its settings stay.",
                parameters=(QUEUE,),
                answers={200: DONE},
            ),
        ),
        Route(
            "POST",
            f"{queue}/unclaimall",
            answered(face.release_all),
            permission=poll,
            describe=Op(
                id=f"{prefix}UnclaimAll",
                tag=tag,
                summary="Release every claim",
                description="All claimed messages of the queue can be polled again at once.",
                parameters=(QUEUE,),
                answers={200: DONE},
            ),
        ),
        Route(
            "POST",
            moves,
            answered(face.move),
            permission=needs("poll", Scope.ASKS_ITSELF),
            describe=Op(
                id=f"{prefix}Move",
                tag=tag,
                summary="Move all messages to another queue",
                description="Starts the move and answers at once; it goes on in the background, also after a restart. "
                "What is claimed goes along and arrives unclaimed; what is sent after the start stays.",
                parameters=(_FROM, _TO),
                answers={
                    200: answer("The move has started.", EmoDBMoveStarted, {"id": EXAMPLE_ID}),
                    409: answer("One of the two queues is part of another move.", text(), media=TEXT),
                },
            ),
        ),
        Route(
            "GET",
            f"{moves}/{{reference}}",
            answered(face.move_status),
            permission=needs("get_status", Scope.ASKS_ITSELF),
            describe=Op(
                id=f"{prefix}MoveStatus",
                tag=tag,
                summary="Ask how a move goes",
                description="It can be asked for until a day after its end.",
                parameters=(_REFERENCE,),
                answers={
                    200: answer("How it goes.", EmoDBMove, {"from": "orders", "to": "archive", "status": "COMPLETE"}),
                    404: answer(
                        "There is no such move.",
                        EmoDBUnknownMove,
                        {"id": "no-such-move", "message": "there is no move 'no-such-move'"},
                        headers=THROWN,
                    ),
                },
            ),
        ),
    ]


class _Administration:
    def __init__(self, broker: Broker, service: Service) -> None:
        self._broker = broker
        self._service = service

    def size(self, request: Request) -> Pending[Response]:
        """The tally is exact at any depth, so a limit changes nothing but what is checked."""
        number(request, _LIMIT)
        return self._counted(request).map(lambda count: json_response(200, count.total), _zero)

    def claim_count(self, request: Request) -> Pending[Response]:
        return self._counted(request).map(lambda count: json_response(200, count.claimed), _zero)

    def _counted(self, request: Request) -> Pending[Count]:
        queue = self._service.queue(request.params[0])
        return self._broker.count(queue)

    def purge(self, request: Request) -> Pending[Response]:
        queue = self._service.queue(request.params[0])
        return self._broker.purge(queue, actor_of(request, VIA)).map(success, _nothing_to_do)

    def release_all(self, request: Request) -> Pending[Response]:
        queue = self._service.queue(request.params[0])
        return self._broker.release_all(queue, actor_of(request, VIA)).map(success, _nothing_to_do)

    def move(self, request: Request) -> Response | Pending[Response]:
        """A caller who may take from one queue and put into the other may move."""
        asked = request.query_params()
        if _FROM.name not in asked or _TO.name not in asked:
            raise InvalidRequest("from and to are required")
        source, target = self._service.queue(asked[_FROM.name]), self._service.queue(asked[_TO.name])
        if source == target:
            raise InvalidRequest("a queue cannot be moved into itself")
        if not (permits(request, "poll", source) and permits(request, "post", target)):
            return NOT_AUTHORIZED
        settings, by = self._service.settings, actor_of(request, VIA)
        started = self._broker.moves.start(source, target, create_as=settings, claimed=True, by=by)
        return started.map(lambda move: json_response(200, EmoDBMoveStarted(move.id)))

    def move_status(self, request: Request) -> Pending[Response]:
        [reference] = request.params
        space = self._service.space

        def status(move: Move | None) -> Response:
            if move is None or move.source.startswith(names.DEDUP_SPACE) != bool(space):
                return failure(MoveNotFound(reference))
            if move.target is None or move.terms.dry_run:
                return failure(MoveNotFound(reference))  # of the native API alone
            if not permits(request, "get_status", move.source):
                return NOT_AUTHORIZED
            source, target = move.source.removeprefix(space), move.target.removeprefix(space)
            return json_response(200, EmoDBMove(source, target, _STATUSES[move.status]))

        return self._broker.moves.find(reference).map(status)


def _zero(error: Exception) -> Response:
    return json_response(200, 0) if isinstance(error, QueueNotFound) else failure(error)


def _nothing_to_do(error: Exception) -> Response:
    return success(None) if isinstance(error, QueueNotFound) else failure(error)
