"""The description of the APIs for programs, `/openapi.json`, and a page on which people browse it, `/docs`.

One table per face says in plain data what its routes take and answer. Both answers are made once, at start, and served
as bytes; nothing here asks the store or serves a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.edge.message import Handler, Response
from penstock.edge.router import Route
from penstock.faces.answers import json_response
from penstock.faces.openapi.document import build
from penstock.faces.openapi.page import page_response
from penstock.faces.permission import PUBLIC

__all__ = ["build", "openapi_routes"]

# A generated client may live on another origin, and there is nothing secret in here.
_ANYWHERE = (b"Access-Control-Allow-Origin", b"*")


def openapi_routes(served: Mapping[str, Sequence[Route]]) -> list[Route]:
    """The two routes that describe `served`, the routes by the name of their face."""
    document = json_response(200, build(served), _ANYWHERE)
    return [
        Route("GET", "/openapi.json", _always(document), head=True, permission=PUBLIC),
        Route("GET", "/docs", _always(page_response()), head=True, permission=PUBLIC),
    ]


def _always(response: Response) -> Handler:
    return lambda _request: response
