"""What a request says its body is, and what a browser is told about the bodies of messages."""

from __future__ import annotations

from penstock.edge.message import Request
from penstock.errors import UnsupportedMediaType

# A message may call itself HTML or a script, and whoever sent it may not be the one who looks at it. In a browser it is
# taken for nothing but what it says, and has no origin: it runs no script and reaches nothing of this server.
INERT = ((b"X-Content-Type-Options", b"nosniff"), (b"Content-Security-Policy", b"sandbox"))


def media_type(request: Request) -> bytes:
    return request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def wants_json(request: Request) -> None:
    """For routes that no form of a web page may reach: a page of another origin cannot send JSON without asking."""
    if media_type(request) != b"application/json":
        raise UnsupportedMediaType
