"""Which handler answers a request, and how long a body it accepts.

A static segment wins over a parameter and there is no way back: once `/queues` is a known first
segment, nothing below it is ever taken for a queue of that name. The router calls no handler, and it
never reads a body.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import unquote_to_bytes

from penstock.edge.head import origin_form
from penstock.edge.http import Handler, Request, Response, Traffic
from penstock.edge.lately import Lately

_JSON: Final = (b"Content-Type", b"application/json")
# Visible ASCII without a fragment, far shorter than what the parser and the limits let pass.
_PLAIN_LINE: Final = re.compile(rb"(?:GET|POST|PUT|DELETE|HEAD) /[!$-~]{0,255}")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

_TARGETS_KEPT: Final = 4096
_LONGEST_TARGET_KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class BodyRule:
    """The longest body a route takes, in bytes. A longer one is answered with 413, or, with `cut`,
    handed over cut off at the limit. It is read to its end first, unless that is farther than 16 MiB:
    then the answer is the last on its connection."""

    limit: int
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one pattern, such as `/queues/{name}`.

    `head` lets HEAD be answered through a GET route; only a handler without side effects may say so.
    `choose` hands a request over to another route by its headers, before its body is read.
    `unreadable` answers a request whose body came too slowly, or whose client stopped in the middle of
    it; it is told which. Without it the answer is 408 to the first, and none to the second.
    `permission` is for the guard and `describe` for the document of the API; the router looks at neither.
    `refuses` marks the routes that the router makes for requests that match none.
    `traffic` is what it has answered; a route that was made from another by `replace` shares it.
    """

    method: str
    pattern: str
    handler: Handler
    body: BodyRule = BodyRule(1 << 20)
    head: bool = False
    choose: Callable[[Request], Route] | None = None
    unreadable: Callable[[str], Response] | None = None
    permission: Any = None
    describe: Any = None
    refuses: bool = False
    traffic: Traffic = field(default_factory=Traffic, compare=False, repr=False)


# Method, path and query of a target, the route it leads to and the parameters found on the way.
Target: TypeAlias = tuple[str, str, str, Route, tuple[str, ...]]


class Client(Protocol):
    """The other end of a connection."""

    def address(self) -> str:
        """As far as the network tells; behind a proxy, the proxy's."""


Guard: TypeAlias = Callable[[Request, Route, Client], Response | None]


def _explain(status: int, reason: str, *headers: tuple[bytes, bytes]) -> Response:
    return Response(status, json.dumps({"error": reason}).encode(), (_JSON, *headers))


def _not_found(_request: Request) -> Response:
    return _explain(404, "not found")


def _method_not_allowed(_request: Request, allowed: tuple[str, ...]) -> Response:
    return _explain(405, "method not allowed", (b"Allow", ", ".join(allowed).encode()))


def _failed(_request: Request, _error: Exception) -> Response:
    return _explain(500, "internal error")


def _refused(_request: Request | None, status: int, reason: str) -> Response:
    return _explain(status, reason)


@dataclass(frozen=True, slots=True)
class Errors:
    """How the edge puts its own answers. `refused` is for requests the edge turns away by itself
    (400, 408, 413, 414, 417, 431, 501, 503); it gets no request if none could be read."""

    not_found: Callable[[Request], Response] = _not_found
    method_not_allowed: Callable[[Request, tuple[str, ...]], Response] = _method_not_allowed
    failed: Callable[[Request, Exception], Response] = _failed
    refused: Callable[[Request | None, int, str], Response] = _refused


@dataclass(slots=True)
class _Node:
    static: dict[str, _Node] = field(default_factory=dict)
    parameter: _Node | None = None
    routes: dict[str, Route] = field(default_factory=dict)
    wrong_method: Route | None = None


