"""Creating, finding and deleting queues."""

from __future__ import annotations

from penstock import names
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import InvalidRequest, PenstockError, QueueNotFound
from penstock.faces.mqcore.answers import failure
from penstock.faces.mqcore.reserved import unless_reserved
from penstock.faces.permission import Permission
from penstock.model import Settings
from penstock.pending import Pending

# Only path and method are significant; whatever comes with them is read and dropped.
_DISCARDED = BodyRule(0, cut=True)

_CREATED = Response(201)
_FOUND = Response(200)
_ABSENT = Response(404)
_DELETED = Response(200)

SEPARATOR = ":"


def is_name(name: str) -> bool:
    """Whether a queue of this API can be called so: its messages are kept in files called `queue:id`."""
    return SEPARATOR not in name and names.is_valid(name)


def queue_routes(broker: Broker, reserved: frozenset[str]) -> list[Route]:
    face = _Queues(broker)
    return [
        Route(
            "GET",
            "/{queue}",
            # A reserved word never names a queue: nothing to explain, it does not exist.
            lambda request: _ABSENT if request.params[0] in reserved else face.find(request),
            head=True,
            permission=Permission("get_status"),
        ),
        Route("PUT", "/{queue}", unless_reserved(face.create, reserved), _DISCARDED, permission=Permission("admin")),
        Route("DELETE", "/{queue}", unless_reserved(face.delete, reserved), _DISCARDED, permission=Permission("admin")),
    ]


class _Queues:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def find(self, request: Request) -> Response | Pending[Response]:
        [name] = request.params
        if not is_name(name):
            return _ABSENT
        return self._broker.find_queues((name,)).map(lambda found: _ABSENT if found[0] is None else _FOUND, failure)

    def create(self, request: Request) -> Response | Pending[Response]:
        [name] = request.params
        try:
            if SEPARATOR in name:
                raise InvalidRequest("a queue name holds no ':' here: it separates the queue from the id")
            names.check(name)
        except PenstockError as error:
            return failure(error)
        return self._broker.ensure_queue(name, Settings()).map(lambda _none: _CREATED, failure)

    def delete(self, request: Request) -> Response | Pending[Response]:
        [name] = request.params
        if not is_name(name):
            return _DELETED
        return self._broker.delete_queue(name).map(lambda _queue: _DELETED, _gone)


def _gone(error: Exception) -> Response:
    return _DELETED if isinstance(error, QueueNotFound) else failure(error)
