"""Signs requests for tests, by the rules as AWS has written them down and for plain paths only. It shares nothing with
the server."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from urllib.parse import quote

ALGORITHM = "AWS4-HMAC-SHA256"
HOST = "127.0.0.1:8080"


class Signer:
    def __init__(
        self, key_id: str, secret: str, region: str = "eu-west-1", service: str = "sqs", term: str = "aws4_request"
    ) -> None:
        self.key_id = key_id
        self._secret = secret
        self._scope = (region, service, term)

    def headers(
        self, at_ms: int, method: str, path: str, body: bytes = b"", host: str = HOST, query: str = "", **more: str
    ) -> dict[str, str]:
        """What is to be sent beside the Host; all of it is signed."""
        stamp = stamp_of(at_ms)
        named = {name.replace("_", "-"): value for name, value in more.items()}
        sent = {"x-amz-date": stamp, **named}
        names, signature = self._signature(stamp, method, path, query, {"host": host, **sent}, body)
        credential = "/".join((self.key_id, stamp[:8], *self._scope))
        fields = f"Credential={credential}, SignedHeaders={names}, Signature={signature}"
        return {**sent, "authorization": f"{ALGORITHM} {fields}"}

    def query(
        self, at_ms: int, method: str, path: str, expires_s: object = 60, host: str = HOST, **parameters: str
    ) -> str:
        """The query of an address that is signed beforehand."""
        stamp = stamp_of(at_ms)
        fields = {
            **parameters,
            "X-Amz-Algorithm": ALGORITHM,
            "X-Amz-Credential": "/".join((self.key_id, stamp[:8], *self._scope)),
            "X-Amz-Date": stamp,
            "X-Amz-Expires": str(expires_s),
            "X-Amz-SignedHeaders": "host",
        }
        query = "&".join(f"{quote(name, '')}={quote(value, '')}" for name, value in fields.items())
        _, signature = self._signature(stamp, method, path, query, {"host": host}, b"")
        return f"{query}&X-Amz-Signature={signature}"

    def _signature(
        self, stamp: str, method: str, path: str, query: str, headers: dict[str, str], body: bytes
    ) -> tuple[str, str]:
        names = ";".join(sorted(headers))
        lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
        parameters = "&".join(sorted(query.split("&"), key=lambda pair: pair.split("=")))
        canonical = "\n".join((method, path, parameters, *lines, "", names, hashlib.sha256(body).hexdigest()))
        scope = "/".join((stamp[:8], *self._scope))
        text = "\n".join((ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
        key = f"AWS4{self._secret}".encode()
        for part in (stamp[:8], *self._scope):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return names, hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def stamp_of(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