class Router:
    def __init__(self, routes: Iterable[Route], errors: Errors | None = None, guard: Guard | None = None) -> None:
        self.errors = errors = errors or Errors()
        self.guard = guard
        # Of requests that match no route, or cannot be read.
        self.unmatched = Traffic()
        # Clients ask for the same few targets all the time: taking one apart is done once. The key is the
        # request line without its version.
        self.targets: dict[bytes, Target] = {}
        self._lately = Lately(_TARGETS_KEPT)
        self.not_found = _refusal(errors.not_found)
        self._bad_escape = _refusal(lambda request: errors.refused(request, 400, "bad escape in the path"))
        self._root = _Node()
        for route in routes:
            self._add(route)
        # Paths without parameters are found in one step. A parameter never wins over them, so
        # looking here first changes nothing.
        self._whole: dict[str, _Node] = {}
        self._finish(self._root, "", static=True)

    def match(self, method: str, path: str) -> tuple[Route, tuple[str, ...]]:
        """The route for a path as it was sent, and its decoded parameters. A request that matches no
        route gets one that refuses it."""
        node = self._whole.get(path)
        if node is not None:
            return node.routes.get(method) or node.wrong_method or self.not_found, ()
        segments = path.split("/")
        if "%" in path:
            # Before comparing: an escaped letter must not open a way around a static segment.
            try:
                segments = [_decode(segment) for segment in segments]
            except ValueError:
                return self._bad_escape, ()
        if segments[0]:
            return self.not_found, ()
        node = self._root
        params: tuple[str, ...] = ()
        for segment in segments[1:]:
            following = node.static.get(segment)
            if following is None:
                following = node.parameter
                if following is None or not segment:
                    return self.not_found, ()
                params += (segment,)
            node = following
        return node.routes.get(method) or node.wrong_method or self.not_found, params

    def resolve(self, name: bytes, url: bytes, key: bytes) -> Target:
        """Take a target that is not among `targets` by its `key` apart, and keep it if it will be asked for again."""
        method = name.decode("latin-1")
        text = url.decode("latin-1")
        if text[0] != "/" or "#" in text:
            text = origin_form(text)
        path, _, query = text.partition("?")
        route, params = self.match(method, path)
        target = (method, path, query, route, params)
        self._remember(key, target)
        return target

    def resolve_line(self, line: bytes) -> Target | None:
        """The same for a request line, without its version, that no parser has seen: None unless it is a plain one."""
        if _PLAIN_LINE.fullmatch(line) is None:
            return None
        name, _, url = line.partition(b" ")
        return self.resolve(name, url, line)

    def _remember(self, key: bytes, target: Target) -> None:
        """Keep a target that is asked for a second time: one with the id of a message seldom is."""
        if len(key) > _LONGEST_TARGET_KEPT or not self._lately.note(key):
            return
        if len(self.targets) >= _TARGETS_KEPT:
            # Starting over costs the few that are in use one look-up each.
            self.targets.clear()
        self.targets[key] = target

    def refuse_method(self, allowed: tuple[str, ...]) -> Route:
        answer = self.errors.method_not_allowed
        return _refusal(lambda request: answer(request, allowed))

    def _add(self, route: Route) -> None:
        if not route.pattern.startswith("/"):
            raise ValueError(f"a pattern starts with a slash: {route.pattern}")
        node = self._root
        for segment in route.pattern.split("/")[1:]:
            if segment.startswith("{") and segment.endswith("}"):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.static.setdefault(segment, _Node())
        for method in (route.method, "HEAD") if route.head else (route.method,):
            if method in node.routes:
                raise ValueError(f"two routes for {method} {route.pattern}")
            node.routes[method] = route

    def _finish(self, node: _Node, path: str, static: bool) -> None:
        if node.routes:
            node.wrong_method = self.refuse_method(tuple(sorted(node.routes)))
            if static:
                self._whole[path] = node
        for segment, following in node.static.items():
            self._finish(following, f"{path}/{segment}", static)
        if node.parameter is not None:
            self._finish(node.parameter, "", static=False)


def _refusal(handler: Handler) -> Route:
    return Route("", "", handler, refuses=True)


def _decode(segment: str) -> str:
    if "%" not in segment:
        return segment
    if _BAD_ESCAPE.search(segment):
        raise ValueError("a percent sign without two digits")
    return unquote_to_bytes(segment).decode()
