"""The attributes of a queue, between the texts of SQS and the settings of the core.

What the core has no setting for is kept in labels of the queue whose keys begin with `aws:sqs:`; a tag cannot begin so.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

from penstock.edge.http import Request
from penstock.faces.sqs.addresses import AwsPlace
from penstock.faces.sqs.checks import DELAY_S, LEAST_MESSAGE_BYTES, MESSAGE_BYTES, RETENTION_S, VISIBILITY_S, WAIT_S
from penstock.faces.sqs.errors import ATTRIBUTE_NAME, Rejection, unknown_attribute, wrong_attribute
from penstock.faces.sqs.redrive import (
    ALLOW_POLICY,
    REDRIVE_POLICY,
    check_allow_policy,
    policy_text,
    read_policy,
)
from penstock.model import Count, Dedup, DedupScope, Groups, Queue, QueueChange, Redrive, Settings

LABEL: Final = "aws:sqs:"
RESERVED: Final = "aws:"
ALL: Final = "All"
FIFO_QUEUE: Final = "FifoQueue"
POLICY: Final = "Policy"
CONTENT_BASED: Final = "ContentBasedDeduplication"
_SCOPE: Final = "DeduplicationScope"
_THROUGHPUT: Final = "FifoThroughputLimit"
_SIZE: Final = "MaximumMessageSize"
_WAIT: Final = "ReceiveMessageWaitTimeSeconds"
_KMS_KEY: Final = "KmsMasterKeyId"
_KMS_PERIOD: Final = "KmsDataKeyReusePeriodSeconds"
_MANAGED_SSE: Final = "SqsManagedSseEnabled"

# In seconds here, in milliseconds there.
_TIMES: Final[Mapping[str, tuple[str, int, int]]] = {
    "VisibilityTimeout": ("visibility_ms", 0, VISIBILITY_S),
    "MessageRetentionPeriod": ("retention_ms", *RETENTION_S),
    "DelaySeconds": ("delay_ms", 0, DELAY_S),
}
_NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    _SIZE: (LEAST_MESSAGE_BYTES, MESSAGE_BYTES),
    _WAIT: (0, WAIT_S),
    _KMS_PERIOD: (60, 86_400),
}
_FLAGS: Final = frozenset({_MANAGED_SSE, CONTENT_BASED, FIFO_QUEUE})
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    _SCOPE: ("queue", "messageGroup"),
    _THROUGHPUT: ("perQueue", "perMessageGroupId"),
}
_TEXTS: Final = frozenset({POLICY, REDRIVE_POLICY, ALLOW_POLICY, _KMS_KEY})
_OF_FIFO: Final = frozenset({FIFO_QUEUE, CONTENT_BASED, _SCOPE, _THROUGHPUT})
_GIVEN: Final = frozenset({*_TIMES, *_NUMBERS, *_FLAGS, *_CHOICES, *_TEXTS})
COUNTS: Final = frozenset(
    {
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    }
)
NAMES: Final = _GIVEN | COUNTS | {ALL, "QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"}

_DEFAULTS: Final = {_SIZE: str(MESSAGE_BYTES), _WAIT: "0", _MANAGED_SSE: "true"}
_DEFAULT_KMS_PERIOD: Final = "300"
LONGEST_TEXT: Final = 20 * 1024
_RETENTION_MS: Final = 345_600_000
_VISIBILITY_MS: Final = 30_000
_DEDUP_WINDOW_MS: Final = 300_000
_SCOPES: Final = {"queue": DedupScope.QUEUE, "messageGroup": DedupScope.GROUP}
_BOTH_KINDS_OF_SSE: Final = (
    "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE."
)


class Wish(Struct, frozen=True):
    """Attributes that were given, checked and each in one way of writing it. An empty text removes one."""

    texts: dict[str, str]
    redrive: Redrive | None

    @property
    def dead_letter_queue(self) -> str | None:
        return None if self.redrive is None else self.redrive.dead_letter_queue


def wants_fifo(given: Mapping[str, str] | None) -> bool:
    return given is not None and given.get(FIFO_QUEUE, "").lower() == "true"


def read(given: Mapping[str, str] | None, is_fifo: bool) -> Wish:
    """Raises Rejection for names and values that a queue of this kind does not have."""
    texts = {}
    for name, value in (given or {}).items():
        if name in _CHOICES and not is_fifo:
            raise Rejection(ATTRIBUTE_NAME, f"You can specify the {name} only when FifoQueue is set to true.")
        if name not in _GIVEN or (name in _OF_FIFO and not is_fifo):
            raise unknown_attribute(name)
        texts[name] = _checked(name, value)
    if texts.get(FIFO_QUEUE) == "false":
        raise wrong_attribute(FIFO_QUEUE, "Modifying queue type is not supported.")
    if texts.get(_KMS_KEY) and texts.get(_MANAGED_SSE) == "true":
        raise Rejection(ATTRIBUTE_NAME, _BOTH_KINDS_OF_SSE)
    redrive = read_policy(texts[REDRIVE_POLICY]) if texts.get(REDRIVE_POLICY) else None
    return Wish(texts, redrive)


def _checked(name: str, value: str) -> str:
    if name in _TIMES or name in _NUMBERS:
        lowest, highest = _TIMES[name][1:] if name in _TIMES else _NUMBERS[name]
        number = int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else -1
        if not lowest <= number <= highest:
            raise wrong_attribute(name)
        return str(number)
    if name in _FLAGS:
        if value.lower() not in ("true", "false"):
            raise wrong_attribute(name)
        return value.lower()
    if (name in _CHOICES and value not in _CHOICES[name]) or len(value) > LONGEST_TEXT:
        raise wrong_attribute(name)
    if value and name == ALLOW_POLICY:
        check_allow_policy(value)
    if value and name == POLICY and not isinstance(_parsed(value), dict):
        raise wrong_attribute(name)
    return value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def check_together(wish: Wish, labels: Mapping[str, str], scope: DedupScope) -> None:
    """What one attribute allows in another, with those that the queue has already."""
    throughput = wish.texts.get(_THROUGHPUT, labels.get(LABEL + _THROUGHPUT))
    wished = wish.texts.get(_SCOPE)
    if throughput == "perMessageGroupId" and (_SCOPES[wished] if wished else scope) is not DedupScope.GROUP:
        raise wrong_attribute(
            _THROUGHPUT, "perMessageGroupId is allowed only where DeduplicationScope is messageGroup."
        )


def settings_of(wish: Wish, is_fifo: bool, tags: Mapping[str, str]) -> Settings:
    """Those of a queue that is made with these attributes."""
    change = change_of(wish)
    labels = {name: value for name, value in _labels(wish).items() if value is not None}
    if is_fifo:
        labels.setdefault(LABEL + CONTENT_BASED, "false")

    def chosen(value: int | UnsetType, default: int) -> int:
        return default if isinstance(value, UnsetType) else value

    return Settings(
        visibility_ms=chosen(change.visibility_ms, _VISIBILITY_MS),
        retention_ms=chosen(change.retention_ms, _RETENTION_MS),
        delay_ms=chosen(change.delay_ms, 0),
        dedup=Dedup.WINDOW if is_fifo else Dedup.OFF,
        redrive=wish.redrive,
        groups=Groups.FIFO if is_fifo else Groups.OFF,
        dedup_window_ms=_DEDUP_WINDOW_MS,
        dedup_scope=_SCOPES[wish.texts.get(_SCOPE, "queue")],
        labels={**tags, **labels},
    )


def change_of(wish: Wish) -> QueueChange:
    texts = wish.texts

    def milliseconds(name: str) -> int | UnsetType:
        return int(texts[name]) * 1000 if name in texts else UNSET

    return QueueChange(
        visibility_ms=milliseconds("VisibilityTimeout"),
        retention_ms=milliseconds("MessageRetentionPeriod"),
        delay_ms=milliseconds("DelaySeconds"),
        redrive=wish.redrive if REDRIVE_POLICY in texts else UNSET,
        dedup_scope=_SCOPES[texts[_SCOPE]] if _SCOPE in texts else UNSET,
        labels=_labels(wish) or UNSET,
    )


def _labels(wish: Wish) -> dict[str, str | None]:
    """None for those that go. Of the two kinds of encryption, the one that comes replaces the other."""
    kept = {
        LABEL + name: value or None
        for name, value in wish.texts.items()
        if name not in _TIMES and name not in (REDRIVE_POLICY, _SCOPE, FIFO_QUEUE)
    }
    if wish.texts.get(_KMS_KEY):
        kept[LABEL + _MANAGED_SSE] = "false"
    elif wish.texts.get(_MANAGED_SSE) == "true":
        kept[LABEL + _KMS_KEY] = None
    return kept


def difference(wish: Wish, queue: Queue) -> str | None:
    """The first attribute that was given and that the queue has otherwise."""
    settings, labels = queue.settings, queue.settings.labels
    for name, value in wish.texts.items():
        if name == REDRIVE_POLICY:
            same = settings.redrive == wish.redrive
        elif name in (POLICY, ALLOW_POLICY):
            same = _parsed(labels.get(LABEL + name, "null")) == (_parsed(value) if value else None)
        else:
            same = _plain(queue).get(name, _DEFAULT_KMS_PERIOD if name == _KMS_PERIOD else "") == value
        if not same:
            return name
    return None


def _plain(queue: Queue) -> dict[str, str]:
    """What can be told of a queue without its messages and without an address."""
    settings = queue.settings
    labels = {name.removeprefix(LABEL): value for name, value in settings.labels.items() if name.startswith(LABEL)}
    shown = {name: str(getattr(settings, of_settings) // 1000) for name, (of_settings, *_) in _TIMES.items()}
    shown |= {**_DEFAULTS, **labels}
    if shown.get(_KMS_PERIOD) == _DEFAULT_KMS_PERIOD:
        del shown[_KMS_PERIOD]
    if settings.groups is Groups.FIFO:
        shown[FIFO_QUEUE] = "true"
        shown[_SCOPE] = "messageGroup" if settings.dedup_scope is DedupScope.GROUP else "queue"
        shown.setdefault(_THROUGHPUT, "perQueue")
        # The core's own kind of deduplication goes by the content where no id is given.
        shown.setdefault(CONTENT_BASED, "true" if settings.dedup is Dedup.WINDOW else "false")
    else:
        shown = {name: value for name, value in shown.items() if name not in _OF_FIFO}
    return shown


def shown(
    queue: Queue, count: Count | None, names: Collection[str], place: AwsPlace, request: Request
) -> dict[str, str]:
    """The attributes that were asked for. Without a count, those that count messages are left out."""
    every = {
        **_plain(queue),
        "QueueArn": place.arn(request, queue.name),
        "CreatedTimestamp": str(queue.created_at // 1000),
        "LastModifiedTimestamp": str((queue.modified_at or queue.created_at) // 1000),
    }
    redrive = queue.settings.redrive
    if redrive is not None:
        every[REDRIVE_POLICY] = policy_text(redrive, place.arn(request, redrive.dead_letter_queue))
    if count is not None:
        every["ApproximateNumberOfMessages"] = str(count.ready)
        every["ApproximateNumberOfMessagesNotVisible"] = str(count.claimed)
        every["ApproximateNumberOfMessagesDelayed"] = str(count.delayed)
    return every if ALL in names else {name: value for name, value in every.items() if name in names}


# What is asked of a queue on the way of a message.


def longest_message(queue: Queue) -> int:
    return int(queue.settings.labels.get(LABEL + _SIZE, MESSAGE_BYTES))


def wait_seconds(queue: Queue) -> int:
    return int(queue.settings.labels.get(LABEL + _WAIT, 0))


def needs_dedup_id(queue: Queue) -> bool:
    """A FIFO queue that another API has made says nothing of it: then none is needed."""
    return queue.settings.labels.get(LABEL + CONTENT_BASED) == "false"


def tags_of(queue: Queue) -> dict[str, str]:
    return {name: value for name, value in queue.settings.labels.items() if not name.startswith(RESERVED)}
