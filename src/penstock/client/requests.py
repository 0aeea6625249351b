"""The verbs, each one request of the native API: what is asked, and how its answer reads.

Nothing here talks to a server. `Client` and `AsyncClient` make their methods of these functions, with the parameters
and the documentation written here, so the two cannot differ in more than how they wait.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, Unpack
from urllib.parse import quote, urlencode

from penstock.client.address import Answer
from penstock.client.errors import (
    KEY_REFUSALS,
    MOVE_REFUSALS,
    START_REFUSALS,
    InvalidRequest,
    Refused,
    UnexpectedAnswer,
    error_of,
)
from penstock.client.values import (
    Body,
    ClaimedMessage,
    Draft,
    Key,
    Move,
    MoveTerms,
    Peeked,
    Queue,
    Sent,
    Settings,
    claimed_from,
    draft_to,
    message_from,
    move_from,
    queue_from,
)

# A receipt, a message id, a claimed message, or several of them.
Receipts: TypeAlias = str | ClaimedMessage | Iterable[str | ClaimedMessage]

T = TypeVar("T")

_NOT_OF_THE_FILTER: tuple[str, ...] = ("limit", "per_second", "dry_run")

QUEUES_PER_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """`repeatable` says that doing it twice is doing it once; `patience_s` how long the server may take on purpose."""

    read: Callable[[Any], T]
    method: str
    path: str
    body: bytes | None = None
    repeatable: bool = False
    patience_s: float = 0
    refusals: Mapping[int, type[Refused]] | None = None

    def result(self, answer: Answer, url: str) -> T:
        """What the server's answer means. Raises the error that it tells of."""
        value = _decoded(answer, url, self.refusals)
        try:
            return self.read(value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UnexpectedAnswer(f"the answer of {url} lacks something; is it a Penstock server?") from error


@dataclass(frozen=True, slots=True)
class Moot(Generic[T]):
    """Nothing to ask: the result is known."""

    value: T


# Queues


def create_queue(name: str, **settings: Unpack[Settings]) -> Request[Queue]:
    return Request(queue_from, "PUT", _path(name), _encoded(settings))


def update_queue(name: str, **settings: Unpack[Settings]) -> Request[Queue]:
    return Request(queue_from, "PATCH", _path(name), _encoded(settings), repeatable=True)


def delete_queue(name: str) -> Request[Queue]:
    """The queue as it was. Its messages are gone with it."""
    return Request(queue_from, "DELETE", _path(name))


def queue(name: str) -> Request[Queue]:
    return Request(queue_from, "GET", _path(name), repeatable=True)


def queue_page(offset: int, count: bool) -> Request[tuple[int, list[Queue]]]:
    """How many queues there are, and those of one page."""
    query = urlencode({"offset": offset, "limit": QUEUES_PER_PAGE} | ({} if count else {"count": "false"}))
    return Request(_queue_page, "GET", f"/v1/queues?{query}", repeatable=True)


# Messages


def send(
    queue: str,
    body: Body,
    *,
    content_type: str | None = None,
    attributes: Mapping[str, str] | None = None,
    delay_ms: int | None = None,
) -> Request[str]:
    """The id of the message; of its earlier twin, where the queue keeps only one of two."""
    draft = draft_to(Draft(body, content_type, attributes, delay_ms))
    return Request(_sent_id, "POST", _path(queue, "/messages"), _encoded({"messages": [draft]}))


def send_many(queue: str, messages: Iterable[Draft | Body]) -> Request[list[Sent]] | Moot[list[Sent]]:
    """All or nothing, in one request."""
    if isinstance(messages, str | bytes | bytearray | memoryview | Mapping | Draft):
        raise InvalidRequest("send_many takes a list of messages; one message is for send")
    drafts = [draft_to(message) for message in messages]
    if not drafts:
        return Moot([])
    return Request(_sent, "POST", _path(queue, "/messages"), _encoded({"messages": drafts}))


def claim(queue: str, limit: int = 1, hold_ms: int | None = None, wait_ms: int = 0) -> Request[list[ClaimedMessage]]:
    """Up to `limit` messages, held for `hold_ms` or as long as the queue says; none after `wait_ms`."""
    asked = {"limit": limit, "hold_ms": hold_ms, "wait_ms": wait_ms}
    return Request(_claimed, "POST", _path(queue, "/claim"), _encoded(asked), patience_s=wait_ms / 1000)


def ack(queue: str, receipts: Receipts) -> Request[list[bool]] | Moot[list[bool]]:
    """Each True is a message that is finished; each False a receipt whose claim has ended."""
    return _settle(queue, "/ack", receipts)


def renew(queue: str, receipts: Receipts, hold_ms: int) -> Request[list[bool]] | Moot[list[bool]]:
    """Hold the messages for `hold_ms` from now."""
    return _settle(queue, "/renew", receipts, repeatable=True, hold_ms=hold_ms)


def release(queue: str, receipts: Receipts, delay_ms: int | None = None) -> Request[list[bool]] | Moot[list[bool]]:
    """Give the messages back: they are ready after `delay_ms`, or as the backoff of their queue says."""
    return _settle(queue, "/release", receipts, delay_ms=delay_ms)


def peek(queue: str, limit: int = 10, after: str | None = None) -> Request[Peeked]:
    """Look without claiming. `after` goes on where an earlier peek ended."""
    query = urlencode({"limit": limit} | ({} if after is None else {"after": after}))
    return Request(_peeked, "GET", _path(queue, f"/messages?{query}"), repeatable=True)


def purge(queue: str, older_than_ms: int | None = None) -> Request[int]:
    """Remove every message, claimed or not; or only those that were sent longer ago. How many there were."""
    asked = {} if older_than_ms is None else {"older_than_ms": older_than_ms}
    return Request(_purged, "POST", _path(queue, "/purge"), _encoded(asked))


# Moves


def move(source: str, target: str, **terms: Unpack[MoveTerms]) -> Request[Move]:
    """Start to move messages from one queue into another. It goes on in the background, also after a restart."""
    return _move(source, target, terms)


def redrive(queue: str, **terms: Unpack[MoveTerms]) -> Request[Move]:
    """Start to move dead letters back to the queues they came from."""
    return _move(queue, None, terms)


def find_move(move_id: str) -> Request[Move]:
    """How a move goes, or how it ended, for a day."""
    return Request(move_from, "GET", _move_path(move_id), repeatable=True, refusals=MOVE_REFUSALS)


def cancel_move(move_id: str) -> Request[Move]:
    """Move nothing further; what has moved stays moved. A move that has ended stays as it is."""
    path = _move_path(move_id, "/cancel")
    return Request(move_from, "POST", path, _encoded({}), repeatable=True, refusals=MOVE_REFUSALS)


def moves(limit: int = 100) -> Request[list[Move]]:
    """Those that are in progress or ended within a day, the latest first."""
    return Request(_moves, "GET", f"/v1/moves?{urlencode({'limit': limit})}", repeatable=True)


# API keys


def keys() -> Request[list[Key]]:
    return Request(_keys, "GET", "/v1/keys", repeatable=True)


def create_key(name: str, rules: Iterable[str]) -> Request[str]:
    """The secret of the new key, which is told this once. From the first key on every request needs one."""
    asked = _encoded({"name": name, "rules": list(rules)})
    return Request(_secret, "POST", "/v1/keys", asked, refusals=KEY_REFUSALS)


def revoke_key(name: str) -> Request[None]:
    """Refuse the key from now on, for good."""
    path = f"/v1/keys/{_quoted(name, 'name of an API key')}"
    return Request(_revoked, "DELETE", path, repeatable=True, refusals=KEY_REFUSALS)


# What goes there


def _settle(
    queue: str, verb: str, receipts: Receipts, *, repeatable: bool = False, **more: object
) -> Request[list[bool]] | Moot[list[bool]]:
    if isinstance(receipts, str | ClaimedMessage):
        receipts = [receipts]
    texts = [receipt if isinstance(receipt, str) else receipt.receipt for receipt in receipts]
    if not texts:
        return Moot([])
    return Request(_done, "POST", _path(queue, verb), _encoded({"receipts": texts, **more}), repeatable)


def _move(source: str, target: str | None, terms: MoveTerms) -> Request[Move]:
    given: dict[str, object] = {name: value for name, value in terms.items() if value is not None}
    asked: dict[str, object] = {name: given.pop(name) for name in _NOT_OF_THE_FILTER if name in given}
    body = _encoded({"source": source, "target": target, "filter": given, **asked})
    return Request(move_from, "POST", "/v1/moves", body, refusals=START_REFUSALS)


def _move_path(move_id: str, rest: str = "") -> str:
    return f"/v1/moves/{_quoted(move_id, 'id of a move')}{rest}"


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


# What comes back


def _queue_page(answer: Any) -> tuple[int, list[Queue]]:
    return answer["total"], [queue_from(queue) for queue in answer["queues"]]


def _sent(answer: Any) -> list[Sent]:
    return [Sent(sent["id"], sent["stored"]) for sent in answer["sent"]]


def _sent_id(answer: Any) -> str:
    [sent] = _sent(answer)
    return sent.id


def _claimed(answer: Any) -> list[ClaimedMessage]:
    return [claimed_from(message) for message in answer["messages"]]


def _peeked(answer: Any) -> Peeked:
    return Peeked([message_from(message) for message in answer["messages"]], answer["after"])


def _done(answer: Any) -> list[bool]:
    return list(answer["done"])


def _purged(answer: Any) -> int:
    return int(answer["purged"])


def _moves(answer: Any) -> list[Move]:
    return [move_from(move) for move in answer["moves"]]


def _keys(answer: Any) -> list[Key]:
    return [Key(key["name"], key["rules"], key["created_at"], key["revoked_at"]) for key in answer["keys"]]


def _secret(answer: Any) -> str:
    return str(answer["secret"])


def _revoked(answer: Any) -> None:
    answer["revoked"]


def _decoded(answer: Answer, url: str, refusals: Mapping[int, type[Refused]] | None) -> dict[str, Any]:
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        value = None
    if answer.status in (200, 201) and isinstance(value, dict):
        return value
    message = value.get("error") if isinstance(value, dict) else None
    if isinstance(message, str) and answer.status >= 400:
        raise error_of(answer.status, message, answer.retry_after, refusals)
    if answer.status >= 500:  # a proxy in front may answer without our words
        raise error_of(answer.status, f"{url} answered {answer.status}", answer.retry_after)
    raise UnexpectedAnswer(f"{url} answered {answer.status} in a way no Penstock server does")
