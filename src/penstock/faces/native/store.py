"""What can be asked of the store as a whole."""

from __future__ import annotations

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.faces.answers import json_response
from penstock.faces.description import Op, Tag, answer
from penstock.faces.native.requests import SMALL, VIA, route
from penstock.faces.permission import Permission, Scope, actor_of
from penstock.model import Shrunk
from penstock.pending import Pending

_TAG = Tag("native store", "The store as a whole, for those who look after it.")
_MOST_MIB = limits.Limits().shrink_request_bytes >> 20

_SHRINK = Op(
    id="shrink",
    tag=_TAG,
    summary="Give back unused room",
    description="Give back to the file system what the store holds and does not use, without waiting until it is worth "
    f"it; about {_MOST_MIB} MiB a request, in steps between which other requests are served. While `returned_bytes` is "
    "not 0, ask again. A file that an earlier version has made gives back nothing until it was rebuilt: see "
    "`penstock shrink --store`. Where a database server sees to its own files, `unused_bytes` is null.",
    answers={200: answer("What was given back, and what is left.", Shrunk,
                         {"returned_bytes": 67_108_864, "unused_bytes": 1_048_576})},
)  # fmt: skip


def store_routes(broker: Broker) -> list[Route]:
    face = _Store(broker)
    admin = Permission("admin", Scope.EVERY_QUEUE)
    return [route("POST", "/v1/store/shrink", face.shrink, _SHRINK, admin, SMALL)]


class _Store:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def shrink(self, request: Request) -> Pending[Response]:
        return self._broker.shrink(actor_of(request, VIA)).map(lambda shrunk: json_response(200, shrunk))
