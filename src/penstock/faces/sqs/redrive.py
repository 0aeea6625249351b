"""Dead-letter queues: the policy of a queue that has one, and that of a queue that is one.

RedrivePolicy        {"deadLetterTargetArn": "arn:…:orders-dead", "maxReceiveCount": "5"}
RedriveAllowPolicy   {"redrivePermission": "byQueue", "sourceQueueArns": ["arn:…:orders"]}
"""

from __future__ import annotations

import json
from typing import Any, Final

from penstock.faces.sqs.addresses import queue_of_arn
from penstock.faces.sqs.errors import Rejection, wrong_value
from penstock.model import Groups, Queue, Redrive

REDRIVE_POLICY: Final = "RedrivePolicy"
ALLOW_POLICY: Final = "RedriveAllowPolicy"

_MOST_RECEIVES: Final = 1_000
_MOST_SOURCES: Final = 10
_PERMISSIONS: Final = ("allowAll", "denyAll", "byQueue")


def read_policy(text: str) -> Redrive:
    policy = _object(text, REDRIVE_POLICY, "Redrive policy is not a valid JSON map.")
    for name in ("deadLetterTargetArn", "maxReceiveCount"):
        if name not in policy:
            raise _wrong(text, f"Redrive policy does not contain mandatory attribute: {name}.")
    queue = queue_of_arn(policy["deadLetterTargetArn"])
    if queue is None:
        raise _wrong(text, "Invalid value for deadLetterTargetArn.")
    given = policy["maxReceiveCount"]
    count = _count(given)
    if count is None or not 1 <= count <= _MOST_RECEIVES:
        raise _wrong(
            text,
            f"Invalid value for maxReceiveCount: {given}, valid values are from 1 to {_MOST_RECEIVES} both inclusive.",
        )
    return Redrive(count, queue)


def policy_text(redrive: Redrive, arn: str) -> str:
    return json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": redrive.max_receives}, separators=(",", ":"))


def check_target(text: str, target: Queue | None, source: str, is_fifo: bool) -> None:
    """Whether a queue may send its dead letters there."""
    if target is None:
        raise _wrong(text, "Dead letter target does not exist.")
    if (target.settings.groups is Groups.FIFO) != is_fifo:
        raise _wrong(text, "Dead-letter queue must be same type of queue as the source.")
    allow = target.settings.labels.get(f"aws:sqs:{ALLOW_POLICY}")
    if allow is not None and not _allows(allow, source):
        raise _wrong(text, f"The dead-letter queue does not permit it: see its {ALLOW_POLICY}.")


def check_allow_policy(text: str) -> None:
    policy = _object(text, ALLOW_POLICY, "Redrive allow policy is not a valid JSON map.")
    permission, sources = policy.get("redrivePermission"), policy.get("sourceQueueArns")
    if permission not in _PERMISSIONS:
        raise _wrong_allow(text, f"redrivePermission must be one of {', '.join(_PERMISSIONS)}.")
    if permission != "byQueue":
        if sources is not None:
            raise _wrong_allow(text, "sourceQueueArns are given only where redrivePermission is byQueue.")
        return
    if not isinstance(sources, list) or not 1 <= len(sources) <= _MOST_SOURCES:
        raise _wrong_allow(text, f"With byQueue, sourceQueueArns holds 1 to {_MOST_SOURCES} ARNs.")
    if any(queue_of_arn(one) is None for one in sources):
        raise _wrong_allow(text, "Invalid value for sourceQueueArns.")


def _allows(text: str, source: str) -> bool:
    """By a policy that was checked when it was set."""
    policy = json.loads(text)
    if policy["redrivePermission"] == "byQueue":
        return source in [queue_of_arn(one) for one in policy["sourceQueueArns"]]
    return bool(policy["redrivePermission"] == "allowAll")


def _object(text: str, parameter: str, reason: str) -> dict[str, Any]:
    try:
        policy = json.loads(text)
    except (ValueError, RecursionError):
        policy = None
    if not isinstance(policy, dict):
        raise wrong_value(text, parameter, reason)
    return policy


def _count(given: object) -> int | None:
    """A number, or the text of one."""
    if isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) < 10:
        return int(given)
    return given if type(given) is int else None


def _wrong(text: str, reason: str) -> Rejection:
    return wrong_value(text, REDRIVE_POLICY, reason)


def _wrong_allow(text: str, reason: str) -> Rejection:
    return wrong_value(text, ALLOW_POLICY, reason)
