"""The ledger: what became of messages, page by page, or handed over in numbered exports."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock import limits
from penstock.broker import Broker
from penstock.edge.http import Request, Response
from penstock.edge.router import BodyRule, Route
from penstock.faces.answers import json_response
from penstock.faces.native.arrow import AFTER, ledger_response, wants_arrow
from penstock.faces.native.bodies import shown_body
from penstock.faces.native.outcomes import outcome_word
from penstock.faces.native.requests import answered, consumer_and_number, decoder, query_consumer, query_number, within
from penstock.faces.permission import Permission, Scope
from penstock.model import ClaimedExport, Export, ExportRef, LedgerFilter, LedgerRow
from penstock.pending import Pending

_BODY = BodyRule(64 * 1024)
FILTERS = ("queue", "id", "since", "before")


class ClaimExport(Struct, forbid_unknown_fields=True):
    limit: int = 1_000_000


class SettleExport(Struct, forbid_unknown_fields=True):
    pass


_read_claim = decoder(ClaimExport)
_read_settle = decoder(SettleExport)


def ledger_routes(broker: Broker) -> list[Route]:
    face = _Ledger(broker)
    every = Permission("poll", Scope.EVERY_QUEUE)
    one = "/v1/ledger/exports/{consumer}/{number}"
    return [
        Route("GET", "/v1/ledger", answered(face.page, "after", "limit", *FILTERS), head=True, permission=every),
        Route(
            "GET", "/v1/ledger/exports", answered(face.list, "consumer", "after", "limit"), head=True, permission=every
        ),
        Route("PUT", one, answered(face.claim), _BODY, permission=every),
        Route("GET", one, answered(face.show), head=True, permission=every),
        Route("GET", f"{one}/rows", answered(face.read, "after", "limit"), head=True, permission=every),
        Route("POST", f"{one}/settle", answered(face.settle), _BODY, permission=every),
    ]


class _Ledger:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def page(self, request: Request) -> Pending[Response]:
        after = query_number(request, "after", 0, 0, 2**62)
        limit = query_number(request, "limit", 1_000, 1, limits.BULK_LIMIT)
        wanted = _wanted(request)
        return self._broker.ledger.rows(after, limit, wanted).map(_page_in_arrow if wants_arrow(request) else _page)

    def list(self, request: Request) -> Pending[Response]:
        consumer = query_consumer(request)
        after = query_number(request, "after", 0, 0, 2**53)
        limit = query_number(request, "limit", 1_000, 1, limits.LIST_LIMIT)
        return self._broker.exports.list(consumer, after, limit).map(
            lambda found: json_response(200, {"exports": found})
        )

    def claim(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        limit = within("limit", _read_claim(request.body).limit, 1, limits.EXPORT_ROWS)
        return self._broker.exports.claim(ref, limit).map(_claimed)

    def show(self, request: Request) -> Pending[Response]:
        return self._broker.exports.find(_named(request)).map(_told)

    def read(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        after = query_number(request, "after", 0, 0, 2**62)
        limit = query_number(request, "limit", limits.BULK_LIMIT, 1, limits.BULK_LIMIT)
        return self._broker.exports.read(ref, after, limit).map(ledger_response if wants_arrow(request) else _rows)

    def settle(self, request: Request) -> Pending[Response]:
        ref = _named(request)
        _read_settle(request.body)
        return self._broker.exports.settle(ref).map(_told)


def _wanted(request: Request) -> LedgerFilter | None:
    asked = request.query_params()
    if asked.keys().isdisjoint(FILTERS):
        return None
    since = query_number(request, "since", 0, 0, 2**62) if "since" in asked else None
    before = query_number(request, "before", 0, 0, 2**62) if "before" in asked else None
    return LedgerFilter(asked.get("queue"), asked.get("id"), since, before)


def _named(request: Request) -> ExportRef:
    return ExportRef(*consumer_and_number(*request.params))


def _claimed(claimed: ClaimedExport) -> Response:
    if claimed.export is None:
        return Response(204)
    return json_response(200 if claimed.repeated else 201, claimed.export)


def _told(export: Export) -> Response:
    return json_response(200, export)


def _page(rows: Sequence[LedgerRow]) -> Response:
    after = rows[-1].number if rows else None
    return json_response(200, {"rows": [_shown(row) for row in rows], "after": after})


def _page_in_arrow(rows: Sequence[LedgerRow]) -> Response:
    return ledger_response(rows, *[(AFTER, b"%d" % rows[-1].number)] if rows else [])


def _rows(rows: Sequence[LedgerRow]) -> Response:
    return json_response(200, {"rows": [_shown(row) for row in rows]})


def _shown(row: LedgerRow) -> dict[str, object]:
    return {
        "number": row.number,
        "queue": row.queue,
        "id": row.id,
        "sent_at": row.sent_at,
        "first_claimed_at": row.first_claimed_at,
        "last_claimed_at": row.last_claimed_at,
        "finished_at": row.finished_at,
        "receives": row.receives,
        "outcome": outcome_word(row.outcome),
        "size": row.size,
        "body_hash": row.body_hash.hex(),
        "content_type": row.content_type,
        **({} if row.body is None else shown_body(row.body)),
    }
