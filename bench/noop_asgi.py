"""A raw ASGI application that reads its request and answers nothing."""

from __future__ import annotations

from typing import Any

_START = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
_BODY = {"type": "http.response.body", "body": b""}


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send(_START)
    await send(_BODY)
