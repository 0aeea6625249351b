"""Where queues are: their URLs and ARNs, as they are given out and as they come back.

What comes in is read by its last part alone: whatever host or account a URL names, and whatever region an ARN, there is
one queue of a name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

from penstock import names
from penstock.edge.http import Request
from penstock.errors import InvalidRequest
from penstock.faces.sqs.errors import missing, no_queue

_CREDENTIAL: Final = re.compile(r"Credential=[^/,\s]*/\d{8}/([a-z0-9-]{1,32})/")
_PARTITIONS: Final = (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov"))
# Anybody may send what is remembered here, as long as a body can be.
_LONGEST_REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True)
class AwsPlace:
    """What this server says of itself. Without a `base_url`, its address is the one that a client has used."""

    account: str = "000000000000"
    region: str = "us-east-1"
    base_url: str = ""
    scheme: str = "http"

    def url(self, request: Request, queue: str) -> str:
        base = self.base_url or f"{self.scheme}://{request.headers.get(b'host', b'localhost').decode('latin-1')}"
        return f"{base}/{self.account}/{quote(queue, safe=':@')}"

    def arn(self, request: Request, queue: str) -> str:
        """In the region that the request is signed for."""
        region = _signed_region(request) or self.region
        partition = next((named for start, named in _PARTITIONS if region.startswith(start)), "aws")
        return f"arn:{partition}:sqs:{region}:{self.account}:{queue}"


def _signed_region(request: Request) -> str | None:
    signed = request.headers.get(b"authorization")
    if signed is not None:
        found = _CREDENTIAL.search(signed.decode("latin-1"))
        return None if found is None else found[1]
    given = request.query_params().get("X-Amz-Credential") if request.query else None
    found = None if given is None else _CREDENTIAL.search(f"Credential={given}")
    return None if found is None else found[1]


def queue_of(request: Request, queue_url: str | None) -> str:
    """The queue that a request is about: the one it names, or else the one whose URL it was sent to."""
    if queue_url is not None:
        name = _named(queue_url) if len(queue_url) <= _LONGEST_REMEMBERED else _name_in(queue_url)
    elif request.params:
        name = _checked(request.params[-1])
    else:
        raise missing("QueueUrl")
    if name is None:
        raise no_queue()
    return name


@lru_cache(4096)
def _named(queue_url: str) -> str | None:
    """Cached: a client asks for the same few all the time."""
    return _name_in(queue_url)


def _name_in(queue_url: str) -> str | None:
    """By a URL or by its bare name."""
    _, slash, last = queue_url.rpartition("/")
    return _checked(unquote(last) if slash and "%" in last else last)


def _checked(name: str) -> str | None:
    return _checked_lately(name) if len(name) <= _LONGEST_REMEMBERED else None


@lru_cache(4096)
def _checked_lately(name: str) -> str | None:
    try:
        return names.check_with_space(name)
    except InvalidRequest:
        return None


def is_name(name: str) -> bool:
    """Whether any queue can be called so."""
    return _checked(name) is not None


def queue_of_arn(arn: object) -> str | None:
    """None for what is not an ARN of a queue."""
    parts = arn.split(":", 5) if isinstance(arn, str) else []
    if len(parts) < 6 or parts[0] != "arn" or parts[2] != "sqs":
        return None
    return _checked(parts[5])
