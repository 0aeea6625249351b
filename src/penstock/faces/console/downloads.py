"""Bodies as files: never shown by a browser, whatever they hold."""

from __future__ import annotations

from penstock.edge.http import Response
from penstock.faces.console.curl import file_name


def as_download(message_id: str, body: bytes) -> Response:
    return Response(
        200,
        body,
        [
            (b"Content-Type", b"application/octet-stream"),
            (b"Content-Disposition", f'attachment; filename="{file_name(message_id)}"'.encode()),
            (b"X-Content-Type-Options", b"nosniff"),
            (b"Content-Security-Policy", b"default-src 'none'; sandbox"),
            (b"Cross-Origin-Resource-Policy", b"same-origin"),
            (b"Cache-Control", b"no-store"),
        ],
    )
