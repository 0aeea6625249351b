"""The document: the routes that are served, and what the tables say of them.

The routes decide what is in it. From them come the paths, who may ask, how long a body may be, and whether HEAD is
answered; a route that no table knows is an error at start, not a gap that somebody notices later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from penstock import __version__
from penstock.edge.router import Route
from penstock.faces.openapi import components, emodb, mqcore, mqs, native
from penstock.faces.openapi.parts import Face, Operation, Part, shared
from penstock.faces.permission import Permission, Scope

FACES: Mapping[str, Face] = {"mqs": mqs.FACE, "native": native.FACE, "emodb": emodb.FACE, "mqcore": mqcore.FACE}

_ABOUT = (
    "One durable message queue that speaks several APIs over one core: a message sent through one can be received "
    "through another. This document describes those that this server speaks.\n\n"
    "Once the store has an API key, every request needs one, but for those that say otherwise. A path that is none "
    "answers 404. A method that a path does not know answers 405, with those it knows in `Allow`."
)

_WHERE = {
    Scope.QUEUE: "on the queue",
    Scope.EVERY_QUEUE: "on every queue",
    Scope.ASKS_ITSELF: "on each queue that is concerned",
}
_PARAMETER = re.compile(r"\{(\w+)\}")


def build(served: Mapping[str, Sequence[Route]]) -> Part:
    """`served` are the routes by the name of their face."""
    paths: dict[str, Part] = {}
    for name, routes in served.items():
        for route in routes:
            operation = FACES[name].operations[f"{route.method} {route.pattern}"]
            methods = paths.setdefault(_path(route, operation), {})
            methods[route.method.lower()] = _shown(route, operation, FACES[name])
            if route.head:
                methods["head"] = _head(methods["get"])
    referred = _referred(paths)
    faces = [FACES[name] for name in served]
    tags = {tag: said for face in faces for tag, said in face.tags.items()}
    schemas = {name: shape for face in faces for name, shape in face.schemas.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock", "version": __version__, "description": _ABOUT},
        "servers": [{"url": "/", "description": "this server"}],
        "tags": [{"name": name, "description": said} for name, said in tags.items()],
        "security": components.SECURITY,
        "paths": paths,
        "components": {
            "schemas": {**components.SCHEMAS, **schemas},
            "responses": {name: made for name, made in components.RESPONSES.items() if name in referred},
            "headers": components.HEADERS,
            "securitySchemes": components.SECURITY_SCHEMES,
        },
    }


def _referred(part: object) -> set[str]:
    """The names of the shared parts that a part refers to."""
    if isinstance(part, dict):
        named = {part["$ref"].rpartition("/")[2]} if "$ref" in part else set()
        return named.union(*map(_referred, part.values()))
    return set().union(*map(_referred, part)) if isinstance(part, list) else set()


def _path(route: Route, operation: Operation) -> str:
    """The pattern, with the names that the operation gives to its parameters: two patterns that differ in such names
    alone are one path here."""
    names = iter([part["name"] for part in operation.parameters if part["in"] == "path"])
    return _PARAMETER.sub(lambda _found: f"{{{next(names)}}}", route.pattern)


def _shown(route: Route, operation: Operation, face: Face) -> Part:
    permission = route.permission
    public = not isinstance(permission, Permission) or permission.scope is Scope.ANYBODY
    shown: Part = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": f"{operation.description}\n\n{_needed(permission)}",
    }
    if public:
        shown["security"] = []
    if operation.parameters:
        shown["parameters"] = list(operation.parameters)
    if operation.body is not None:
        limit = f"At most {route.body.limit:,} bytes" + (", what is longer is cut off." if route.body.cut else ".")
        said = " ".join(part for part in (operation.body.get("description"), limit) if part)
        shown["requestBody"] = {**operation.body, "description": said}
    shown["responses"] = _responses(operation, face, public)
    return shown


def _needed(permission: object) -> str:
    if not isinstance(permission, Permission) or permission.scope is Scope.ANYBODY:
        return "Needs no API key."
    return f"An API key needs the permission `{permission.action}` {_WHERE[permission.scope]}."


def _responses(operation: Operation, face: Face, public: bool) -> Part:
    of_the_guard = components.OF_THE_OPEN_GUARD if public else components.OF_THE_GUARD
    others = {**components.OF_THE_EDGE, **of_the_guard}
    answers: dict[int, Part] = {status: shared(name) for status, name in others.items()}
    answers |= {status: own for status, own in face.own.items() if status in answers}
    answers |= operation.answers
    return {str(status): answers[status] for status in sorted(answers) if status not in face.never}


def _head(get: Part) -> Part:
    """HEAD is GET without the body, and is asked for under a name of its own."""
    return {
        **get,
        "operationId": get["operationId"] + "Head",
        "summary": f"{get['summary']}: the headers alone",
    }
