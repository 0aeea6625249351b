"""The access log: a line for every request that was answered, where an operator asks for it. Never a query, a header, a
body or a key's secret."""

from __future__ import annotations

import logging
from typing import Any, Final

from penstock.edge.http import Request, Response
from penstock.edge.request_ids import identify
from penstock.edge.router import Client, Router

log = logging.getLogger(__name__)
# By a name of its own, so that programs can tell its lines from others.
access: Final = logging.getLogger("penstock.access")

_LONGEST_PATH: Final = 1024


class AccessLog:
    """What `edge.journal.Journal` asks for. The router tells the route of a path."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def note(self, request: Request, response: Response, seconds: float, client: Client) -> None:
        fields = {
            "address": client.address(),
            # Set by the guard; a request that it has refused has none.
            "key": getattr(request.caller, "name", None),
            "method": request.method or None,
            "path": _shown(request.path) or None,
            "route": self._router.match(request.method, request.path)[0].pattern or None,
            "status": response.status,
            "bytes": 0 if request.method == "HEAD" or response.status in (204, 304) else len(response.body),
            "ms": round(seconds * 1000, 3),
            "request_id": identify(request),
        }
        text = " ".join("-" if value is None else str(value) for value in fields.values())
        access.info(text, extra={"fields": fields})

    def note_failure(self, request: Request) -> None:
        fields: dict[str, Any] = {
            "method": request.method,
            "path": _shown(request.path),
            "request_id": identify(request),
        }
        log.error("request {request_id} failed: {method} {path}".format(**fields), extra={"fields": fields})


def _shown(path: str) -> str:
    """As it was sent, on one line."""
    return path[:_LONGEST_PATH].encode("unicode_escape").decode("ascii")
