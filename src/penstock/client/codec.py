"""How the client's values are written as JSON, and read from it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from penstock.client.errors import InvalidRequest
from penstock.client.values import Body, ClaimedMessage, Count, Draft, LedgerRow, Message, Queue, Tally

T = TypeVar("T")

_JSON = "application/json"


def value_from(kind: type[T], answer: Mapping[str, Any]) -> T:
    """Of the fields that are known here: a newer server may tell more."""
    known: tuple[str, ...] = kind.__slots__  # type: ignore[attr-defined]
    return kind(**{name: answer[name] for name in known if name in answer})


def row_from(answer: Mapping[str, Any]) -> LedgerRow:
    has_body = "body" in answer or "body_base64" in answer
    return value_from(LedgerRow, {**answer, "body": _body_from(answer) if has_body else None})


def queue_from(answer: Mapping[str, Any]) -> Queue:
    count = answer.get("count")
    tally = answer.get("tally")
    return Queue(
        answer["name"],
        answer["created_at"],
        answer["settings"],
        count and _count_from(count),
        tally and Tally(tally["arrived"], tally["departed"]),
        answer.get("modified_at"),
        answer.get("paused_at"),
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
        "group": draft.group,
        "dedup_id": draft.dedup_id,
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
    return {
        "id": answer["id"],
        "queue": answer["queue"],
        "body": _body_from(answer),
        "content_type": answer["content_type"],
        "attributes": answer["attributes"] or {},
        "sent_at": answer["sent_at"],
        "ready_at": answer["ready_at"],
        "receives": answer["receives"],
        "came_from": answer.get("came_from"),
        "group": answer.get("group"),
        "first_claimed_at": answer.get("first_claimed_at"),
        "behind": answer.get("behind", False),
        "state": answer.get("state"),
        "shipped": answer.get("shipped"),
        "claim": answer.get("claim"),
        "last_claimed_at": answer.get("last_claimed_at"),
    }


def _body_from(answer: Mapping[str, Any]) -> bytes:
    text: str | None = answer.get("body")
    # "surrogatepass" mirrors the server, so that no body it hands out is lost here.
    return base64.b64decode(answer["body_base64"]) if text is None else text.encode("utf-8", "surrogatepass")
