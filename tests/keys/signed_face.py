"""A face for tests whose one route takes signatures, as a program that serves it beside the others: its arguments are
those of `penstock`, after the interpreter and `-m penstock`."""

from __future__ import annotations

import json
import sys

from penstock.edge.http import Handler, Request, Response
from penstock.edge.router import Route
from penstock.faces.description import Op, Tag
from penstock.faces.permission import Permission, Refusal, Scope, name_of_caller, permits
from penstock.faces.signatures import verify
from penstock.server import faces

PATH = "/signed"


def refused(refusal: Refusal, why: str) -> Response:
    status = 429 if refusal is Refusal.SLOW_DOWN else 403
    return Response(status, json.dumps({"refusal": refusal.name, "why": why}).encode())


def handle(request: Request) -> Response:
    wrong = verify(request)
    if wrong is not None:
        return refused(wrong.refusal, wrong.why)
    if not permits(request, "post", "orders"):
        return refused(Refusal.NOT_PERMITTED, "")
    return Response(200, json.dumps({"caller": name_of_caller(request), "body": request.body.decode()}).encode())


def forget(request: Request) -> Response:
    """What a handler that does not verify may do."""
    return Response(
        200, json.dumps({"caller": name_of_caller(request), "may": permits(request, "post", "orders")}).encode()
    )


PERMISSION = Permission("post", Scope.ASKS_ITSELF, refused, signed=True)
TAG = Tag("signed", "For tests.")


def route(method: str, path: str, handler: Handler, name: str, permission: Permission = PERMISSION) -> Route:
    op = Op(id=name, tag=TAG, summary=name, description=name, answers={})
    return Route(method, path, handler, permission=permission, describe=op)


ROUTES = [
    route("POST", PATH, handle, "signed"),
    route("GET", PATH, handle, "signedGet"),
    route("POST", f"{PATH}/forgotten", forget, "forgotten"),
    route("POST", "/unsigned", handle, "unsigned", Permission("post", Scope.ASKS_ITSELF, refused)),
]
FACE = faces.Face(frozenset(), lambda _broker, _keyring, _config, _reserved: ROUTES)


if __name__ == "__main__":
    from penstock.cli import main

    faces.FACES["signed"] = FACE
    main(sys.argv[4:])
