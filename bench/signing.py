"""Requests signed with AWS's Signature Version 4, in advance: signing costs more than the load may take.

A signature is good for fifteen minutes and for any number of requests, so a run can repeat what was signed before it.
Every request has a body, and so a signature, of its own.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

_ALGORITHM = "AWS4-HMAC-SHA256"
_SIGNED_HEADERS = "content-type;host;x-amz-date;x-amz-target"


@dataclass(frozen=True)
class Signer:
    """For `POST /` of the JSON protocol to one host."""

    key: str
    secret: str
    host: str
    region: str = "eu-central-1"

    def authorization(self, operation: str, body: bytes, at: datetime) -> tuple[str, str]:
        """The headers `Authorization` and `X-Amz-Date`."""
        stamp = f"{at:%Y%m%dT%H%M%SZ}"
        scope = f"{stamp[:8]}/{self.region}/sqs/aws4_request"
        canonical = "\n".join(
            [
                "POST",
                "/",
                "",
                "content-type:application/x-amz-json-1.0",
                f"host:{self.host}",
                f"x-amz-date:{stamp}",
                f"x-amz-target:AmazonSQS.{operation}",
                "",
                _SIGNED_HEADERS,
                hashlib.sha256(body).hexdigest(),
            ]
        )
        signed = "\n".join([_ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        signature = hmac.digest(self._signing_key(stamp[:8]), signed.encode(), "sha256").hex()
        credential = f"Credential={self.key}/{scope}"
        return f"{_ALGORITHM} {credential}, SignedHeaders={_SIGNED_HEADERS}, Signature={signature}", stamp

    def _signing_key(self, day: str) -> bytes:
        key = f"AWS4{self.secret}".encode()
        for part in (day, self.region, "sqs", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        return key


def signed_sends(signer: Signer, queue_url: str, count: int, size: int) -> Iterator[str]:
    """Lines for `bench/wrk/sqs_send_signed.lua`."""
    now = datetime.now(UTC)
    for number in range(count):
        body = f'{{"QueueUrl":"{queue_url}","MessageBody":"{number:0{size}}"}}'
        authorization, stamp = signer.authorization("SendMessage", body.encode(), now)
        yield f"{authorization}\t{stamp}\t{body}\n"
