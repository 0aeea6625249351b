"""Creating, finding and deleting queues."""

from __future__ import annotations

from typing import Final

from penstock import limits, names
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import InvalidRequest, PenstockError, QueueNotFound
from penstock.faces.description import Op, Param, Tag, answer, text
from penstock.faces.mqcore.answers import failure
from penstock.faces.mqcore.reserved import unless_reserved
from penstock.faces.permission import Permission, actor_of
from penstock.model import Settings
from penstock.pending import Pending

# What the log of actions calls this API.
VIA: Final = "mqcore"

# Only path and method are significant; whatever comes with them is read and dropped.
_DISCARDED = BodyRule(0, cut=True)

_CREATED = Response(201)
_FOUND = Response(200)
_ABSENT = Response(404)
_DELETED = Response(200)

SEPARATOR = ":"

TAG = Tag(
    "MQ-Core",
    "Six endpoints at the root. Queues have no settings, a message that was fetched comes back after a while unless it "
    "is deleted, and words that other APIs begin their paths with are not queues here.",
)
# No pattern: a name that no queue can have is one that does not exist, which is not a mistake in most requests.
QUEUE = Param(
    "queue",
    text(minLength=1),
    f"Its name: 1 to {limits.NAME_LENGTH} of `A-Z a-z 0-9 . _ @ -`, neither `.` nor `..`, and not a reserved word.",
    where="path",
    example="orders",
)
_FIND = Op(
    id="mqcoreFindQueue",
    tag=TAG,
    summary="Ask whether a queue exists",
    description="The status is the whole answer; there is no body.",
    parameters=(QUEUE,),
    answers={200: answer("It exists."), 404: answer("There is no such queue.")},
)
_CREATE = Op(
    id="mqcoreCreateQueue",
    tag=TAG,
    summary="Create a queue",
    description="Makes a queue with default settings. It is not an error that it exists already. A body is read and "
    "dropped.",
    parameters=(QUEUE,),
    answers={201: answer("The queue exists now.")},
)
_DELETE = Op(
    id="mqcoreDeleteQueue",
    tag=TAG,
    summary="Delete a queue and its messages",
    description="It is not an error that there is none.",
    parameters=(QUEUE,),
    answers={200: answer("The queue does not exist any more.")},
)


def is_name(name: str) -> bool:
    """Whether a queue of this API can be called so: its messages are kept in files called `queue:id`."""
    return SEPARATOR not in name and names.is_valid(name)


def queue_routes(broker: Broker, reserved: frozenset[str]) -> list[Route]:
    face = _Queues(broker)

    def find(request: Request) -> Response | Pending[Response]:
        # A reserved word never names a queue: nothing to explain, it does not exist.
        return _ABSENT if request.params[0] in reserved else face.find(request)

    create, delete = unless_reserved(face.create, reserved), unless_reserved(face.delete, reserved)
    status, admin = Permission("get_status"), Permission("admin")
    return [
        Route("GET", "/{queue}", find, head=True, permission=status, describe=_FIND),
        Route("PUT", "/{queue}", create, _DISCARDED, permission=admin, describe=_CREATE),
        Route("DELETE", "/{queue}", delete, _DISCARDED, permission=admin, describe=_DELETE),
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
        return self._broker.ensure_queue(name, Settings(), actor_of(request, VIA)).map(lambda _none: _CREATED, failure)

    def delete(self, request: Request) -> Response | Pending[Response]:
        [name] = request.params
        if not is_name(name):
            return _DELETED
        return self._broker.delete_queue(name, actor_of(request, VIA)).map(lambda _queue: _DELETED, _gone)


def _gone(error: Exception) -> Response:
    return _DELETED if isinstance(error, QueueNotFound) else failure(error)
