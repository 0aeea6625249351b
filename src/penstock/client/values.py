"""What goes to a server and what comes back. Instants are milliseconds since the epoch.

Dataclasses, not the core's structs: the client needs nothing but Python.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict

from penstock.client.errors import InvalidRequest

# What can be sent: bytes as they are, text as UTF-8, and whatever JSON can say as JSON.
Body: TypeAlias = bytes | bytearray | memoryview | str | dict[str, Any] | list[Any] | int | float | bool | None

_JSON = "application/json"


class Redrive(TypedDict):
    max_receives: int
    dead_letter_queue: str


class Backoff(TypedDict):
    first_ms: int
    most_ms: int


class Settings(TypedDict, total=False):
    """What may be set on a queue; whatever is left out keeps its value."""

    visibility_ms: int
    retention_ms: int
    delay_ms: int
    dedup: Literal["off", "send", "claim"]
    redrive: Redrive | None
    ledger: Literal["off", "outcomes", "bodies"]
    backoff: Backoff | None


@dataclass(frozen=True, slots=True)
class Count:
    """`total` is exact. Unless `exact`, `delayed` and `claimed` are lower bounds, `ready` an upper one. The oldest
    message is told in any state, and among those that are ready."""

    total: int
    ready: int
    delayed: int
    claimed: int
    exact: bool
    oldest_sent_at: int | None
    oldest_ready_sent_at: int | None


@dataclass(frozen=True, slots=True)
class Tally:
    """Since the queue was created: how many messages have arrived in it, and how many have left it again."""

    arrived: int
    departed: int


@dataclass(frozen=True, slots=True)
class Queue:
    """`count` is there when the queue was asked for by its name or listed, `tally` in the first case only."""

    name: str
    created_at: int
    settings: Settings
    count: Count | None = None
    tally: Tally | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """An API key without its secret, which only `create_key` tells. `revoked_at` is None while it is good."""

    name: str
    rules: list[str]
    created_at: int
    revoked_at: int | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to send. Text travels as UTF-8; a dict, list, number, bool or None as JSON, and its `content_type` is
    then `application/json` unless it says otherwise."""

    body: Body
    content_type: str | None = None
    attributes: Mapping[str, str] | None = None
    delay_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """`id` is the message's, or its earlier twin's when `stored` is False."""

    id: str
    stored: bool


@dataclass(frozen=True, slots=True)
class Message:
    """`ready_at` is the end of its claim or delay, 0 when it is ready. `came_from` is the queue in which a dead letter
    could not be dealt with."""

    id: str
    queue: str
    body: bytes
    content_type: str | None
    attributes: dict[str, str] = field(default_factory=dict)
    sent_at: int = 0
    ready_at: int = 0
    receives: int = 0
    came_from: str | None = None

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        """The body as a JSON value, whatever its content type. Raises ValueError where it is not JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class ClaimedMessage(Message):
    """`receipt` proves the claim: ack, renew or release the message with it."""

    receipt: str = ""


@dataclass(frozen=True, slots=True)
class Peeked:
    """`after` is where the next peek goes on, None past the end."""

    messages: list[Message]
    after: str | None


class JsonEquals(TypedDict):
    """`path` is such as `$.order.lines[0]`; `value` is text, a number, a truth or None."""

    path: str
    value: str | int | float | bool | None


class MoveTerms(TypedDict, total=False):
    """Which messages move: those for which all that is given holds; and how many, how fast, or only counted."""

    older_than_ms: int
    newer_than_ms: int
    min_receives: int
    max_receives: int
    content_type: str
    text: str
    json: JsonEquals
    limit: int
    per_second: int
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Move:
    """`target` is None where dead letters go home. `examined` messages were looked at, of which `matched` are meant;
    `homeless` ones of them came from no queue that is there, and stay."""

    id: str
    source: str
    target: str | None
    status: Literal["in-progress", "complete", "error", "cancelled"]
    examined: int
    matched: int
    moved: int
    homeless: int
    started_at: int
    finished_at: int | None = None
    error: str | None = None
    filter: dict[str, Any] = field(default_factory=dict)
    limit: int | None = None
    per_second: int | None = None
    dry_run: bool = False

    @property
    def has_ended(self) -> bool:
        return self.status != "in-progress"


def move_from(answer: Mapping[str, Any]) -> Move:
    return Move(**{name: answer[name] for name in Move.__slots__})


def queue_from(answer: Mapping[str, Any]) -> Queue:
    count = answer.get("count")
    tally = answer.get("tally")
    return Queue(
        answer["name"],
        answer["created_at"],
        answer["settings"],
        count and _count_from(count),
        tally and Tally(tally["arrived"], tally["departed"]),
    )


def _count_from(answer: Mapping[str, Any]) -> Count:
    """A newer server may tell more, and an older one less."""
    return Count(
        total=answer["total"],
        ready=answer["ready"],
        delayed=answer["delayed"],
        claimed=answer["claimed"],
        exact=answer["exact"],
        oldest_sent_at=answer["oldest_sent_at"],
        oldest_ready_sent_at=answer.get("oldest_ready_sent_at"),
    )


def message_from(answer: Mapping[str, Any]) -> Message:
    return Message(**_fields(answer))


def claimed_from(answer: Mapping[str, Any]) -> ClaimedMessage:
    return ClaimedMessage(**_fields(answer), receipt=answer["receipt"])


def draft_to(draft: Draft | Body) -> dict[str, object]:
    if not isinstance(draft, Draft):
        draft = Draft(draft)
    body, content_type = _bytes_of(draft.body)
    optional = {
        "content_type": content_type if draft.content_type is None else draft.content_type,
        "attributes": dict(draft.attributes) if draft.attributes else None,
        "delay_ms": draft.delay_ms,
    }
    return _body_to(body) | {name: value for name, value in optional.items() if value is not None}


def _bytes_of(body: Body) -> tuple[bytes, str | None]:
    """The bytes of a body, and the content type that it has by its nature."""
    match body:
        case bytes():
            return body, None
        case str():
            try:
                return body.encode(), None
            except UnicodeEncodeError as error:
                raise InvalidRequest(f"the body is text that UTF-8 cannot carry: {error}") from error
        case bytearray() | memoryview():
            return bytes(body), None
        case dict() | list() | int() | float() | None:
            return _json_of(body), _JSON
    raise InvalidRequest(
        f"a body is bytes, str, or a JSON value (dict, list, int, float, bool, None), not {type(body).__name__}"
    )


def _json_of(value: object) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"the body cannot be written as JSON: {error}") from error
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair: JSON can say it in ASCII only.
        return json.dumps(value, separators=(",", ":")).encode()


def _body_to(body: bytes) -> dict[str, object]:
    # A zero byte takes six characters in JSON: bodies full of them would not fit into a request.
    if b"\0" not in body:
        try:
            return {"body": body.decode()}
        except UnicodeDecodeError:
            pass
    return {"body_base64": base64.b64encode(body).decode()}


def _fields(answer: Mapping[str, Any]) -> dict[str, Any]:
    text = answer.get("body")
    # "surrogatepass" mirrors the server, so that no body it hands out is lost here.
    body = base64.b64decode(answer["body_base64"]) if text is None else text.encode("utf-8", "surrogatepass")
    return {
        "id": answer["id"],
        "queue": answer["queue"],
        "body": body,
        "content_type": answer["content_type"],
        "attributes": answer["attributes"] or {},
        "sent_at": answer["sent_at"],
        "ready_at": answer["ready_at"],
        "receives": answer["receives"],
        "came_from": answer.get("came_from"),
    }
