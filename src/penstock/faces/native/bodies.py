"""A body in JSON: as text where it is UTF-8, else in base64."""

from __future__ import annotations

import base64


def shown_body(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
