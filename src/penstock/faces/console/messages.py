"""Messages of a queue without consuming them: a table with a filter, and one message by itself."""

from __future__ import annotations

import re
from typing import Final

from penstock import ids
from penstock.edge.http import Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest, MessageNotFound
from penstock.faces.console.bodies import one_line, preview, view
from penstock.faces.console.console import Console
from penstock.faces.console.curl import curl_command, file_name, is_by_file
from penstock.faces.console.downloads import as_download
from penstock.faces.console.filters import STATES, MessageFilter
from penstock.faces.console.gate import Needs
from penstock.faces.console.rendering import segment
from penstock.faces.console.visit import Visit, route
from penstock.faces.native.messages import cursor_of
from penstock.limits import BEHIND
from penstock.model import (
    Found,
    LedgerFilter,
    LedgerRow,
    Message,
    PeekAfter,
    QueueReport,
    Receipt,
    Scan,
)
from penstock.pending import Pending, chained, rejected, resolved

PAGE: Final = "/console/queues/{queue}/messages"
_ROWS: Final = 50
_HISTORY_ROWS: Final = 100
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,300}")


def message_routes(console: Console) -> list[Route]:
    pages = _MessagePages(console)
    poll = Needs("poll")
    return [
        route(console, "GET", PAGE, pages.table, poll),
        route(console, "GET", f"{PAGE}/{{message}}", pages.show, poll),
        route(console, "GET", f"{PAGE}/{{message}}/body", pages.download, poll),
    ]


def messages_path(queue: str) -> str:
    return f"/console/queues/{segment(queue)}/messages"


def queue_crumbs(visit: Visit, queue: str, *further: tuple[str, str | None]) -> list[tuple[str, str | None]]:
    """From the queues to a page about one of them."""
    has_page = "/console/queues/{queue}" in visit.console.paths and visit.may("get_status", queue)
    own = f"/console/queues/{segment(queue)}" if has_page else None
    return [("Queues", "/console"), (queue, own or messages_path(queue)), *further]


def whole_id(text: str) -> str:
    """Raises MessageNotFound for what cannot be the id of a message."""
    try:
        return ids.canonical(text)
    except ValueError as error:
        raise MessageNotFound(text[:80]) from error


def may_somewhere(visit: Visit, action: str) -> bool:
    """Whether there may be a queue on which the visitor may do this."""
    rules = visit.visitor.rules
    return rules is None or any(rule.split("|")[1] in (action, "*") for rule in rules)


