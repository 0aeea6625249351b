"""What a request says its body is and how it would like its answer, and what a browser is told about bodies."""

from __future__ import annotations

import re

from penstock.edge.http import Request
from penstock.errors import UnsupportedMediaType

# A message may call itself HTML or a script, and its sender may not be the one who looks at it. In a browser it is
# taken for nothing but what it says, and has no origin: it runs no script and reaches nothing of this server.
INERT = ((b"X-Content-Type-Options", b"nosniff"), (b"Content-Security-Policy", b"sandbox"))

# The most exact one counts.
_NAMES_OF_JSON = (b"application/json", b"application/*", b"*/*")
_WEIGHT = re.compile(rb"0(\.\d{0,3})?|1(\.0{0,3})?")


def media_type(request: Request) -> bytes:
    return request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def prefers(accept: bytes, wanted: bytes, usual: tuple[bytes, ...] = _NAMES_OF_JSON) -> bool:
    """Whether an Accept header, in lower case, names this media type and likes it no less than the usual one, which it
    may also mean by a wildcard. Only a name counts: a caller that takes anything gets the usual one."""
    # The common case, and cheap: a claim asks this every time.
    if wanted not in accept:
        return False
    weights: dict[bytes, float] = {}
    for item in accept.split(b","):
        name, *parameters = [part.strip() for part in item.split(b";")]
        weight = next((_weight(one[2:]) for one in parameters if one.startswith(b"q=")), 1.0)
        # A scraper names one type several times, for several versions of it.
        weights[name] = max(weight, weights.get(name, 0.0))
    weight = weights.get(wanted, 0.0)
    other = next((weights[name] for name in usual if name in weights), 0.0)
    return weight > 0 and weight >= other


def _weight(text: bytes) -> float:
    """0 for what is not a weight: an item that cannot be read asks for nothing."""
    return float(text) if _WEIGHT.fullmatch(text) else 0.0


def require_json(request: Request) -> None:
    """For routes that no form of a web page may reach: a page of another origin cannot send JSON without asking."""
    if media_type(request) != b"application/json":
        raise UnsupportedMediaType
