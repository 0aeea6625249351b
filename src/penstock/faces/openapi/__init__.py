"""The description of the APIs for programs, `/openapi.json`, and a page on which people browse it, `/docs` and `/`.

The routes say what they take and answer; here it is put together. Every answer is made once and served as bytes, the
document when it is first asked for; nothing here asks the store or serves a message.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from penstock import __version__
from penstock.edge.http import Handler, Request, Response
from penstock.edge.router import Route
from penstock.faces.answers import json_response
from penstock.faces.media import prefers
from penstock.faces.openapi.document import build, described
from penstock.faces.openapi.page import icon_response, page_response
from penstock.faces.permission import PUBLIC

__all__ = ["build", "openapi_routes"]

# A generated client may live on another origin, and there is nothing secret in here.
_ANYWHERE = (b"Access-Control-Allow-Origin", b"*")


def openapi_routes(served: Iterable[Route]) -> list[Route]:
    """The routes that describe `served`; at the root, people get the page too."""
    routes, page = tuple(served), page_response()
    for route in routes:
        described(route)  # or it is an error now, not a gap that somebody notices later

    @cache
    def document() -> Response:
        return json_response(200, build(routes), _ANYWHERE)

    about = {"name": "Penstock", "version": __version__, "docs": "/docs", "openapi": "/openapi.json"}
    index = json_response(200, about, (b"Vary", b"Accept"))

    def root(request: Request) -> Response:
        return page if prefers(request.headers.get(b"accept", b"").lower(), b"text/html") else index

    return [
        Route("GET", "/", root, head=True, permission=PUBLIC),
        Route("GET", "/openapi.json", lambda _request: document(), head=True, permission=PUBLIC),
        Route("GET", "/docs", _always(page), head=True, permission=PUBLIC),
        Route("GET", "/favicon.ico", _always(icon_response()), head=True, permission=PUBLIC),
    ]


def _always(response: Response) -> Handler:
    return lambda _request: response
