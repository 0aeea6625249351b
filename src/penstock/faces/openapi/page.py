"""The page on which people browse the document. One answer, with everything it needs inside it."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from penstock.edge.http import Response


@cache
def page_response() -> Response:
    """The page fetches the document from beside itself and builds all it shows as text nodes."""
    style, script = _file("page.css"), _file("trial.js") + _file("page.js")
    html = _file("page.html").replace("/* page.css */", style).replace("/* trial.js, page.js */", script)
    # Nothing runs or loads but what is in this very page.
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = (
        (b"Content-Type", b"text/html; charset=utf-8"),
        (b"Content-Security-Policy", policy.encode()),
        (b"X-Content-Type-Options", b"nosniff"),
        (b"Referrer-Policy", b"same-origin"),
        # The root answers programs with something else.
        (b"Vary", b"Accept"),
    )
    return Response(200, html.encode(), headers)


@cache
def icon_response() -> Response:
    """What browsers ask for beside every page that names no icon of its own, and show in their tabs."""
    icon = (files("penstock.faces.openapi") / "icon.png").read_bytes()
    return Response(200, icon, ((b"Content-Type", b"image/png"), (b"Cache-Control", b"max-age=86400")))


def _file(name: str) -> str:
    return (files("penstock.faces.openapi") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
