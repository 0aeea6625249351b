"""Signature Version 4 computed a second time, as AWS has written it down and with nothing that the server uses."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from urllib.parse import quote, unquote_to_bytes

ALGORITHM = "AWS4-HMAC-SHA256"
STAMP = "20260921T141320Z"
SCOPE = ("eu-west-1", "sqs", "aws4_request")


def authorization(key_id: str, secret: str, method: str, path: str, headers: Mapping[str, str], body: bytes) -> str:
    """The header of a request with a plain path and no query, in which all these headers are signed."""
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
    canonical = "\n".join((method, path, "", *lines, "", names, hashlib.sha256(body).hexdigest()))
    signature = _sign(secret, STAMP, (STAMP[:8], *SCOPE), canonical.encode())
    credential = "/".join((key_id, STAMP[:8], *SCOPE))
    return f"{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"


def is_right(secret: str, method: str, path: str, query: str, headers: Mapping[bytes, bytes], body: bytes) -> bool:
    """Whether a request has a signature that was made with this secret, of what it says now. Whose it is, and when it
    was made, is not looked at."""
    presented = headers.get(b"authorization", b"")
    pairs = _pairs(query)
    if presented.startswith(b"AWS4"):
        fields = dict(part.strip().partition(b"=")[::2] for part in presented.partition(b" ")[2].split(b","))
        credential, names = fields.get(b"Credential", b""), fields.get(b"SignedHeaders", b"")
        signature, stamp = fields.get(b"Signature", b""), headers.get(b"x-amz-date", headers.get(b"date", b""))
    else:
        given = dict(pairs)
        credential, names = given.get(b"X-Amz-Credential", b""), given.get(b"X-Amz-SignedHeaders", b"")
        signature, stamp = given.get(b"X-Amz-Signature", b""), given.get(b"X-Amz-Date", b"")
        pairs = [pair for pair in pairs if pair[0] != b"X-Amz-Signature"]
    escaped = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in pairs)
    signed = names.lower().split(b";")
    lines = [name + b":" + re.sub(rb"\s+", b" ", headers.get(name, b"").strip()) for name in signed]
    canonical = b"\n".join(
        (
            method.encode(),
            quote(_normal(path), safe="/-_.~").encode(),
            "&".join(f"{name}={value}" for name, value in escaped).encode(),
            *lines,
            b"",
            b";".join(signed),
            hashlib.sha256(body).hexdigest().encode(),
        )
    )
    scope = credential.decode("latin-1").split("/")[1:]
    return hmac.compare_digest(_sign(secret, stamp.decode("latin-1"), scope, canonical).encode(), signature)


def _normal(path: str) -> bytes:
    """Without empty segments and those that are dots."""
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            kept = kept[:-1]
        elif segment not in ("", "."):
            kept.append(segment)
    return ("/" + "/".join(kept) + ("/" if kept and path.endswith("/") else "")).encode("latin-1")


def _pairs(query: str) -> list[tuple[bytes, bytes]]:
    found = []
    for part in query.split("&"):
        if part:
            name, _, value = part.partition("=")
            found.append((_unquoted(name), _unquoted(value)))
    return found


def _unquoted(text: str) -> bytes:
    return unquote_to_bytes(text.replace("+", " ").encode("latin-1"))


def _sign(secret: str, stamp: str, scope: tuple[str, ...] | list[str], canonical: bytes) -> str:
    text = "\n".join((ALGORITHM, stamp, "/".join(scope), hashlib.sha256(canonical).hexdigest()))
    key = f"AWS4{secret}".encode()
    for part in scope:
        key = hmac.new(key, part.encode("latin-1"), hashlib.sha256).digest()
    return hmac.new(key, text.encode("latin-1"), hashlib.sha256).hexdigest()
