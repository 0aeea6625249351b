"""The verbs, each one request of the native API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeAlias, TypeVar, Unpack
from urllib.parse import quote, urlencode

from penstock.client.connection import Answer, Connection
from penstock.client.errors import (
    InvalidRequest,
    KeyExists,
    KeyNotFound,
    QueueExists,
    QueueNotFound,
    UnexpectedAnswer,
    error_of,
)
from penstock.client.values import (
    ClaimedMessage,
    Draft,
    Key,
    Peeked,
    Queue,
    Sent,
    Settings,
    claimed_from,
    draft_to,
    message_from,
    queue_from,
)

# A receipt, a message id, a claimed message, or several of them.
Receipts: TypeAlias = str | ClaimedMessage | Iterable[str | ClaimedMessage]

T = TypeVar("T")

_PAGE = 1000


class Client:
    """One connection to one server, for one thread at a time. Every method may raise a `ClientError`.

    A request that may already have been carried out is never repeated: after `Unreachable` with `sent`,
    a send may have stored its message and a claim may hold messages until it runs out.
    """

    def __init__(self, url: str = "http://127.0.0.1:8080", api_key: str | None = None, timeout_s: float = 30) -> None:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if api_key:
            if not (api_key.isascii() and api_key.isprintable()):
                raise ValueError("an API key is made of printable ASCII characters")
            headers["Authorization"] = f"Bearer {api_key}"
        self._connection = Connection(url, headers, timeout_s)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """The next call opens a new connection."""
        self._connection.close()

    # Queues

    def create_queue(self, name: str, **settings: Unpack[Settings]) -> Queue:
        return self._ask(queue_from, "PUT", _path(name), settings)

    def update_queue(self, name: str, **settings: Unpack[Settings]) -> Queue:
        return self._ask(queue_from, "PATCH", _path(name), settings, repeatable=True)

    def delete_queue(self, name: str) -> Queue:
        """The queue as it was. Its messages are gone with it."""
        return self._ask(queue_from, "DELETE", _path(name))

    def queue(self, name: str) -> Queue:
        return self._ask(queue_from, "GET", _path(name), repeatable=True)

    def queues(self) -> Iterator[Queue]:
        """Every queue, fetched page by page while it is read."""
        offset = 0
        while True:
            query = urlencode({"offset": offset, "limit": _PAGE})
            total, page = self._ask(_queue_page, "GET", f"/v1/queues?{query}", repeatable=True)
            yield from page
            offset += len(page)
            if not page or offset >= total:
                return

    # Messages

    def send(
        self,
        queue: str,
        body: bytes | str,
        *,
        content_type: str | None = None,
        attributes: Mapping[str, str] | None = None,
        delay_ms: int | None = None,
    ) -> str:
        """The id of the message; of its earlier twin, where the queue keeps only one of two."""
        [sent] = self.send_many(queue, [Draft(body, content_type, attributes, delay_ms)])
        return sent.id

    def send_many(self, queue: str, messages: Iterable[Draft | bytes | str]) -> list[Sent]:
        """All or nothing, in one request."""
        drafts = [draft_to(message) for message in messages]
        if not drafts:
            return []
        return self._ask(_sent, "POST", _path(queue, "/messages"), {"messages": drafts})

    def claim(self, queue: str, limit: int = 1, hold_ms: int | None = None, wait_ms: int = 0) -> list[ClaimedMessage]:
        """Up to `limit` messages, held for `hold_ms` or as long as the queue says; none after `wait_ms`."""
        asked = {"limit": limit, "hold_ms": hold_ms, "wait_ms": wait_ms}
        return self._ask(_claimed, "POST", _path(queue, "/claim"), asked, patience_s=wait_ms / 1000)

    def ack(self, queue: str, receipts: Receipts) -> list[bool]:
        """Each True is a message that is finished; each False a receipt whose claim has ended."""
        return self._settle(queue, "/ack", receipts)

    def renew(self, queue: str, receipts: Receipts, hold_ms: int) -> list[bool]:
        """Hold the messages for `hold_ms` from now."""
        return self._settle(queue, "/renew", receipts, repeatable=True, hold_ms=hold_ms)

    def release(self, queue: str, receipts: Receipts, delay_ms: int | None = None) -> list[bool]:
        """Give the messages back: they are ready at once, or after `delay_ms`."""
        return self._settle(queue, "/release", receipts, delay_ms=delay_ms)

    def peek(self, queue: str, limit: int = 10, after: str | None = None) -> Peeked:
        """Look without claiming. `after` goes on where an earlier peek ended."""
        query = urlencode({"limit": limit} | ({} if after is None else {"after": after}))
        return self._ask(_peeked, "GET", _path(queue, f"/messages?{query}"), repeatable=True)

    def purge(self, queue: str) -> int:
        """Remove every message, claimed or not. How many there were."""
        return self._ask(_purged, "POST", _path(queue, "/purge"), {})

    # API keys

    def keys(self) -> list[Key]:
        return self._ask(_keys, "GET", "/v1/keys", repeatable=True)

    def create_key(self, name: str, rules: Iterable[str]) -> str:
        """The secret of the new key, which is told this once. From the first key on every request needs one."""
        try:
            return self._ask(_secret, "POST", "/v1/keys", {"name": name, "rules": list(rules)})
        except QueueExists as error:
            raise KeyExists(str(error), error.status) from None

    def revoke_key(self, name: str) -> None:
        """Refuse the key from now on, for good."""
        try:
            self._ask(_revoked, "DELETE", f"/v1/keys/{_quoted(name, 'name of an API key')}", repeatable=True)
        except QueueNotFound as error:
            raise KeyNotFound(str(error), error.status) from None

    def _settle(
        self, queue: str, verb: str, receipts: Receipts, *, repeatable: bool = False, **more: object
    ) -> list[bool]:
        if isinstance(receipts, str | ClaimedMessage):
            receipts = [receipts]
        texts = [receipt if isinstance(receipt, str) else receipt.receipt for receipt in receipts]
        if not texts:
            return []
        asked = {"receipts": texts, **more}
        return self._ask(_done, "POST", _path(queue, verb), asked, repeatable=repeatable)

    def _ask(
        self,
        read: Callable[[Any], T],
        method: str,
        path: str,
        value: Mapping[str, object] | None = None,
        *,
        repeatable: bool = False,
        patience_s: float = 0,
    ) -> T:
        body = None if value is None else _encoded(value)
        answer = self._connection.ask(method, path, body, repeatable=repeatable, patience_s=patience_s)
        url = self._connection.url
        decoded = _decoded(answer, url)
        try:
            return read(decoded)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UnexpectedAnswer(f"the answer of {url} lacks something; is it a Penstock server?") from error


def _queue_page(answer: Any) -> tuple[int, list[Queue]]:
    return answer["total"], [queue_from(queue) for queue in answer["queues"]]


def _sent(answer: Any) -> list[Sent]:
    return [Sent(sent["id"], sent["stored"]) for sent in answer["sent"]]


def _claimed(answer: Any) -> list[ClaimedMessage]:
    return [claimed_from(message) for message in answer["messages"]]


def _peeked(answer: Any) -> Peeked:
    return Peeked([message_from(message) for message in answer["messages"]], answer["after"])


def _done(answer: Any) -> list[bool]:
    return list(answer["done"])


def _purged(answer: Any) -> int:
    return int(answer["purged"])


def _keys(answer: Any) -> list[Key]:
    return [Key(key["name"], key["rules"], key["created_at"], key["revoked_at"]) for key in answer["keys"]]


def _secret(answer: Any) -> str:
    return str(answer["secret"])


def _revoked(answer: Any) -> None:
    answer["revoked"]


def _path(queue: str, rest: str = "") -> str:
    return f"/v1/queues/{_quoted(queue, 'queue name')}{rest}"


def _quoted(name: str, what: str) -> str:
    # An empty name or dots would be another path altogether, and some proxies would go there.
    if name not in ("", ".", ".."):
        with suppress(UnicodeEncodeError):
            return quote(name, safe="")
    raise InvalidRequest(f"{name!r} is not a {what}")


def _encoded(value: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"the request cannot be written as JSON: {error}") from error


def _decoded(answer: Answer, url: str) -> dict[str, Any]:
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        value = None
    if answer.status in (200, 201) and isinstance(value, dict):
        return value
    message = value.get("error") if isinstance(value, dict) else None
    if isinstance(message, str) and answer.status >= 400:
        raise error_of(answer.status, message, answer.retry_after)
    if answer.status >= 500:  # a proxy in front may answer without our words
        raise error_of(answer.status, f"{url} answered {answer.status}", answer.retry_after)
    raise UnexpectedAnswer(f"{url} answered {answer.status} in a way no Penstock server does")
