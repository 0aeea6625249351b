"""`X-TRACE-ID`: what a caller sends comes back, so that its logs and ours can be laid side by side."""

from __future__ import annotations

from penstock.edge.http import Handler, Request, Response
from penstock.faces.description import Param, Tag, header, text
from penstock.pending import Pending

HEADER = b"X-TRACE-ID"
KEY = b"x-trace-id"

TAG = Tag(
    "mqs",
    "The Mini Queue Service: queues with settings in whole seconds, and messages of any content type. An `X-TRACE-ID` "
    "of a request comes back in its answer.",
)
TRACE = Param("X-TRACE-ID", text(), "Comes back in the answer.", where="header")
TRACED = {"X-TRACE-ID": header(text(), "that of the request; of a received message, the one it was sent with")}


def traced(handler: Handler) -> Handler:
    """A handler whose answers carry the request's trace id, unless they have one of their own."""

    def handle(request: Request) -> Response | Pending[Response]:
        answer = handler(request)
        trace = request.headers.get(KEY)
        if trace is None:
            return answer
        if isinstance(answer, Pending):
            return answer.map(lambda response: _with_trace(response, trace))
        return _with_trace(answer, trace)

    return handle


def _with_trace(response: Response, trace: bytes) -> Response:
    if any(name == HEADER for name, _ in response.headers):
        return response
    return Response(response.status, response.body, [*response.headers, (HEADER, trace)])
