"""The id of a request: `X-Request-Id` as the client sends it, or one of ours. It goes into the answer and the log."""

from __future__ import annotations

import re
from typing import Final
from uuid import uuid4

from penstock.edge.http import Request, Response

HEADER: Final = b"X-Request-Id"
KEY: Final = b"x-request-id"

# Visible ASCII: an id stands in a line of the log among other words.
_SANE: Final = re.compile(rb"[!-~]{1,128}")


def identify(request: Request) -> str:
    """One that the client has sent is taken if it is sane."""
    found: str | None = request.request_id
    if found is None:
        given = request.headers.get(KEY)
        sane = given is not None and _SANE.fullmatch(given) is not None
        request.request_id = found = given.decode("ascii") if given is not None and sane else uuid4().hex
    return found


def with_id(request: Request, response: Response, wanted: bool) -> Response:
    """The answer with the id of its request. Unless one is `wanted`, only with that of the client."""
    if not wanted and _SANE.fullmatch(request.headers.get(KEY, b"")) is None:
        return response
    return Response(response.status, response.body, [*response.headers, (HEADER, identify(request).encode())])
