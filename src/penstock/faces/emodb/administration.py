"""Counts, purge, unclaimall, and moves."""

from __future__ import annotations

from penstock import names
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest, MoveNotFound, QueueNotFound
from penstock.faces.answers import json_response
from penstock.faces.emodb.service import (
    NOT_AUTHORIZED,
    Service,
    answered,
    failure,
    needs,
    number,
    success,
)
from penstock.faces.permission import Scope, permits
from penstock.model import Count, Move, MoveStatus
from penstock.pending import Pending

_LARGEST = 2**62
# EmoDB cannot cancel a move, and has no word for one that was.
_STATUSES = {status: status.value for status in MoveStatus} | {MoveStatus.CANCELLED: MoveStatus.ERROR.value}


def administration_routes(broker: Broker, service: Service) -> list[Route]:
    face = _Administration(broker, service)
    queue = f"{service.base}/{{queue}}"
    status, poll = needs("get_status"), needs("poll")
    itself = Scope.ASKS_ITSELF
    moves = f"{service.base}/_move"
    return [
        Route("GET", f"{queue}/size", answered(face.size), head=True, permission=status),
        Route("GET", f"{queue}/claimcount", answered(face.claim_count), head=True, permission=status),
        Route("DELETE", queue, answered(face.purge), permission=poll),
        Route("POST", f"{queue}/unclaimall", answered(face.release_all), permission=poll),
        Route("POST", moves, answered(face.move), permission=needs("poll", itself)),
        Route("GET", f"{moves}/{{reference}}", answered(face.move_status), permission=needs("get_status", itself)),
    ]


class _Administration:
    def __init__(self, broker: Broker, service: Service) -> None:
        self._broker = broker
        self._service = service

    def size(self, request: Request) -> Pending[Response]:
        """The tally is exact at any depth, so a limit changes nothing but what is checked."""
        number(request, "limit", 1, 1, _LARGEST)
        return self._counted(request).map(lambda count: json_response(200, count.total), _zero)

    def claim_count(self, request: Request) -> Pending[Response]:
        return self._counted(request).map(lambda count: json_response(200, count.claimed), _zero)

    def _counted(self, request: Request) -> Pending[Count]:
        queue = self._service.queue(request.params[0])
        return self._broker.count(queue)

    def purge(self, request: Request) -> Pending[Response]:
        return self._broker.purge(self._service.queue(request.params[0])).map(success, _nothing_to_do)

    def release_all(self, request: Request) -> Pending[Response]:
        return self._broker.release_all(self._service.queue(request.params[0])).map(success, _nothing_to_do)

    def move(self, request: Request) -> Response | Pending[Response]:
        """Whoever may take from one queue and put into the other may move."""
        asked = request.query_params()
        if "from" not in asked or "to" not in asked:
            raise InvalidRequest("from and to are required")
        source, target = self._service.queue(asked["from"]), self._service.queue(asked["to"])
        if source == target:
            raise InvalidRequest("a queue cannot be moved into itself")
        if not (permits(request, "poll", source) and permits(request, "post", target)):
            return NOT_AUTHORIZED
        started = self._broker.moves.start(source, target, create_as=self._service.settings, claimed=True)
        return started.map(lambda move: json_response(200, {"id": move.id}))

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
            return json_response(200, {"from": source, "to": target, "status": _STATUSES[move.status]})

        return self._broker.moves.find(reference).map(status)


def _zero(error: Exception) -> Response:
    return json_response(200, 0) if isinstance(error, QueueNotFound) else failure(error)


def _nothing_to_do(error: Exception) -> Response:
    return success(None) if isinstance(error, QueueNotFound) else failure(error)