class _MessagePages:
    def __init__(self, console: Console) -> None:
        self._broker = console.broker

    def table(self, visit: Visit) -> Pending[Response]:
        [queue] = visit.params
        asked = MessageFilter(visit.query)
        after = _cursor(visit)

        def look(report: QueueReport) -> Pending[Response]:
            if asked.is_wrong:
                return resolved(self._table_page(visit, asked, report, Scan([], 0, None), 422))
            found = self._broker.scan(queue, asked.selection, _ROWS, asked.ages, after)
            return found.map(lambda scan: self._table_page(visit, asked, report, scan))

        return chained(self._broker.describe_queue(queue), look)

    def _table_page(
        self, visit: Visit, asked: MessageFilter, report: QueueReport, scan: Scan, status: int = 200
    ) -> Response:
        [queue] = visit.params
        # What earlier pages have seen comes with the link that goes on.
        looked = _figure(visit, "looked") + scan.examined
        matched = _figure(visit, "matched") + len(scan.messages)
        going_on = None
        if scan.after is not None:
            cursor = f"{scan.after.ready_at}-{scan.after.seq}"
            going_on = {**asked.given, "after": cursor, "looked": looked, "matched": matched}
        return visit.show(
            "messages.html",
            status=status,
            queue=queue,
            crumbs=queue_crumbs(visit, queue, ("Messages", None)),
            path=messages_path(queue),
            asked=asked,
            form=asked.form,
            states=STATES,
            report=report,
            lines=[_line(found) for found in scan.messages],
            looked=min(looked, report.count.total),
            matched=matched,
            going_on=going_on,
            began="after" not in visit.query,
            may_send=visit.may("post", queue) and f"{PAGE.removesuffix('messages')}send" in visit.console.paths,
            may_move=may_somewhere(visit, "post"),
        )

    def show(self, visit: Visit) -> Pending[Response]:
        """A message that is gone has a page too, as long as the ledger remembers it."""
        queue, message_id = visit.params[0], whole_id(visit.params[1])

        def found(message: Found | None) -> Pending[Response]:
            def known(rows: list[LedgerRow]) -> Pending[Response]:
                return self._gone(visit, message_id, rows) if message is None else self._one(visit, message, rows)

            return chained(self._history(visit, message_id), known)

        return chained(self._broker.find_message(queue, message_id), found)

    def _history(self, visit: Visit, message_id: str) -> Pending[list[LedgerRow]]:
        """Of the queues that the visitor may look into."""
        wanted = LedgerFilter(id=message_id)
        rows = self._broker.ledger.rows(0, _HISTORY_ROWS, wanted)
        return rows.map(lambda found: [row for row in found if visit.may("poll", row.queue)])

    def _one(self, visit: Visit, found: Found, rows: list[LedgerRow]) -> Pending[Response]:
        message, queue = found.message, visit.params[0]
        command = curl_command(message, _address(visit), visit.console.keyring.asks_for_keys)
        page = visit.show(
            "message.html",
            queue=queue,
            crumbs=queue_crumbs(visit, queue, ("Messages", messages_path(queue)), (message.id, None)),
            path=f"{messages_path(queue)}/{message.id}",
            found=found,
            message=message,
            is_behind=message.ready_at == BEHIND,
            attributes=_attributes(message),
            body=view(message.body, message.content_type, visit.query.get("as", "")),
            rows=rows,
            command=command,
            by_file=None if command is None or not is_by_file(command) else file_name(message.id),
            list_path=messages_path(queue),
            may_move=may_somewhere(visit, "post"),
        )
        return resolved(page)

    def _gone(self, visit: Visit, message_id: str, rows: list[LedgerRow]) -> Pending[Response]:
        """It may have moved on: then its page is there."""

        def page(places: list[str | None]) -> Response:
            queue, [elsewhere] = visit.params[0], places
            seen = elsewhere if elsewhere is not None and visit.may("poll", elsewhere) else None
            if not rows and seen is None:
                raise MessageNotFound(message_id)
            kept = next((row for row in reversed(rows) if row.body is not None), None)
            return visit.show(
                "message_gone.html",
                queue=queue,
                crumbs=queue_crumbs(visit, queue, ("Messages", messages_path(queue)), (message_id, None)),
                path=f"{messages_path(queue)}/{message_id}",
                message_id=message_id,
                elsewhere=seen,
                elsewhere_path=None if seen is None else f"{messages_path(seen)}/{message_id}",
                rows=rows,
                body=None
                if kept is None or kept.body is None
                else view(kept.body, kept.content_type, visit.query.get("as", "")),
            )

        return self._broker.locate([Receipt(message_id)]).map(page)

    def download(self, visit: Visit) -> Pending[Response]:
        queue, message_id = visit.params[0], whole_id(visit.params[1])

        def from_ledger(rows: list[LedgerRow]) -> Pending[Response]:
            kept = next((row.body for row in reversed(rows) if row.body is not None), None)
            return rejected(MessageNotFound(message_id)) if kept is None else resolved(as_download(message_id, kept))

        def found(message: Found | None) -> Pending[Response]:
            if message is not None:
                return resolved(as_download(message_id, message.message.body))
            return chained(self._history(visit, message_id), from_ledger)

        return chained(self._broker.find_message(queue, message_id), found)


def _address(visit: Visit) -> str:
    """Of this server, as the visitor has called it."""
    host = visit.request.headers.get(b"host", b"").decode("latin-1")
    scheme = "https" if visit.console.by_tls or visit.visitor.session.secure else "http"
    return f"{scheme}://{host if _HOST.fullmatch(host) else 'localhost:8080'}"


def _line(found: Found) -> dict[str, object]:
    message = found.message
    return {
        "found": found,
        "message": message,
        "is_behind": message.ready_at == BEHIND,
        "size": len(message.body),
        "preview": preview(message.body),
    }


def _attributes(message: Message) -> list[tuple[str, str]]:
    return [(one_line(name), one_line(value)) for name, value in (message.attributes or {}).items()]


def _cursor(visit: Visit) -> PeekAfter | None:
    """Where to go on. What cannot be a cursor is passed over: a link may be older than the page."""
    try:
        return cursor_of(visit.query.get("after"))
    except InvalidRequest:
        return None


def _figure(visit: Visit, name: str) -> int:
    given = visit.query.get(name, "")
    return int(given) if given.isascii() and given.isdecimal() and len(given) <= 15 else 0
