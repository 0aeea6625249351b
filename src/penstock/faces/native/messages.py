"""Messages: claim, peek, purge, and how a message looks in the answers.

One file because the ways to show a message are one form with additions, each written out for speed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest
from penstock.faces import pieces
from penstock.faces.answers import json_response
from penstock.faces.bodies import decoder
from penstock.faces.description import (
    EXAMPLE_ID,
    NumberParam,
    Op,
    Param,
    also,
    answer,
    body,
    is_number,
    text,
)
from penstock.faces.native.arrow import (
    AFTER,
    ARROW_MEDIA,
    ARROW_STREAM,
    NEXT_PAGE,
    ArrowStream,
    binaries,
    instants,
    integers,
    repeated,
    text_maps,
    texts,
    wants_arrow,
)
from penstock.faces.native.filters import FILTER, ages_of, query_filter, selection_of
from penstock.faces.native.requests import MEDIUM, QUEUE, VIA, Duration, Instant, checked_word, query_number, route
from penstock.faces.native.send import TAG
from penstock.faces.permission import Permission, actor_of
from penstock.faces.pieces import OF_ARROW, JsonPage, in_pieces
from penstock.faces.refusals import NO_SUCH_QUEUE
from penstock.model import Found, Message, MessageState, PeekAfter, Scan
from penstock.pending import Pending, chained

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class ClaimRequest(Struct, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=limits.BULK_LIMIT, description="at most this many messages")] = 1
    hold_ms: Annotated[
        Duration | None, Meta(description="how long to hold them; by default the queue's `visibility_ms`")
    ] = None
    wait_ms: Annotated[int, Meta(ge=0, le=limits.WAIT_MS, description="how long to wait for the first one")] = 0
    attempt: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.ATTEMPT_LENGTH)] | None,
        Meta(
            description="the caller's own name for this claim, in printable characters: repeated with it within five "
            "minutes, it gets the same messages again, as long as it still holds all of them"
        ),
    ] = None


class PurgeRequest(Struct, forbid_unknown_fields=True):
    older_than_ms: Annotated[Duration | None, Meta(description="only messages that were sent longer ago")] = None


# A message has one of the two bodies. That is said in words: as alternatives in the schema it makes two classes of one
# message in the clients that are generated from it.
class MessageView(Struct, gc=False):
    id: str
    queue: str
    content_type: str | None
    attributes: dict[str, str]
    sent_at: Instant
    ready_at: Annotated[
        int,
        Meta(
            ge=0,
            description="the end of its claim or delay; 0 when it is ready, also behind another of its group",
            extra_json_schema={"format": "int64"},
        ),
    ]
    receives: Annotated[int, Meta(ge=0, description="how often it has been handed out")]
    came_from: Annotated[
        str | None, Meta(description="of a dead letter: the queue in which it could not be dealt with")
    ]
    group: Annotated[str | None, Meta(description="to which others it belongs")]
    first_claimed_at: Annotated[Instant | None, Meta(description="when it was first claimed in this queue")]
    body: Annotated[
        str | UnsetType, Meta(description="the bytes, where they are UTF-8; an empty message has an empty one")
    ] = UNSET
    body_base64: Annotated[
        str | UnsetType,
        Meta(
            description="the bytes, where they are not UTF-8; then there is no `body`",
            extra_json_schema={"contentEncoding": "base64"},
        ),
    ] = UNSET


class ClaimedMessage(MessageView, gc=False, kw_only=True):
    receipt: Annotated[str, Meta(description="for ack, renew and release")]


class PeekedMessage(MessageView, gc=False, kw_only=True):
    behind: Annotated[
        bool, Meta(description="others of its group are before it, and it can only be claimed after or with them")
    ]


class LookedAtMessage(PeekedMessage, gc=False, kw_only=True):
    state: Annotated[MessageState, Meta(description="one behind another of its group counts as ready")]
    shipped: Annotated[bool, Meta(description="it is in a shipment, which alone may end its claim")]
    claim: Annotated[int, Meta(ge=0, description="the number of its latest claim, as in a receipt; 0 before the first")]
    last_claimed_at: Annotated[Instant | None, Meta(description="when it was last claimed in this queue")]


class ClaimedMessages(Struct):
    messages: list[ClaimedMessage]


class MessagePage(Struct):
    messages: list[PeekedMessage]
    after: Annotated[str | None, Meta(description="the cursor of this page")]


class FilteredPage(Struct):
    messages: list[LookedAtMessage]
    examined: Annotated[int, Meta(ge=0, description="how many messages were looked at")]
    after: Annotated[str | None, Meta(description="where to go on; null past the end of the queue")]


class PurgeCount(Struct):
    purged: Annotated[int, Meta(ge=0)]


_read_claim = decoder(ClaimRequest)
_read_purge = decoder(PurgeRequest)

EXAMPLE_RECEIPT = f"{EXAMPLE_ID}.1"
MESSAGE_EXAMPLE = {
    "id": EXAMPLE_ID,
    "queue": "orders",
    "content_type": "text/plain",
    "attributes": {"kind": "test"},
    "sent_at": 1_760_000_000_000,
    "ready_at": 1_760_000_030_000,
    "receives": 1,
    "came_from": None,
    "group": "customer-7",
    "first_claimed_at": 1_760_000_000_000,
    "body": "one",
}
LOOKED_AT_EXAMPLE = {
    **MESSAGE_EXAMPLE,
    "behind": False,
    "state": "claimed",
    "shipped": False,
    "claim": 1,
    "last_claimed_at": 1_760_000_000_000,
}
_LIMIT = NumberParam("limit", 1, limits.BULK_LIMIT, "At most this many.", default=10)
_AFTER = Param("after", text(pattern="^[0-9]{1,18}-[0-9]{1,18}$"), "The cursor of the page before.")

_PEEK = Op(
    id="peek",
    tag=TAG,
    summary="Look at messages",
    description="In any state; it changes nothing. Ready ones come by age, then the others by when they become ready, "
    "then by age those that are behind others of their group. A page holds about 16 MiB of bodies and attributes at "
    "most. With a filter, only messages are shown for which all of it holds, with their states: one request looks at "
    "10,000 messages at most, says at how many it did, and where to go on.",
    parameters=(QUEUE, _LIMIT, _AFTER, *FILTER),
    answers={
        200: also(
            answer(
                "A page of messages.",
                (MessagePage, FilteredPage),
                {"messages": [{**MESSAGE_EXAMPLE, "behind": False}], "after": "1760000030000-1"},
                headers=NEXT_PAGE,
            ),
            ARROW_MEDIA,
            ARROW_STREAM,
        ),
        404: NO_SUCH_QUEUE,
    },
)
_CLAIM = Op(
    id="claim",
    tag=TAG,
    summary="Claim messages",
    description="Takes ready messages, oldest first, and hides them from everybody else. It stops at about 16 MiB of "
    "bodies and attributes, and never waits for more once it has one.",
    parameters=(QUEUE,),
    body=body(
        ClaimRequest,
        {"limit": 10, "hold_ms": 60_000},
        required=False,
        repeatable={"limit": 10, "wait_ms": 20_000, "attempt": "worker-7/1"},
    ),
    answers={
        200: also(
            answer(
                "The messages, perhaps none.",
                ClaimedMessages,
                {"messages": [{**MESSAGE_EXAMPLE, "receipt": EXAMPLE_RECEIPT}]},
            ),
            ARROW_MEDIA,
            ARROW_STREAM,
        ),
        404: NO_SUCH_QUEUE,
    },
)


_PURGE = Op(
    id="purge",
    tag=TAG,
    summary="Remove all messages, or the old ones",
    description="Every message that is in the queue when the purge begins, claimed ones too; with `older_than_ms` only "
    "those that were sent longer ago than that.",
    parameters=(QUEUE,),
    body=body(PurgeRequest, {}, required=False, old={"older_than_ms": 86_400_000}),
    answers={200: answer("How many there were.", PurgeCount, {"purged": 3}), 404: NO_SUCH_QUEUE},
)


def message_routes(broker: Broker) -> list[Route]:
    face = _Messages(broker)
    queue, poll = "/v1/queues/{queue}", Permission("poll")
    return [
        route("GET", f"{queue}/messages", face.peek, _PEEK, poll, head=True),
        route("POST", f"{queue}/claim", face.claim, _CLAIM, poll, MEDIUM),
        route("POST", f"{queue}/purge", face.purge, _PURGE, poll, MEDIUM),
    ]


class _Messages:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def claim(self, request: Request) -> Pending[Response]:
        [queue] = request.params
        asked = _read_claim(request.body)
        in_arrow = wants_arrow(request)
        attempt = asked.attempt
        if attempt is not None:
            checked_word("attempt", attempt, limits.ATTEMPT_LENGTH)
        request.waits = asked.wait_ms > 0
        claimed = self._broker.claim(queue, asked.limit, asked.hold_ms, asked.wait_ms, attempt)
        if asked.limit > pieces.ROWS:
            return chained(claimed, _much_claimed_in_arrow if in_arrow else _much_claimed)
        return claimed.map(_claimed_in_arrow if in_arrow else _claimed)

    def purge(self, request: Request) -> Pending[Response]:
        [queue] = request.params
        older_than_ms = _read_purge(request.body).older_than_ms
        if older_than_ms is None:
            return self._broker.purge(queue, actor_of(request, VIA)).map(_purged)
        return self._broker.purge_older(queue, older_than_ms, actor_of(request, VIA)).map(_purged)

    def peek(self, request: Request) -> Pending[Response]:
        [queue] = request.params
        limit = query_number(request, _LIMIT)
        after = cursor_of(request.query_params().get(_AFTER.name))
        asked = query_filter(request)
        if asked is not None:
            selection, ages = selection_of(asked), ages_of(asked)
            scanned = self._broker.scan(queue, selection, limit, ages, after)
            return chained(scanned, _scanned_in_arrow if wants_arrow(request) else _scanned)
        peeked = self._broker.peek(queue, limit, after)
        return chained(peeked, _peeked_in_arrow if wants_arrow(request) else _peeked)


def cursor_of(text: str | None) -> PeekAfter | None:
    if text is None:
        return None
    ready_at, _, seq = text.partition("-")
    if not (is_number(ready_at) and is_number(seq)):
        raise InvalidRequest("after is not a cursor of an earlier peek")
    return PeekAfter(int(ready_at), int(seq))


def body_texts(body: bytes) -> tuple[str | UnsetType, str | UnsetType]:
    """A body in JSON: as text where it is UTF-8, else in base64."""
    try:
        return body.decode(), UNSET
    except UnicodeDecodeError:
        return UNSET, base64.b64encode(body).decode()


_Told: TypeAlias = tuple[
    str,
    str,
    str | None,
    dict[str, str],
    int,
    int,
    int,
    str | None,
    str | None,
    int | None,
    str | UnsetType,
    str | UnsetType,
]


def _told(message: Message, ready_at: int) -> _Told:
    """What every view of a message begins with, in the order of its fields."""
    return (
        message.id,
        message.queue,
        message.content_type,
        message.attributes or {},
        message.sent_at,
        ready_at,
        message.receives,
        message.came_from,
        message.group,
        message.first_claimed_at,
        *body_texts(message.body),
    )


def message_view(message: Message) -> MessageView:
    return MessageView(*_told(message, message.ready_at))


def _peeked_view(message: Message) -> PeekedMessage:
    return PeekedMessage(*_told(message, _ready_at(message)), behind=message.ready_at == limits.BEHIND)


def looked_at_view(found: Found) -> LookedAtMessage:
    message = found.message
    return LookedAtMessage(
        *_told(message, _ready_at(message)),
        behind=message.ready_at == limits.BEHIND,
        state=found.state,
        shipped=found.shipped,
        claim=message.claim,
        last_claimed_at=found.last_claimed_at,
    )


def _claimed_view(message: Message) -> ClaimedMessage:
    """Written out once more: a claim makes thousands of them, and each call counts."""
    text, in_base64 = body_texts(message.body)
    return ClaimedMessage(
        message.id,
        message.queue,
        message.content_type,
        message.attributes or {},
        message.sent_at,
        message.ready_at,
        message.receives,
        message.came_from,
        message.group,
        message.first_claimed_at,
        text,
        in_base64,
        receipt=_receipt(message),
    )


def _ready_at(message: Message) -> int:
    """A message behind another of its group has no instant of its own. It counts as ready, since a claim may take it
    together with those before it."""
    return 0 if message.ready_at == limits.BEHIND else message.ready_at


def messages_in_json(
    messages: Sequence[Message], view: Callable[[Message], MessageView], others: Mapping[str, object] | None = None
) -> Pending[Response]:
    """A page with whatever else it tells."""

    page = JsonPage("messages", others or {})
    return in_pieces(messages, lambda some: page.add([view(message) for message in some]), page.response)


def messages_in_arrow(
    messages: Sequence[Message], claimed: bool = False, *headers: tuple[bytes, bytes]
) -> Pending[Response]:
    """`claimed` adds what the holder of a claim needs."""
    stream = ArrowStream(*headers)
    return in_pieces(messages, lambda some: stream.add(_columns(some, claimed)), stream.response, OF_ARROW)


def messages_in_one_batch(messages: Sequence[Message], claimed: bool = False) -> Response:
    """At once: where no one else waits."""
    stream = ArrowStream()
    stream.add(_columns(messages, claimed))
    return stream.response()


def _columns(messages: Sequence[Message], claimed: bool) -> dict[str, pa.Array]:
    """Of messages of one queue."""
    columns = {
        "id": texts([message.id for message in messages]),
        "body": binaries([message.body for message in messages]),
        "content_type": texts([message.content_type for message in messages]),
        "attributes": text_maps([message.attributes for message in messages]),
        "sent_at": instants([message.sent_at for message in messages]),
        "receives": integers([message.receives for message in messages], 32),
        "queue": repeated(messages[0].queue if messages else "", len(messages)),
        "ready_at": instants([0 if message.ready_at == limits.BEHIND else message.ready_at for message in messages]),
    }
    if claimed:
        columns["receipt"] = texts([_receipt(message) for message in messages])
    # At the end, as all columns that were not there from the beginning.
    columns["group"] = texts([message.group for message in messages])
    columns["first_claimed_at"] = instants([message.first_claimed_at for message in messages])
    return columns


def _receipt(message: Message) -> str:
    return f"{message.id}.{message.claim}"


def _claimed_in_arrow(messages: list[Message]) -> Response:
    return messages_in_one_batch(messages, claimed=True)


def _claimed(messages: list[Message]) -> Response:
    return json_response(200, ClaimedMessages([_claimed_view(message) for message in messages]))


def _much_claimed_in_arrow(messages: list[Message]) -> Pending[Response]:
    return messages_in_arrow(messages, claimed=True)


def _much_claimed(messages: list[Message]) -> Pending[Response]:
    return messages_in_json(messages, _claimed_view)


def _purged(purged: int) -> Response:
    return json_response(200, PurgeCount(purged))


def _peeked(messages: list[Message]) -> Pending[Response]:
    return messages_in_json(messages, _peeked_view, {"after": _after(messages)})


def _peeked_in_arrow(messages: list[Message]) -> Pending[Response]:
    after = _after(messages)
    return messages_in_arrow(messages, False, *[(AFTER, after.encode())] if after else [])


def _scanned(scan: Scan) -> Pending[Response]:
    found = {one.message.seq: one for one in scan.messages}
    others = {"examined": scan.examined, "after": _cursor_text(scan.after)}
    return messages_in_json(
        [one.message for one in scan.messages], lambda message: looked_at_view(found[message.seq]), others
    )


def _scanned_in_arrow(scan: Scan) -> Pending[Response]:
    after = _cursor_text(scan.after)
    return messages_in_arrow(
        [found.message for found in scan.messages], False, *[(AFTER, after.encode())] if after else []
    )


def _cursor_text(after: PeekAfter | None) -> str | None:
    return None if after is None else f"{after.ready_at}-{after.seq}"


def _after(messages: list[Message]) -> str | None:
    return f"{messages[-1].ready_at}-{messages[-1].seq}" if messages else None
