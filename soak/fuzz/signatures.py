"""Signed requests: one that is let in was signed by who it says, and says now what was signed then."""

from __future__ import annotations

from penstock.edge.http import Request
from penstock.faces.patience import Patience
from penstock.faces.signatures import Signatures, verify
from penstock.keys import Keyring, digest
from penstock.model import Key
from penstock.timings import Timings
from soak.fuzz.faces import parts_of
from soak.fuzz.finding import expect
from soak.fuzz.house import KEY_NAME, NOW_MS, SECRET
from soak.fuzz.signing import is_right

_KEY = Key(KEY_NAME, digest(SECRET, b"psk_fuzz"), ("queue|*|*",), NOW_MS)
_KEYRING = Keyring(SECRET, [_KEY])
AWS_SECRET = _KEYRING.aws_secret(_KEY)
_SIGNATURES = Signatures(_KEYRING, Patience(Timings(wrong_keys=10**9)), lambda: NOW_MS)


class _Client:
    def address(self) -> str:
        return "192.0.2.1"


def fuzz_sigv4(data: bytes) -> None:
    """A case is a request as the faces' are. The corpus has some that are signed."""
    method, target, told, body = parts_of(data)
    path, _, query = target.decode("latin-1").partition("?")
    headers: dict[bytes, bytes] = {}
    for name, value in told:
        known = headers.get(name.lower())
        headers[name.lower()] = value if known is None else known + b", " + value
    request = Request(method, path, query, headers, body)
    if _SIGNATURES.identify(request, _Client()) is not None:
        return
    if verify(request) is None:
        expect(
            is_right(AWS_SECRET, request.method, path, query, headers, request.body),
            "a request was let in that was not signed",
        )
        expect(b"host" in headers, "a request without a host was let in")
