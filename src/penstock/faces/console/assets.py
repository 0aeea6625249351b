"""The stylesheet, the scripts and the icon: read once, served from memory.

Their address has a version in it, made of what is in them: a browser keeps them for a year and asks again when they
have changed. Names are looked up, so no path leads anywhere else.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from penstock.edge.http import Request, Response

_TYPES: Final = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".LICENSE": b"text/plain; charset=utf-8",
}
_FOREVER: Final = (b"Cache-Control", b"public, max-age=31536000, immutable")
_ASK_AGAIN: Final = (b"Cache-Control", b"no-cache")
_SAFE: Final = (
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
    (b"Content-Security-Policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class Assets:
    def __init__(self) -> None:
        root = files("penstock.faces.console") / "static"
        self._files = {name: file.read_bytes() for name, file in _walk(root)}
        whole = sha256()
        for name in sorted(self._files):
            whole.update(name.encode() + b"\0" + self._files[name] + b"\0")
        self.version = whole.hexdigest()[:12]

    @property
    def names(self) -> list[str]:
        return sorted(self._files)

    def address(self, name: str) -> str:
        """For templates. One that is not there is a mistake of ours."""
        if name not in self._files:
            raise KeyError(name)
        return f"/console/static/{self.version}/{name}"

    def answer(self, request: Request) -> Response | None:
        """None for a file that is not there."""
        version, name = request.params
        content = self._files.get(name)
        if content is None:
            return None
        etag = b'"%s"' % sha256(content).hexdigest()[:24].encode()
        # A page from before an update asks by the old version: it gets what there is, and keeps it for now only.
        keep = _FOREVER if version == self.version else _ASK_AGAIN
        headers = ((b"Content-Type", _type_of(name)), (b"ETag", etag), keep, *_SAFE)
        if _is_known(request.headers.get(b"if-none-match", b""), etag):
            return Response(304, b"", headers[1:])
        return Response(200, content, headers)


@cache
def assets() -> Assets:
    return Assets()


def _walk(folder: Traversable) -> list[tuple[str, Traversable]]:
    """By their names alone: the folders are for people."""
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry)
        elif _suffix(entry.name) in _TYPES:
            found.append((entry.name, entry))
    return found


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]


def _type_of(name: str) -> bytes:
    return _TYPES[_suffix(name)]


def _is_known(header: bytes, etag: bytes) -> bool:
    return any(one.strip().removeprefix(b"W/") in (etag, b"*") for one in header.split(b",") if one.strip())
