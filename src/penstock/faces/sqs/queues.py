"""Queues: create, find, list, delete and purge, and their attributes."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Final

from penstock.broker import Broker
from penstock.edge.http import Request
from penstock.errors import NotPermitted, QueueExists, QueueNotFound
from penstock.faces.permission import actor_of, permits, rules_of
from penstock.faces.sqs import queue_attributes
from penstock.faces.sqs.addresses import AwsPlace, is_name
from penstock.faces.sqs.checks import LIST_RESULTS, check_name, within
from penstock.faces.sqs.errors import QUEUE_EXISTS, Rejection, missing, no_queue, unknown_attribute, wrong
from penstock.faces.sqs.queue_attributes import ALL, COUNTS, NAMES, Wish, wants_fifo
from penstock.faces.sqs.redrive import REDRIVE_POLICY, check_target
from penstock.faces.sqs.requests import (
    VIA,
    CreateQueueRequest,
    GetQueueAttributesRequest,
    GetQueueUrlRequest,
    ListDeadLetterSourceQueuesRequest,
    ListQueuesRequest,
    QueueRequest,
    SetQueueAttributesRequest,
)
from penstock.faces.sqs.results import QueueAttributes, QueueUrl, QueueUrls, SourceQueueUrls
from penstock.faces.sqs.tags import check_tags
from penstock.keys import check_dead_letters, needed_rule
from penstock.model import Groups, Queue, QueueReport
from penstock.pending import Pending, chained, resolved

# A key that has any of these on a queue may know where it is.
_ANY_ACTION: Final = ("post", "poll", "get_status", "admin")


class Queues:
    def __init__(self, broker: Broker, place: AwsPlace) -> None:
        self._broker = broker
        self._place = place

    # Making them

    def create(self, request: Request, asked: CreateQueueRequest, _queue: str) -> Pending[QueueUrl]:
        name = asked.queue_name
        if name is None:
            raise missing("QueueName")
        is_fifo = wants_fifo(asked.attributes)
        check_name(name, is_fifo)
        if not permits(request, "admin", name):
            raise NotPermitted(needed_rule("admin", name))
        wish = queue_attributes.read(asked.attributes, is_fifo)
        tags = asked.tags or {}
        check_tags(name, tags)
        settings = queue_attributes.settings_of(wish, is_fifo, tags)
        queue_attributes.check_together(wish, {}, settings.dedup_scope)
        check_dead_letters(rules_of(request), settings.redrive)
        url = QueueUrl(self._place.url(request, name))

        def make(found: list[Queue | None]) -> Pending[QueueUrl]:
            if found[0] is not None:
                _check_same(wish, found[0])
                return resolved(url)
            if wish.redrive is not None:
                check_target(wish.texts[REDRIVE_POLICY], found[1], name, is_fifo)
            created = self._broker.create_queue(name, settings, actor_of(request, VIA))
            return chained(created.map(_made, _unless_it_exists), made)

        def made(queue: Queue | None) -> Pending[QueueUrl]:
            # Somebody else was faster; then it is as if it had been there before.
            return resolved(url) if queue is not None else look()

        def look() -> Pending[QueueUrl]:
            return chained(self._broker.find_queues(_with(name, wish)), make)

        return look()

    def delete(self, request: Request, _asked: QueueRequest, queue: str) -> Pending[None]:
        return self._broker.delete_queue(queue, actor_of(request, VIA)).map(_nothing)

    def purge(self, request: Request, _asked: QueueRequest, queue: str) -> Pending[None]:
        return self._broker.purge(queue, actor_of(request, VIA)).map(_nothing)

    # Finding them

    def url(self, request: Request, asked: GetQueueUrlRequest, _queue: str) -> Pending[QueueUrl]:
        name = asked.queue_name
        if not name:
            raise missing("QueueName")
        if not is_name(name):
            raise no_queue()
        if not any(permits(request, action, name) for action in _ANY_ACTION):
            raise NotPermitted(needed_rule("get_status", name))

        def found(queues: list[Queue | None]) -> QueueUrl:
            if queues[0] is None:
                raise QueueNotFound(name)
            return QueueUrl(self._place.url(request, name))

        return self._broker.find_queues((name,)).map(found)

    def list_queues(self, request: Request, asked: ListQueuesRequest, _queue: str) -> Pending[QueueUrls]:
        """For every key, with the queues that it may see: some clients ask for the list before anything else."""
        prefix = asked.queue_name_prefix or ""
        if prefix and not is_name(prefix):
            return resolved(QueueUrls())
        return self._page(
            request,
            asked.max_results,
            asked.next_token,
            lambda after, limit: self._broker.page_queues(prefix, after, limit),
            lambda queue: permits(request, "get_status", queue.name),
        ).map(lambda page: QueueUrls(*page))

    def sources(
        self, request: Request, asked: ListDeadLetterSourceQueuesRequest, queue: str
    ) -> Pending[SourceQueueUrls]:
        return self._page(
            request,
            asked.max_results,
            asked.next_token,
            lambda after, limit: self._broker.dead_letter_sources(queue, after, limit),
            lambda queue: permits(request, "get_status", queue.name),
        ).map(lambda page: SourceQueueUrls(*page))

    def _page(
        self,
        request: Request,
        max_results: int | None,
        token: str | None,
        read: Callable[[str, int], Pending[list[Queue]]],
        is_shown: Callable[[Queue], bool],
    ) -> Pending[tuple[list[str], str | None]]:
        """The URLs of a page, and where the next goes on. There is a next page only for those who ask for pages."""
        limit = LIST_RESULTS if max_results is None else within(max_results, "MaxResults", LIST_RESULTS)
        names: list[str] = []

        def take(queues: list[Queue], last: str) -> Pending[tuple[list[str], str | None]]:
            for queue in queues:
                if is_shown(queue):
                    if len(names) == limit:
                        # The last that was shown: the name of another may not be told.
                        return resolved((urls(), None if max_results is None else _token_of(names[-1])))
                    names.append(queue.name)
                last = queue.name
            return go_on(last) if len(queues) > limit else resolved((urls(), None))

        def urls() -> list[str]:
            return [self._place.url(request, name) for name in names]

        def go_on(last: str) -> Pending[tuple[list[str], str | None]]:
            return chained(read(last, limit + 1), lambda queues: take(queues, last))

        return go_on("" if token is None else _after(token))

    # Their attributes

    def show(self, request: Request, asked: GetQueueAttributesRequest, queue: str) -> Pending[QueueAttributes]:
        names = asked.attribute_names or ()
        for name in names:
            if name not in NAMES:
                raise unknown_attribute(name)

        def told(report: QueueReport) -> QueueAttributes:
            return QueueAttributes(queue_attributes.shown(report.queue, report.count, names, self._place, request))

        def found(queues: list[Queue | None]) -> QueueAttributes:
            if queues[0] is None:
                raise QueueNotFound(queue)
            return QueueAttributes(queue_attributes.shown(queues[0], None, names, self._place, request))

        # Counting takes longer than all the rest.
        if ALL in names or not COUNTS.isdisjoint(names):
            return self._broker.describe_queue(queue).map(told)
        return self._broker.find_queues((queue,)).map(found)

    def change(self, request: Request, asked: SetQueueAttributesRequest, queue: str) -> Pending[None]:
        if asked.attributes is None:
            raise missing("Attributes")
        given = asked.attributes

        def judge(found: list[Queue | None]) -> Pending[None]:
            [about] = found
            if about is None:
                raise QueueNotFound(queue)
            is_fifo = about.settings.groups is Groups.FIFO
            wish = queue_attributes.read(given, is_fifo)
            queue_attributes.check_together(wish, about.settings.labels, about.settings.dedup_scope)
            if wish.redrive is None:
                return change(wish)
            # Before a look at that queue, which would tell whether it is there.
            check_dead_letters(rules_of(request), wish.redrive)

            def allow(targets: list[Queue | None]) -> Pending[None]:
                check_target(wish.texts[REDRIVE_POLICY], targets[0], queue, is_fifo)
                return change(wish)

            return chained(self._broker.find_queues((wish.redrive.dead_letter_queue,)), allow)

        def change(wish: Wish) -> Pending[None]:
            if not wish.texts:
                return resolved(None)
            asked_for = queue_attributes.change_of(wish)
            changed = self._broker.update_queue(queue, asked_for, rules_of(request), actor_of(request, VIA))
            return changed.map(_nothing)

        return chained(self._broker.find_queues((queue,)), judge)


def _with(name: str, wish: Wish) -> tuple[str, ...]:
    """A queue and its dead-letter queue."""
    return (name,) if wish.dead_letter_queue is None else (name, wish.dead_letter_queue)


def _check_same(wish: Wish, queue: Queue) -> None:
    name = queue_attributes.difference(wish, queue)
    if name is not None:
        raise Rejection(
            QUEUE_EXISTS, f"A queue already exists with the same name and a different value for attribute {name}"
        )


def _made(queue: Queue) -> Queue | None:
    return queue


def _unless_it_exists(error: Exception) -> None:
    if not isinstance(error, QueueExists):
        raise error


def _nothing(_result: object) -> None:
    return None


def _token_of(name: str) -> str:
    return urlsafe_b64encode(name.encode()).decode()


def _after(token: str) -> str:
    try:
        name = urlsafe_b64decode(token).decode()
    except ValueError:
        name = ""
    if not is_name(name):
        raise wrong("Invalid or expired next token.")
    return name
