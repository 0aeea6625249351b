"""Requests that are signed as AWS does it, in place of a key that they would carry.

A signature covers the body, and who sends a request is asked before its body is read. So there are two steps. The
guard takes the headers: `Signatures.identify` finds the key that the request names and refuses what no signature could
make good. The request then has a caller that may do nothing. When the body is there, the handler of the face calls
`verify` before it does anything else, and the key's holder becomes the caller. A handler that forgets to is refused
everything.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from penstock import sigv4
from penstock.clock import Clock
from penstock.edge.http import Request
from penstock.edge.router import Client
from penstock.faces.callers import KeyHolder
from penstock.faces.patience import Patience
from penstock.faces.permission import TOO_MANY_WRONG_KEYS, Refusal
from penstock.keys import Keyring

log = logging.getLogger(__name__)

# Some clients of SQS first ask STS who they are.
_SERVICES: Final = ("sqs", "sts")


@dataclass(frozen=True, slots=True)
class SignatureRefusal:
    """What a face answers as it answers any other refusal: by the function `refused` of its permissions."""

    refusal: Refusal
    why: str


class Signatures:
    def __init__(self, keyring: Keyring, patience: Patience, clock: Clock) -> None:
        self._keyring = keyring
        self._patience = patience
        self._clock = clock

    def identify(self, request: Request, client: Client) -> SignatureRefusal | None:
        """None lets the request pass, with its unverified caller noted."""
        headers = request.headers
        try:
            signature = sigv4.read_signature(headers, request.query)
        except sigv4.MalformedSignature as error:
            return SignatureRefusal(Refusal.MALFORMED_SIGNATURE, str(error))
        if signature is None:
            return SignatureRefusal(Refusal.NO_KEY, sigv4.NOTHING_PRESENTED)
        name = signature.terms.access_key_id
        if self._keyring.find_named(name) is None:
            expired = self._keyring.has_expired(name)
            sent = f"the API key {name}, which has expired" if expired else "an unknown or revoked API key"
            return self._refuse_guess(Refusal.UNKNOWN_KEY, sigv4.UNKNOWN_KEY, client, sent)
        fault = sigv4.fault_of(signature, headers, _SERVICES, self._clock())
        if fault is not None:
            return SignatureRefusal(Refusal.WRONG_SIGNATURE, fault)
        request.caller = Unverified(self, signature, client)
        return None

    def verify(self, signature: sigv4.Signature, request: Request, client: Client) -> SignatureRefusal | None:
        """None lets the request pass, with the holder of the key as its caller."""
        # Asked again: while the body came, the key may have been revoked, or expired.
        key = self._keyring.find_named(signature.terms.access_key_id)
        if key is None:
            return SignatureRefusal(Refusal.UNKNOWN_KEY, sigv4.UNKNOWN_KEY)
        headers, body_hash = request.headers, sigv4.hash_of(request.body)
        if headers.get(b"x-amz-content-sha256", body_hash) != body_hash:
            return SignatureRefusal(Refusal.WRONG_SIGNATURE, sigv4.WRONG_BODY_HASH)
        canonical = sigv4.canonical_request(signature, request.method, request.path, request.query, headers, body_hash)
        if not self._keyring.verify_signature(key, signature, sigv4.string_to_sign(signature, canonical)):
            wrong = f"a wrong signature for the API key {key.name}"
            return self._refuse_guess(Refusal.WRONG_SIGNATURE, sigv4.MISMATCH, client, wrong)
        request.caller = KeyHolder(key)
        return None

    def _refuse_guess(self, refusal: Refusal, why: str, client: Client, what: str) -> SignatureRefusal:
        if not self._patience.spend():
            return SignatureRefusal(Refusal.SLOW_DOWN, TOO_MANY_WRONG_KEYS)
        log.warning("%s sent %s", client.address(), what)
        return SignatureRefusal(refusal, why)


class Unverified:
    """The caller of a signed request until its signature is verified: it may do nothing."""

    def __init__(self, signatures: Signatures, signature: sigv4.Signature, client: Client) -> None:
        self.name: str | None = None
        self.rules: tuple[str, ...] | None = ()
        self._signatures = signatures
        self._signature = signature
        self._client = client

    def may(self, action: str, queue: str) -> bool:  # noqa: ARG002
        return False

    def verify(self, request: Request) -> SignatureRefusal | None:
        return self._signatures.verify(self._signature, request, self._client)


def verify(request: Request) -> SignatureRefusal | None:
    """For handlers of routes that take signatures: why the request must be refused, or None. It must be complete, as it
    was sent. Nothing is verified where the caller has sent a key, or needs none."""
    caller = request.caller
    return caller.verify(request) if isinstance(caller, Unverified) else None
