"""Tags: the labels of a queue, but for those that this API keeps for itself."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.broker import Broker
from penstock.edge.http import Request
from penstock.errors import QueueNotFound
from penstock.faces.permission import actor_of
from penstock.faces.sqs.checks import TAG_KEY_LENGTH, TAG_VALUE_LENGTH, TAGS
from penstock.faces.sqs.errors import missing, wrong, wrong_value
from penstock.faces.sqs.queue_attributes import RESERVED, tags_of
from penstock.faces.sqs.requests import VIA, QueueRequest, TagQueueRequest, UntagQueueRequest
from penstock.faces.sqs.results import QueueTags
from penstock.model import Queue, QueueChange
from penstock.pending import Pending, chained


def check_tags(queue: str, tags: Mapping[str, str], there: Mapping[str, str] | None = None) -> None:
    """New ones of a queue, beside those that are there."""
    for key, value in tags.items():
        _check_key(key)
        if key.lower().startswith(RESERVED):
            raise wrong_value(key, "Tag.Key", f"Tag keys beginning with {RESERVED} are reserved.")
        if len(value) > TAG_VALUE_LENGTH:
            raise wrong(f"Tag values must be between 0 and {TAG_VALUE_LENGTH} characters in length.")
    if len({*tags, *(there or ())}) > TAGS:
        raise wrong(f"Too many tags added for queue {queue}.")


def _check_key(key: str) -> None:
    if not 1 <= len(key) <= TAG_KEY_LENGTH:
        raise wrong(f"Tag keys must be between 1 and {TAG_KEY_LENGTH} characters in length.")


class Tags:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def list(self, _request: Request, _asked: QueueRequest, queue: str) -> Pending[QueueTags]:
        return self._broker.find_queues((queue,)).map(lambda found: QueueTags(tags_of(_there(found, queue))))

    def add(self, request: Request, asked: TagQueueRequest, queue: str) -> Pending[None]:
        if not asked.tags:
            raise missing("Tags")
        tags = asked.tags

        def set_them(found: list[Queue | None]) -> Pending[None]:
            check_tags(queue, tags, tags_of(_there(found, queue)))
            return self._change(request, queue, dict(tags))

        return chained(self._broker.find_queues((queue,)), set_them)

    def remove(self, request: Request, asked: UntagQueueRequest, queue: str) -> Pending[None]:
        if asked.tag_keys is None:
            raise missing("TagKeys")
        if not asked.tag_keys:
            raise wrong(f"Tag keys must be between 1 and {TAG_KEY_LENGTH} characters in length.")
        for key in asked.tag_keys:
            _check_key(key)
        return self._change(request, queue, {key: None for key in asked.tag_keys if not key.startswith(RESERVED)})

    def _change(self, request: Request, queue: str, labels: dict[str, str | None]) -> Pending[None]:
        changed = self._broker.update_queue(queue, QueueChange(labels=labels), by=actor_of(request, VIA))
        return changed.map(lambda _queue: None)


def _there(found: list[Queue | None], name: str) -> Queue:
    [queue] = found
    if queue is None:
        raise QueueNotFound(name)
    return queue
