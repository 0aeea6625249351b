"""The ledger: what became of messages, page by page, or handed over in numbered exports.

One file because an export is pages of the ledger: both describe, choose and show the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest
from penstock.faces.answers import Error, json_response
from penstock.faces.bodies import decoder
from penstock.faces.description import EXAMPLE_ID, LARGEST, NumberParam, Op, Param, Tag, also, answer, body, text
from penstock.faces.native.arrow import (
    AFTER,
    ARROW_MEDIA,
    ARROW_STREAM,
    NEXT_PAGE,
    ArrowStream,
    binaries,
    instants,
    integers,
    texts,
    wants_arrow,
)
from penstock.faces.native.messages import body_texts
from penstock.faces.native.requests import (
    AFTER_NUMBER,
    CONSUMER,
    LIST_LIMIT,
    NUMBER,
    OF_CONSUMER,
    SMALL,
    Instant,
    consumer_and_number,
    query_consumer,
    query_number,
    route,
)
from penstock.faces.native.shipments import CONFLICT, ENDED
from penstock.faces.permission import Permission, Scope
from penstock.faces.pieces import OF_ARROW, JsonPage, in_pieces
from penstock.model import ClaimedExport, Export, ExportRef, LedgerFilter, LedgerRow, LedgerScan, Outcome
from penstock.pending import Pending, chained

if TYPE_CHECKING:
    import pyarrow as pa

OUTCOME_WORDS = {outcome: outcome.name.lower().replace("_", "-") for outcome in Outcome}


class ClaimExport(Struct, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=limits.EXPORT_ROWS, description="at most this many rows")] = 1_000_000


class SettleExport(Struct, forbid_unknown_fields=True):
    pass


class LedgerRowView(Struct):
    number: Annotated[int, Meta(ge=1, description="counts up without end, in the order in which messages left")]
    queue: str
    id: str
    sent_at: Instant
    first_claimed_at: Instant | None
    last_claimed_at: Instant | None
    finished_at: Instant
    receives: Annotated[int, Meta(ge=0)]
    outcome: Annotated[str, Meta(extra_json_schema={"enum": list(OUTCOME_WORDS.values())})]
    size: Annotated[int, Meta(ge=0, description="bytes of the body")]
    body_hash: Annotated[str, Meta(pattern="^[0-9a-f]*$", description="in hexadecimal digits")]
    content_type: str | None
    body: Annotated[str | UnsetType, Meta(description="where the queue's ledger keeps bodies and it is UTF-8")] = UNSET
    body_base64: Annotated[
        str | UnsetType,
        Meta(
            description="where the queue's ledger keeps bodies and it is not",
            extra_json_schema={"contentEncoding": "base64"},
        ),
    ] = UNSET


class LedgerPage(Struct):
    rows: list[LedgerRowView]
    after: Annotated[int, Meta(ge=1)] | None


class LatestPage(Struct):
    rows: list[LedgerRowView]
    examined: Annotated[int, Meta(ge=0, description="how many rows were looked at")]
    below: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="where to go on; null past the oldest row")]


class ExportList(Struct):
    exports: Sequence[Export]


class ExportPage(Struct):
    rows: list[LedgerRowView]


_read_claim = decoder(ClaimExport)
_read_settle = decoder(SettleExport)

_TAG = Tag(
    "native ledger",
    "What became of messages: a row for each that has left its queue. It is read page by page, or handed over to a "
    "named consumer in numbered exports that can be read again until they are settled.",
)
_ROW_EXAMPLE = {
    "number": 1,
    "queue": "orders",
    "id": EXAMPLE_ID,
    "sent_at": 1_760_000_000_000,
    "first_claimed_at": 1_760_000_001_000,
    "last_claimed_at": 1_760_000_001_000,
    "finished_at": 1_760_000_002_000,
    "receives": 1,
    "outcome": "processed",
    "size": 3,
    "body_hash": "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed",
    "content_type": None,
}
_EXAMPLE = {
    "consumer": "lake",
    "number": 1,
    "after": 0,
    "through": 1200,
    "rows": 1200,
    "claimed_at": 1_760_000_000_000,
    "settled_at": None,
}
_EXPORT = answer("The export.", Export, _EXAMPLE)
_UNKNOWN = answer(
    "That number never was or is no longer remembered.",
    Error,
    {"error": "'lake' never had number 7, or it is no longer remembered"},
)
_AFTER_ROW = NumberParam("after", 0, LARGEST, "Only rows with a higher number.", default=0)
_LIMIT = NumberParam("limit", 1, limits.BULK_LIMIT, "At most this many.", default=1_000)
_EXPORT_LIMIT = NumberParam("limit", 1, limits.BULK_LIMIT, "At most this many.", default=limits.BULK_LIMIT)
_QUEUE = Param("queue", text(), "Only rows of queues that had this name.")
_ID = Param("id", text(), "Only rows of this message.")
_SINCE = NumberParam("since", 0, LARGEST, "Only what finished at this instant or later.")
_BEFORE = NumberParam("before", 0, LARGEST, "Only what finished before this instant.")

_ORDER = Param(
    "order",
    text(enum=["oldest", "newest"]),
    "Which rows come first; with `newest`, a request looks at 10,000 rows at most, and says where to go on.",
    default="oldest",
)
_OUTCOME = Param(
    "outcome",
    text(),
    "Only rows with one of these outcomes, separated by commas; with `order=newest`.",
    example="dead-lettered,failed",
)
_BELOW = NumberParam("below", 1, LARGEST, "Only rows with a lower number; with `order=newest`.")

_PAGE = Op(
    id="readLedger",
    tag=_TAG,
    summary="Read the ledger",
    description="A page of rows. `after` of the answer, or the header `Penstock-After` with Arrow, is where the next "
    "one begins. A page ends early when the bodies in it come to 16 MiB.",
    parameters=(_AFTER_ROW, _LIMIT, _QUEUE, _ID, _SINCE, _BEFORE, _ORDER, _OUTCOME, _BELOW),
    answers={
        200: also(
            answer(
                "A page of rows.", (LedgerPage, LatestPage), {"rows": [_ROW_EXAMPLE], "after": 1}, headers=NEXT_PAGE
            ),
            ARROW_MEDIA,
            ARROW_STREAM,
        )
    },
)
_LIST = Op(
    id="listExports",
    tag=_TAG,
    summary="List exports",
    description="By consumer and number.",
    parameters=(OF_CONSUMER, AFTER_NUMBER, LIST_LIMIT),
    answers={200: answer("The exports.", ExportList, {"exports": [_EXAMPLE]})},
)
_CLAIM = Op(
    id="claimExport",
    tag=_TAG,
    summary="Claim an export",
    description="Takes the rows after those of the export before, under the next number. The same number again finds "
    "the same export.",
    parameters=(CONSUMER, NUMBER),
    body=body(ClaimExport, {"limit": 1_000_000}, required=False),
    answers={
        201: answer("A new export.", Export, _EXAMPLE),
        200: answer("It was there.", Export, _EXAMPLE),
        204: answer("There are no rows, and no export was made."),
        409: CONFLICT,
        410: ENDED,
    },
)
_SHOW = Op(
    id="showExport",
    tag=_TAG,
    summary="Show an export",
    description="Also one that is settled.",
    parameters=(CONSUMER, NUMBER),
    answers={200: _EXPORT, 404: _UNKNOWN},
)
_READ = Op(
    id="readExport",
    tag=_TAG,
    summary="Read an export",
    description="Rows after `after`, or from its first one. Past its end the page is empty.",
    parameters=(CONSUMER, NUMBER, _AFTER_ROW, _EXPORT_LIMIT),
    answers={
        200: also(answer("A page of rows.", ExportPage, {"rows": [_ROW_EXAMPLE]}), ARROW_MEDIA, ARROW_STREAM),
        404: _UNKNOWN,
        410: ENDED,
    },
)
_SETTLE = Op(
    id="settleExport",
    tag=_TAG,
    summary="Settle an export",
    description="The consumer has it: the next number can be claimed. Settling again is not an error.",
    parameters=(CONSUMER, NUMBER),
    body=body(SettleExport, {}, required=False),
    answers={200: _EXPORT, 404: _UNKNOWN},
)


def ledger_routes(broker: Broker) -> list[Route]:
    face = _Ledger(broker)
    every = Permission("poll", Scope.EVERY_QUEUE)
    one = "/v1/ledger/exports/{consumer}/{number}"
    return [
        route("GET", "/v1/ledger", face.page, _PAGE, every, head=True),
        route("GET", "/v1/ledger/exports", face.list, _LIST, every, head=True),
        route("PUT", one, face.claim, _CLAIM, every, SMALL),
        route("GET", one, face.show, _SHOW, every, head=True),
        route("GET", f"{one}/rows", face.read, _READ, every, head=True),
        route("POST", f"{one}/settle", face.settle, _SETTLE, every, SMALL),
    ]


class _Ledger:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def page(self, request: Request) -> Pending[Response]:
        after, limit = query_number(request, _AFTER_ROW), query_number(request, _LIMIT)
        wanted = _wanted(request)
        if _is_newest_first(request):
            below = query_number(request, _BELOW) if _BELOW.name in request.query_params() else None
            latest = self._broker.ledger.latest(limit, wanted or LedgerFilter(), _outcomes(request), below)
            return chained(latest, _latest_in_arrow if wants_arrow(request) else _latest)
        rows = self._broker.ledger.rows(after, limit, wanted)
        return chained(rows, _page_in_arrow if wants_arrow(request) else _page)

    def list(self, request: Request) -> Pending[Response]:
        consumer = query_consumer(request)
        after, limit = query_number(request, AFTER_NUMBER), query_number(request, LIST_LIMIT)
        return self._broker.exports.list(consumer, after, limit).map(
            lambda found: json_response(200, ExportList(found))
        )

    def claim(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        limit = _read_claim(request.body).limit
        return self._broker.exports.claim(ref, limit).map(_claimed)

    def show(self, request: Request) -> Pending[Response]:
        return self._broker.exports.find(_named(request)).map(_told)

    def read(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        after, limit = query_number(request, _AFTER_ROW), query_number(request, _EXPORT_LIMIT)
        rows = self._broker.exports.read(ref, after, limit)
        return chained(rows, _in_arrow if wants_arrow(request) else _rows)

    def settle(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        _read_settle(request.body)
        return self._broker.exports.settle(ref).map(_told)


def _wanted(request: Request) -> LedgerFilter | None:
    asked = request.query_params()
    if asked.keys().isdisjoint((_QUEUE.name, _ID.name, _SINCE.name, _BEFORE.name)):
        return None
    since = query_number(request, _SINCE) if _SINCE.name in asked else None
    before = query_number(request, _BEFORE) if _BEFORE.name in asked else None
    return LedgerFilter(asked.get(_QUEUE.name), asked.get(_ID.name), since, before)


def _is_newest_first(request: Request) -> bool:
    """Raises InvalidRequest where parameters of the one order come with the other."""
    asked = request.query_params()
    order = asked.get(_ORDER.name, _ORDER.default)
    if order not in ("oldest", "newest"):
        raise InvalidRequest("order is oldest or newest")
    for name in (_OUTCOME.name, _BELOW.name) if order == "oldest" else (_AFTER_ROW.name,):
        if name in asked:
            raise InvalidRequest(f"{name} does not go with order={order}")
    return order == "newest"


def _outcomes(request: Request) -> list[Outcome] | None:
    given = request.query_params().get(_OUTCOME.name)
    if given is None:
        return None
    words = {word: outcome for outcome, word in OUTCOME_WORDS.items()}
    unknown = [word for word in given.split(",") if word not in words]
    if unknown:
        raise InvalidRequest(f"{unknown[0][:80]!r} is not an outcome; they are {', '.join(words)}")
    return [words[word] for word in given.split(",")]


def _latest(scan: LedgerScan) -> Pending[Response]:
    return _in_json(scan.rows, {"examined": scan.examined, "below": scan.below})


def _latest_in_arrow(scan: LedgerScan) -> Pending[Response]:
    return _in_arrow(scan.rows, *[(AFTER, b"%d" % scan.below)] if scan.below is not None else [])


def _named(request: Request) -> ExportRef:
    return ExportRef(*consumer_and_number(*request.params))


def _claimed(claimed: ClaimedExport) -> Response:
    if claimed.export is None:
        return Response(204)
    return json_response(200 if claimed.repeated else 201, claimed.export)


def _told(export: Export) -> Response:
    return json_response(200, export)


def _page(rows: Sequence[LedgerRow]) -> Pending[Response]:
    return _in_json(rows, {"after": rows[-1].number if rows else None})


def _page_in_arrow(rows: Sequence[LedgerRow]) -> Pending[Response]:
    return _in_arrow(rows, *[(AFTER, b"%d" % rows[-1].number)] if rows else [])


def _rows(rows: Sequence[LedgerRow]) -> Pending[Response]:
    return _in_json(rows, {})


def _in_json(rows: Sequence[LedgerRow], others: dict[str, int | None]) -> Pending[Response]:
    """A page with whatever else it tells."""

    page = JsonPage("rows", others)
    return in_pieces(rows, lambda some: page.add([_view(row) for row in some]), page.response)


def _view(row: LedgerRow) -> LedgerRowView:
    return LedgerRowView(
        row.number,
        row.queue,
        row.id,
        row.sent_at,
        row.first_claimed_at,
        row.last_claimed_at,
        row.finished_at,
        row.receives,
        OUTCOME_WORDS[row.outcome],
        row.size,
        row.body_hash.hex(),
        row.content_type,
        *((UNSET, UNSET) if row.body is None else body_texts(row.body)),
    )


def _in_arrow(rows: Sequence[LedgerRow], *headers: tuple[bytes, bytes]) -> Pending[Response]:
    stream = ArrowStream(*headers)
    return in_pieces(rows, lambda some: stream.add(_columns(some)), stream.response, OF_ARROW)


def _columns(rows: Sequence[LedgerRow]) -> dict[str, pa.Array]:
    return {
        "number": integers([row.number for row in rows]),
        "queue": texts([row.queue for row in rows]),
        "id": texts([row.id for row in rows]),
        "sent_at": instants([row.sent_at for row in rows]),
        "first_claimed_at": instants([row.first_claimed_at for row in rows]),
        "last_claimed_at": instants([row.last_claimed_at for row in rows]),
        "finished_at": instants([row.finished_at for row in rows]),
        "receives": integers([row.receives for row in rows], 32),
        "outcome": texts([OUTCOME_WORDS[row.outcome] for row in rows]),
        "size": integers([row.size for row in rows]),
        "body_hash": binaries([row.body_hash for row in rows]),
        "content_type": texts([row.content_type for row in rows]),
        "body": binaries([row.body for row in rows]),
    }
