"""`traceparent` and `tracestate` of W3C Trace Context: what a send brings is kept with its messages.

They are kept as attributes, so that every API that shows attributes shows them, and one that has headers for a message
hands them back there. A message that names its own keeps it. What is not valid is left out, as the standard asks, and
so is what does not fit: a trace is never a reason to refuse a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from penstock.faces.answers import encode_json
from penstock.faces.description import Param, text
from penstock.limits import ATTRIBUTES_BYTES
from penstock.model import Draft

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
KEY: Final = b"traceparent"
STATE_KEY: Final = b"tracestate"

TRACE_PARAMS: Final = (
    Param("traceparent", text(), "Kept with each message that has none of its own.", where="header"),
    Param("tracestate", text(), "Kept with the traceparent.", where="header"),
)

# Of a later version, what follows the flags is not known yet.
_VALID: Final = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[ -~]{0,200})?"
)
_STATE: Final = re.compile(rb"[ -~]{1,512}")


def trace_of(headers: Mapping[bytes, bytes]) -> dict[str, str] | None:
    """As attributes; None where there is no valid one."""
    given = headers.get(KEY)
    if given is None or not is_valid(given):
        return None
    trace = {TRACEPARENT: given.decode("ascii")}
    state = headers.get(STATE_KEY)
    if state and _STATE.fullmatch(state):
        trace[TRACESTATE] = state.decode("ascii")
    return trace


@lru_cache(256)
def is_valid(traceparent: bytes) -> bool:
    if traceparent.startswith(b"00") and len(traceparent) != 55:
        return False
    return _VALID.fullmatch(traceparent) is not None


def with_trace(attributes: dict[str, str] | None, trace: dict[str, str] | None) -> dict[str, str] | None:
    if trace is None:
        return attributes
    if not attributes:
        return trace
    if TRACEPARENT in attributes:
        return attributes
    both = trace | attributes
    return both if len(encode_json(both)) <= ATTRIBUTES_BYTES else attributes


def traced_drafts(drafts: list[Draft], trace: dict[str, str] | None) -> list[Draft]:
    if trace is None:
        return drafts
    return [replace(draft, attributes=with_trace(draft.attributes, trace)) for draft in drafts]
