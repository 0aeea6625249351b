"""Creating, finding and deleting queues."""

from __future__ import annotations

from collections.abc import Callable

from penstock import names
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import InvalidRequest, PenstockError, QueueExists, QueueNotFound
from penstock.faces.mqcore.answers import failure
from penstock.faces.mqcore.reserved import unless_reserved
from penstock.faces.permission import Permission
from penstock.model import Queue, Settings
from penstock.pending import Pending
from penstock.stores.protocol import Unit

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
        found = self._broker.work(lambda unit, _now: unit.find_queue(name), writes=False)
        return found.map(lambda queue: _ABSENT if queue is None else _FOUND, failure)

    def create(self, request: Request) -> Response | Pending[Response]:
        [name] = request.params
        try:
            if SEPARATOR in name:
                raise InvalidRequest("a queue name holds no ':' here: it separates the queue from the id")
            names.check(name)
        except PenstockError as error:
            return failure(error)

        def create(unit: Unit, now: int) -> Queue:
            return unit.find_queue(name) or unit.create_queue(name, Settings(), now)

        return self._broker.work(create).map(lambda _queue: _CREATED, _unless(QueueExists, _CREATED))

    def delete(self, request: Request) -> Response | Pending[Response]:
        [name] = request.params
        if not is_name(name):
            return _DELETED
        deleted = self._broker.work(lambda unit, now: unit.delete_queue(name, now))
        return deleted.map(lambda _queue: _DELETED, _unless(QueueNotFound, _DELETED))


def _unless(expected: type[PenstockError], answer: Response) -> Callable[[Exception], Response]:
    return lambda error: answer if isinstance(error, expected) else failure(error)
