"""The ledger: what became of a message, the latest rows, and the latest failures by what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock import ids
from penstock.edge.http import Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest, MessageNotFound
from penstock.faces.console.bodies import view
from penstock.faces.console.console import Console
from penstock.faces.console.downloads import as_download
from penstock.faces.console.forms import Form
from penstock.faces.console.gate import Needs, On
from penstock.faces.console.messages import messages_path
from penstock.faces.console.rendering import query
from penstock.faces.console.spans import place, read_name, read_span
from penstock.faces.console.visit import Visit, route
from penstock.faces.native.ledger import OUTCOME_WORDS
from penstock.limits import BEHIND
from penstock.model import Found, LedgerFilter, LedgerRow, LedgerScan, Outcome, Queue, Receipt
from penstock.pending import Pending, chained, resolved

PAGE: Final = "/console/ledger"
FAILURES: Final = f"{PAGE}/failures"
_ONE: Final = f"{PAGE}/rows/{{number}}"
_FIELDS: Final = ("queue", "outcome", "since", "until", "by")
_ROWS: Final = 50
_ROWS_OF_ONE: Final = 200
# A look at failures ends with this many of them, and with as many rows as the broker looks at in one go.
_FAILURES: Final = 2_000
_GROUPS: Final = 100
_BOTH: Final = "failures"
_OUTCOMES: Final = {word: (outcome,) for outcome, word in OUTCOME_WORDS.items()}
_WANTED: Final[dict[str, tuple[Outcome, ...]]] = {_BOTH: (Outcome.FAILED, Outcome.DEAD_LETTERED), **_OUTCOMES}

# What rows of one queue with one outcome may share, by its name in the query.
_SHARED: Final[dict[str, Callable[[LedgerRow], tuple[Any, ...]]]] = {
    "kind": lambda row: (row.content_type, row.receives),
    "body": lambda row: (row.content_type, row.body_hash),
    "type": lambda row: (row.content_type,),
    "receives": lambda row: (row.receives,),
    "queue": lambda _row: (),
}
_BY: Final = (
    ("kind", "content type and receives"),
    ("body", "body"),
    ("type", "content type"),
    ("receives", "receives"),
    ("queue", "queue alone"),
)


def ledger_page_routes(console: Console) -> list[Route]:
    pages = _LedgerPages(console)
    # As the native API has it: the ledger is that of all queues.
    poll = Needs("poll", On.EVERY_QUEUE)
    return [
        route(console, "GET", PAGE, pages.look, poll),
        route(console, "GET", FAILURES, pages.failures, poll),
        route(console, "GET", _ONE, pages.row, poll),
        route(console, "GET", f"{_ONE}/body", pages.body, poll),
    ]


class _LedgerQuery:
    """What a page is asked for. Where something is wrong with it, `form` says what."""

    def __init__(self, visit: Visit, default: str = "") -> None:
        asked = visit.query
        self.given = {name: asked[name] for name in _FIELDS if asked.get(name, "").strip()}
        self.form = form = Form({name: [value] for name, value in asked.items()})
        since, until = read_span(form, visit.now)
        self.wanted = LedgerFilter(read_name(form, "queue"), None, since, until)
        word = self.given.get("outcome", default)
        self.outcomes = _WANTED.get(word)
        if word and self.outcomes is None:
            form.refuse("outcome", f"this is one of {', '.join(_WANTED)}")
        self.below = place(asked.get("below"))


@dataclass(slots=True)
class FailureGroup:
    """Rows that have something in common. `latest` is the newest of them, `first_at` when the oldest was finished."""

    latest: LedgerRow
    first_at: int
    count: int = 0
    dead_letters: str | None = None


class _LedgerPages:
    def __init__(self, console: Console) -> None:
        self._broker = console.broker

    def look(self, visit: Visit) -> Pending[Response]:
        if visit.query.get("id", "").strip():
            return self._story(visit)
        asked = _LedgerQuery(visit)
        if asked.form.errors:
            return resolved(self._rows_page(visit, asked, LedgerScan([], 0, None), 422))
        found = self._broker.ledger.latest(_ROWS, asked.wanted, asked.outcomes, asked.below)
        return found.map(lambda scan: self._rows_page(visit, asked, scan))

    def _rows_page(self, visit: Visit, asked: _LedgerQuery, scan: LedgerScan, status: int = 200) -> Response:
        return visit.show("ledger.html", status=status, rows=scan.rows, **_told(asked, scan))

    def _story(self, visit: Visit) -> Pending[Response]:
        """What became of one message, and where it is now."""
        asked = _LedgerQuery(visit)
        message_id = asked.form.read("id", _checked_id)
        if message_id is None:
            return resolved(self._rows_page(visit, asked, LedgerScan([], 0, None), 422))

        def page(rows: list[LedgerRow], queue: str | None, found: Found | None) -> Response:
            return visit.show(
                "ledger_message.html",
                message_id=message_id,
                rows=rows[:_ROWS_OF_ONE],
                is_cut=len(rows) > _ROWS_OF_ONE,
                queue=queue,
                found=found,
                is_behind=found is not None and found.message.ready_at == BEHIND,
                path=None if queue is None else f"{messages_path(queue)}/{message_id}",
                form=asked.form,
            )

        def located(rows: list[LedgerRow], queue: str | None) -> Pending[Response]:
            if queue is None:
                return resolved(page(rows, None, None))
            # It may have gone on since it was located; then its page says where to.
            return self._broker.find_message(queue, message_id).map(lambda found: page(rows, queue, found))

        def known(rows: list[LedgerRow]) -> Pending[Response]:
            return chained(self._broker.locate([Receipt(message_id)]), lambda places: located(rows, places[0]))

        return chained(self._broker.ledger.rows(0, _ROWS_OF_ONE + 1, LedgerFilter(id=message_id)), known)

    def failures(self, visit: Visit) -> Pending[Response]:
        asked = _LedgerQuery(visit, _BOTH)
        by = asked.given.get("by", _BY[0][0])
        if by not in _SHARED:
            asked.form.refuse("by", f"this is one of {', '.join(_SHARED)}")
        if asked.form.errors:
            return resolved(self._groups_page(visit, asked, by, LedgerScan([], 0, None), [], 422))

        def looked(scan: LedgerScan) -> Pending[Response]:
            groups = grouped(scan.rows, by)
            queues = sorted({one.latest.queue for one in groups if one.latest.outcome is Outcome.DEAD_LETTERED})

            def page(found: list[Queue | None]) -> Response:
                _lead_on(groups, found)
                return self._groups_page(visit, asked, by, scan, groups)

            return self._broker.find_queues(queues).map(page)

        found = self._broker.ledger.latest(_FAILURES, asked.wanted, asked.outcomes, asked.below)
        return chained(found, looked)

    def _groups_page(
        self,
        visit: Visit,
        asked: _LedgerQuery,
        by: str,
        scan: LedgerScan,
        groups: list[FailureGroup],
        status: int = 200,
    ) -> Response:
        return visit.show(
            "ledger_failures.html",
            status=status,
            groups=groups[:_GROUPS],
            further=groups[_GROUPS:],
            matched=len(scan.rows),
            by=by,
            ways=_BY,
            **_told(asked, scan),
        )

    def row(self, visit: Visit) -> Pending[Response]:
        def page(row: LedgerRow) -> Response:
            return visit.show(
                "ledger_row.html",
                row=row,
                path=f"{PAGE}/rows/{row.number}",
                body=None if row.body is None else view(row.body, row.content_type, visit.query.get("as", "")),
            )

        return self._one(visit).map(page)

    def body(self, visit: Visit) -> Pending[Response]:
        def file(row: LedgerRow) -> Response:
            if row.body is None:
                raise MessageNotFound(row.id)
            return as_download(row.id, row.body)

        return self._one(visit).map(file)

    def _one(self, visit: Visit) -> Pending[LedgerRow]:
        [text] = visit.params
        number = place(text)

        def found(rows: list[LedgerRow]) -> LedgerRow:
            if not rows or rows[0].number != number:
                raise MessageNotFound(f"row {text[:20]} of the ledger")
            return rows[0]

        if number is None:
            return resolved([]).map(found)
        return self._broker.ledger.rows(number - 1, 1).map(found)


def grouped(rows: Iterable[LedgerRow], by: str) -> list[FailureGroup]:
    """Rows that come the latest first, by queue, outcome and what else they share; the largest group first."""
    share = _SHARED[by]
    groups: dict[tuple[Any, ...], FailureGroup] = {}
    for row in rows:
        group = groups.setdefault((row.queue, row.outcome, *share(row)), FailureGroup(row, row.finished_at))
        group.count += 1
        # Rows stand in the order in which messages finished but for a little, where several servers write.
        group.first_at = min(group.first_at, row.finished_at)
    return sorted(groups.values(), key=lambda group: (-group.count, -group.latest.finished_at))


def _lead_on(groups: Iterable[FailureGroup], queues: Iterable[Queue | None]) -> None:
    """To where dead letters of these queues go now, with a filter for those of a group."""
    ways = {
        queue.name: queue.settings.redrive.dead_letter_queue
        for queue in queues
        if queue is not None and queue.settings.redrive is not None
    }
    for group in groups:
        row = group.latest
        if row.outcome is Outcome.DEAD_LETTERED and row.queue in ways:
            group.dead_letters = messages_path(ways[row.queue]) + query({}, content_type=row.content_type)


def _told(asked: _LedgerQuery, scan: LedgerScan) -> dict[str, Any]:
    """What both tables have above them."""
    words: Sequence[tuple[str, str]] = [(word, word) for word in _OUTCOMES]
    return {
        "asked": asked,
        "form": asked.form,
        "examined": scan.examined,
        "going_on": None if scan.below is None else {**asked.given, "below": scan.below},
        "outcomes": [(_BOTH, "failed or dead-lettered"), *words],
    }


def _checked_id(text: str) -> str:
    try:
        return ids.canonical(text.strip())
    except ValueError as error:
        raise InvalidRequest(
            "this is not the id of a message: it has 36 characters, digits and the letters a to f"
        ) from error
