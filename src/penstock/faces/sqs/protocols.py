"""The two protocols: how a request names its operation and its parameters.

    JSON    a header names the operation, and the body is one object
    Query   the parameter `Action` names it, in a form or in the query

Both verify the request first, then read it, ask whether its caller may, and run the operation. No input makes them
fail: whatever is raised is answered in the words of SQS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct, inspect

from penstock.edge.http import Request, Response
from penstock.errors import NotPermitted
from penstock.faces.bodies import beginning, items_of
from penstock.faces.permission import permits
from penstock.faces.sqs import form
from penstock.faces.sqs.addresses import queue_of
from penstock.faces.sqs.answers import JsonAnswers, XmlAnswers, by_signature
from penstock.faces.sqs.checks import BATCH_ENTRIES, too_many_entries
from penstock.faces.sqs.errors import ACTION, NO_ACTION, UNREADABLE, Rejection
from penstock.faces.sqs.operations import STS_NAMESPACE, Operation
from penstock.faces.sqs.xml_text import NAMESPACE
from penstock.keys import needed_rule
from penstock.pending import Pending

Answer: TypeAlias = Response | Pending[Response]

_TARGET: Final = b"AmazonSQS."
_NO_PARAMETERS: Final = b"{}"
# Entries are counted while they are read in bodies from this size on; in shorter ones there is room for few.
_LARGE: Final = 64 * 1024
# What cannot be asked of one queue.
_OF_NO_QUEUE: Final = frozenset({"CreateQueue", "ListQueues"})


def _run(request: Request, operation: Operation, asked: Any) -> Pending[Any]:
    """Ask whether the caller may, and do it. All operations share one path: they are counted by their names."""
    action = operation.action
    if request.traffic is not None:
        request.traffic = request.traffic.part(operation.name)
    if action is None:
        return operation.run(request, asked, "")
    queue = queue_of(request, asked.queue_url)
    if not permits(request, action, queue):
        raise NotPermitted(needed_rule(action, queue))
    return operation.run(request, asked, queue)


class JsonProtocol:
    def __init__(self, operations: Mapping[str, Operation], answers: JsonAnswers) -> None:
        self._operations = {
            _TARGET + name.encode(): (operation, _reader(operation.shape)) for name, operation in operations.items()
        }
        self._done = answers.done
        self._failed = answers.failed

    def serve(self, request: Request) -> Answer:
        try:
            refused = by_signature(request)
            if refused is not None:
                return self._failed(refused)
            found = self._operations.get(request.headers.get(b"x-amz-target", b""))
            if found is None:
                raise Rejection(ACTION, "The operation that the header X-Amz-Target names is not known.")
            operation, read = found
            return _run(request, operation, read(request.body)).map(self._done, self._failed)
        except Exception as error:
            return self._failed(error)


class QueryProtocol:
    def __init__(self, operations: Mapping[str, Operation], identity: Operation, answers: XmlAnswers) -> None:
        self._operations = {**operations, identity.name: identity}
        self._identity = identity
        self._answers = answers

    def serve(self, request: Request) -> Answer:
        answers = self._answers
        try:
            refused = by_signature(request)
            if refused is not None:
                return answers.failed(refused)
            given = form.parameters(request)
            if "Action" not in given and request.params and request.method == "GET":
                return answers.nothing_asked()
            operation = self._named(request, given)
            namespace = STS_NAMESPACE if operation is self._identity else NAMESPACE
            asked = form.read(operation.shape, given)
            return _run(request, operation, asked).map(
                lambda result: answers.done(operation.name, result, namespace), answers.failed
            )
        except Exception as error:
            return answers.failed(error)

    def _named(self, request: Request, given: Mapping[str, str]) -> Operation:
        action = given.get("Action")
        if action is None:
            raise Rejection(NO_ACTION, "The request must contain the parameter Action.")
        operation = self._operations.get(action)
        if operation is None:
            place = "endpoint" if request.params else "web service"
            raise Rejection(ACTION, f"The action {action[:80]} is not valid for this {place}.")
        if request.params and action in _OF_NO_QUEUE:
            raise Rejection(ACTION, f"The action {action} is not valid for this endpoint.")
        return operation


def _reader(shape: type[Struct]) -> Callable[[bytes], Any]:
    decode = msgspec.json.Decoder(shape).decode
    is_batch = "entries" in shape.__struct_fields__

    def read(body: bytes) -> Any:
        try:
            if is_batch and len(body) > _LARGE:
                return _read_large(shape, body)
            return decode(body or _NO_PARAMETERS)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Rejection(UNREADABLE, f"The body could not be read: {error}") from error

    return read


def _read_large(shape: type[Struct], body: bytes) -> Any:
    """A batch of which no more entries are built than there may be, and one."""
    asked = _large_decoder(shape)(body)
    entries = None if asked.entries is None else items_of(asked.entries)
    if entries is not None and len(entries) > BATCH_ENTRIES:
        raise too_many_entries()
    return shape(asked.queue_url, entries)


@cache
def _large_decoder(shape: type[Struct]) -> Callable[[bytes], Any]:
    [entries] = [one for one in inspect.type_info(shape).fields if one.name == "entries"]  # type: ignore[attr-defined]
    [listed] = [one for one in entries.type.type.types if isinstance(one, inspect.ListType)]
    few = beginning(listed.item_type.cls, BATCH_ENTRIES)  # type: ignore[attr-defined]
    fields = [("queue_url", str | None, None), ("entries", few | None, None)]
    return msgspec.json.Decoder(msgspec.defstruct(f"Large{shape.__name__}", fields, rename="pascal")).decode
