"""The document: the routes that are served, and what each says of itself.

The routes decide what is in it. From them come the paths, who may ask, how long a body may be, and whether HEAD is
answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from penstock import __version__
from penstock.edge.router import Route
from penstock.faces.description import Op, Part, Shared
from penstock.faces.openapi.schemas import Schemas
from penstock.faces.permission import Permission, Scope
from penstock.faces.refusals import OF_EDGE, OF_GUARD, OF_OPEN_GUARD

_ABOUT = (
    "One durable message queue that speaks several APIs over one core: a message sent through one can be received "
    "through another. This document describes those that this server speaks.\n\n"
    "Once the store has an API key, every request needs one, except those that say otherwise. An unknown path "
    "answers 404. A method that a path does not have answers 405, and `Allow` lists those it has."
)
_SECURITY_SCHEMES: Part = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, as `Authorization: Bearer psk_…`."},
    "header": {
        "type": "apiKey",
        "in": "header",
        "name": "X-BV-API-Key",
        "description": "An API key in a header of its own. Where both are there, this one counts.",
    },
}
# OpenAPI has no word for it; the generators of AWS know this one.
_SIGNATURE: Part = {
    "type": "apiKey",
    "in": "header",
    "name": "Authorization",
    "description": "AWS Signature Version 4 with an API key: its name is the access key id.",
    "x-amazon-apigateway-authtype": "awsSigv4",
}
# The empty one comes last: while the store has no key, none is asked for.
_SECURITY: list[Part] = [{"bearer": []}, {"header": []}, {}]

_WHERE = {
    Scope.QUEUE: "on the queue",
    Scope.EVERY_QUEUE: "on every queue",
    Scope.ASKS_ITSELF: "on each queue that is concerned",
}
_PARAMETER = re.compile(r"\{(\w+)\}")


def build(routes: Iterable[Route]) -> Part:
    """The document as plain data."""
    paths: dict[str, Part] = {}
    tags: dict[str, str] = {}
    schemes = _SECURITY_SCHEMES
    for route in routes:
        op = described(route)
        if _takes_signatures(route):
            schemes = {**_SECURITY_SCHEMES, "signature": _SIGNATURE}
        tags[op.tag.name] = op.tag.description
        methods = paths.setdefault(_path(route, op), {})
        methods[route.method.lower()] = _operation(route, op)
        if route.head:
            methods["head"] = _head(methods["get"])
    paths, components = _resolved(paths)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock", "version": __version__, "description": _ABOUT},
        "servers": [{"url": "/", "description": "this server"}],
        "tags": [{"name": name, "description": said} for name, said in tags.items()],
        "security": _SECURITY,
        "paths": paths,
        "components": {**components, "securitySchemes": schemes},
    }


def described(route: Route) -> Op:
    if not isinstance(route.describe, Op):
        raise TypeError(f"{route.method} {route.pattern} is not described")
    return route.describe


def _path(route: Route, op: Op) -> str:
    """The pattern, with the names that the operation gives to its parameters: two patterns that differ in such names
    alone are one path here."""
    names = iter([one.name for one in op.parameters if one.where == "path"])
    return _PARAMETER.sub(lambda _found: f"{{{next(names)}}}", route.pattern)


def _operation(route: Route, op: Op) -> Part:
    public = not isinstance(route.permission, Permission) or route.permission.scope is Scope.ANYBODY
    made: Part = {
        "operationId": op.id,
        "tags": [op.tag.name],
        "summary": op.summary,
        "description": f"{op.description}\n\n{_needed(route.permission)}",
    }
    if public:
        made["security"] = []
    elif _takes_signatures(route):
        made["security"] = [{"signature": []}, *_SECURITY]
    if op.parameters:
        made["parameters"] = [one.part() for one in op.parameters]
    if op.body is not None:
        limit = f"At most {route.body.limit:,} bytes" + (", what is longer is cut off." if route.body.cut else ".")
        said = " ".join(part for part in (op.body.get("description"), limit) if part)
        made["requestBody"] = {**op.body, "description": said}
    answers: dict[int, Part | Shared] = {**OF_EDGE, **(OF_OPEN_GUARD if public else OF_GUARD)}
    answers |= {status: own for status, own in op.tag.own.items() if status in answers}
    whole = {**answers, **op.answers}
    made["responses"] = {str(status): whole[status] for status in sorted(whole) if status not in op.tag.never}
    return made


def _takes_signatures(route: Route) -> bool:
    return isinstance(route.permission, Permission) and route.permission.signed


def _needed(permission: object) -> str:
    if not isinstance(permission, Permission) or permission.scope is Scope.ANYBODY:
        return "Needs no API key."
    return f"An API key needs the permission `{permission.action}` {_WHERE[permission.scope]}."


def _head(get: Part) -> Part:
    """HEAD is GET without the body, and is asked for under a name of its own."""
    return {**get, "operationId": get["operationId"] + "Head", "summary": f"{get['summary']}: the headers alone"}


def _resolved(paths: Part) -> tuple[Part, Part]:
    """The paths with references in place of types and shared pieces, and what those refer to."""
    operations = [one for methods in paths.values() for one in methods.values()]
    requests = [one.get("requestBody") for one in operations]
    shared: dict[tuple[str, str], Part] = {}
    answers = [*_types([one["responses"] for one in operations], shared)]
    schemas = Schemas(_types(requests, shared), answers)

    def schema(shape: Any) -> Part:
        return {"anyOf": [schemas.of(one) for one in shape]} if isinstance(shape, tuple) else schemas.of(shape)

    def resolve(part: Any) -> Any:
        if isinstance(part, Shared):
            return {"$ref": f"#/components/{part.kind}/{part.name}"}
        if isinstance(part, dict):
            return {
                key: schema(value) if key == "schema" and not isinstance(value, dict) else resolve(value)
                for key, value in part.items()
            }
        return [resolve(one) for one in part] if isinstance(part, list) else part

    components: dict[str, Part] = {"schemas": schemas.components, "responses": {}, "headers": {}}
    for (kind, name), part in shared.items():
        components[kind][name] = resolve(part)
    return resolve(paths), components


def _types(part: Any, shared: dict[tuple[str, str], Part]) -> Iterator[Any]:
    """The types that stand for schemas in a part. What it shares with others is collected, and followed once."""
    if isinstance(part, Shared):
        if (part.kind, part.name) not in shared:
            shared[part.kind, part.name] = part.part
            yield from _types(part.part, shared)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key == "schema" and not isinstance(value, dict):
                yield from value if isinstance(value, tuple) else (value,)
            else:
                yield from _types(value, shared)
    elif isinstance(part, list):
        for one in part:
            yield from _types(one, shared)
