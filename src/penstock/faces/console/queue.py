"""One queue: what is in it, what has happened there, who works on it, and what can be done to the whole of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.durations import duration_within
from penstock.edge.http import Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest, QueueNotFound
from penstock.faces.answers import encode_json
from penstock.faces.bodies import decoder
from penstock.faces.console.console import Console
from penstock.faces.console.gate import HOME, Needs
from penstock.faces.console.queue_settings import place_of, written
from penstock.faces.console.visit import Visit, route
from penstock.faces.native.messages import PurgeRequest
from penstock.limits import DURATION_MS
from penstock.model import History, Queue, QueueReport, Span, Workers
from penstock.pending import Pending, gather

# Of the queues whose dead letters come here, those that are named.
_SOURCES: Final = 100
# A bucket that has just begun says little of what happens in a second.
_LEAST_BUCKET_MS: Final = 5_000
_read_purge = decoder(PurgeRequest)
Series = Sequence[float | None]


def queue_routes(console: Console) -> list[Route]:
    pages = _QueuePages(console)
    one = "/console/queues/{queue}"
    status, admin, poll = Needs("get_status"), Needs("admin"), Needs("poll")
    return [
        route(console, "GET", one, pages.show, status),
        route(console, "GET", f"{one}/charts/{{chart}}", pages.chart, status),
        route(console, "POST", f"{one}/pause", pages.pause, admin),
        route(console, "POST", f"{one}/resume", pages.resume, admin),
        route(console, "POST", f"{one}/release", pages.release, poll),
        route(console, "GET", f"{one}/purge", pages.ask_purge, poll),
        route(console, "POST", f"{one}/purge", pages.purge, poll),
        route(console, "GET", f"{one}/delete", pages.ask_delete, admin),
        route(console, "POST", f"{one}/delete", pages.delete, admin),
    ]


class _QueuePages:
    def __init__(self, console: Console) -> None:
        self._broker = console.broker
        self._console = console

    def show(self, visit: Visit) -> Pending[Response]:
        """The whole page, or one of the two parts of it that are alive: what stands above the charts, or below."""
        part = visit.query.get("part") if visit.is_fragment else None
        if part == "state":
            return gather(self._state(visit)).map(
                lambda found: visit.show("queue_state.html", **self._state_values(visit, *found))
            )
        if part == "rest":
            return gather(self._rest(visit)).map(
                lambda found: visit.show("queue_rest.html", **self._rest_values(visit, *found))
            )
        span = _span(visit)

        def page(found: list[Any]) -> Response:
            values = self._state_values(visit, *found[:2]) | self._rest_values(visit, *found[2:])
            return visit.show("queue.html", span=span.value, **values)

        return gather([*self._state(visit), *self._rest(visit)]).map(page)

    def _state(self, visit: Visit) -> list[Pending[Any]]:
        [name] = visit.params
        return [self._broker.describe_queue(name, tally=True), self._broker.history(name, Span.HOUR)]

    def _state_values(self, visit: Visit, report: QueueReport, history: History) -> dict[str, Any]:
        oldest = report.count.oldest_ready_sent_at
        return {
            "queue": report.queue,
            "place": place_of(report.queue.name),
            "count": report.count,
            "tally": report.tally,
            "oldest_ms": None if oldest is None else max(0, report.counted_at - oldest),
            "sent": sum(history.sent),
            "acked": sum(history.acked),
            "dead_lettered": sum(history.dead_lettered),
            "links": self._links(visit, report.queue.name),
        }

    def _links(self, visit: Visit, name: str) -> list[tuple[str, str]]:
        """Pages about this queue that are served and that the visitor may see."""
        place, encoded = place_of(name), place_of(name).rpartition("/")[2]
        offered = (
            ("Messages", "/console/queues/{queue}/messages", f"{place}/messages", visit.may("poll", name)),
            ("Send", "/console/queues/{queue}/send", f"{place}/send", visit.may("post", name)),
            ("Ledger", "/console/ledger", f"/console/ledger?queue={encoded}", visit.may("poll")),
            ("Tasks", "/console/tasks", f"/console/tasks?queue={encoded}", visit.may("get_status", name)),
            ("Actions", "/console/actions", f"/console/actions?queue={encoded}", visit.may("admin")),
            ("Settings", "/console/queues/{queue}/settings", f"{place}/settings", visit.may("admin", name)),
        )
        return [(label, path) for label, page, path, may in offered if may and page in self._console.paths]

    def _rest(self, visit: Visit) -> list[Pending[Any]]:
        [name] = visit.params
        return [
            self._broker.find_queues([name]),
            self._broker.workers_of(name),
            self._broker.dead_letter_sources(name, "", _SOURCES),
        ]

    def _rest_values(
        self, visit: Visit, found: list[Queue | None], workers: Workers, sources: list[Queue]
    ) -> dict[str, Any]:
        [queue] = found
        if queue is None:
            raise QueueNotFound(visit.params[0])
        return {
            "queue": queue,
            "place": place_of(queue.name),
            "workers": workers,
            "sources": [one.name for one in sources if visit.may("get_status", one.name)],
            "settings": written(queue.settings),
            "labels": queue.settings.labels,
        }

    def chart(self, visit: Visit) -> Pending[Response]:
        name, chart = visit.params
        if chart not in _CHARTS:
            raise InvalidRequest(f"there is no chart {chart[:50]!r}: there are {', '.join(_CHARTS)}")
        unit, told = _CHARTS[chart]

        def draw(history: History) -> Response:
            series = [{"label": label, "values": values} for label, values in told(history, visit.now).items()]
            return visit.json({"x": [at // 1000 for at in history.since], "series": series, "unit": unit})

        return self._broker.history(name, _span(visit)).map(draw)

    def pause(self, visit: Visit) -> Pending[Response]:
        [name] = visit.params

        def paused(_queue: Queue) -> Response:
            return visit.done(f"{name} is paused: claims find nothing until it is resumed.", place_of(name))

        return self._broker.pause_queue(name, visit.actor).map(paused)

    def resume(self, visit: Visit) -> Pending[Response]:
        [name] = visit.params

        def resumed(_queue: Queue) -> Response:
            return visit.done(f"{name} is resumed: claims find its messages again.", place_of(name))

        return self._broker.resume_queue(name, visit.actor).map(resumed)

    def release(self, visit: Visit) -> Pending[Response]:
        [name] = visit.params

        def released(claims: int) -> Response:
            return visit.done(f"{_told(claims, 'claim')} of {name} ended.", place_of(name))

        return self._broker.release_all(name, visit.actor).map(released)

    def ask_purge(self, visit: Visit) -> Pending[Response]:
        return self._ask(visit, "purge.html")

    def ask_delete(self, visit: Visit) -> Pending[Response]:
        return self._ask(visit, "delete.html")

    def purge(self, visit: Visit) -> Pending[Response]:
        [name] = visit.params
        is_meant = _is_meant(visit)
        asked = visit.form.read("older_than", _older_than)
        if not is_meant or asked is None:
            return self._ask(visit, "purge.html", 422)

        def purged(messages: int) -> Response:
            return visit.done(f"{_told(messages, 'message')} of {name} purged.", place_of(name))

        if asked.older_than_ms is None:
            return self._broker.purge(name, visit.actor).map(purged)
        return self._broker.purge_older(name, asked.older_than_ms, visit.actor).map(purged)

    def delete(self, visit: Visit) -> Pending[Response]:
        [name] = visit.params
        if not _is_meant(visit):
            return self._ask(visit, "delete.html", 422)

        def deleted(_queue: Queue) -> Response:
            return visit.done(f"The queue {name} and its messages are deleted.", HOME)

        return self._broker.delete_queue(name, visit.actor).map(deleted)

    def _ask(self, visit: Visit, page: str, status: int = 200) -> Pending[Response]:
        """What cannot be undone asks for the name of the queue, with what would be gone beside it."""
        [name] = visit.params

        def show(found: list[Any]) -> Response:
            report, sources = found
            seen = [one.name for one in sources if visit.may("get_status", one.name)]
            return visit.show(
                page, status=status, queue=report.queue, count=report.count, place=place_of(name), sources=seen
            )

        asked: list[Pending[Any]] = [
            self._broker.describe_queue(name),
            self._broker.dead_letter_sources(name, "", _SOURCES),
        ]
        return gather(asked).map(show)


def _span(visit: Visit) -> Span:
    return Span.DAY if visit.query.get("span") == Span.DAY.value else Span.HOUR


def _is_meant(visit: Visit) -> bool:
    if visit.form.text("confirm").strip() == visit.params[0]:
        return True
    visit.form.refuse("confirm", "type the name of the queue, exactly as it is written above")
    return False


def _older_than(text: str) -> PurgeRequest:
    if not text.strip():
        return PurgeRequest()
    try:
        older_than_ms = duration_within(text.strip()[:100], 0, DURATION_MS)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error
    return _read_purge(encode_json({"older_than_ms": older_than_ms}))


def _told(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


# Charts


def _depths(history: History, _now: int) -> dict[str, Series]:
    return {"Ready": history.ready, "Delayed": history.delayed, "Claimed": history.claimed}


def _age(history: History, _now: int) -> dict[str, Series]:
    return {"Oldest ready": history.oldest_ready_ms}


def _flow(history: History, now: int) -> dict[str, Series]:
    """Per second. The last bucket is not over yet."""
    lasted = [history.bucket_ms] * len(history.since)
    lasted[-1] = min(history.bucket_ms, max(_LEAST_BUCKET_MS, now - history.since[-1]))

    def rates(counts: list[int]) -> Series:
        return [round(count * 1000 / ms, 3) for count, ms in zip(counts, lasted, strict=True)]

    return {"Sends": rates(history.sent), "Claims": rates(history.claims), "Acks": rates(history.acked)}


def _trouble(history: History, _now: int) -> dict[str, Series]:
    return {
        "Redeliveries": history.redelivered,
        "Dead letters": history.dead_lettered,
        "Failed": history.failed,
        "Expired": history.expired,
    }


# The unit of each chart, and what it tells of a history.
_CHARTS: Final[dict[str, tuple[str, Callable[[History, int], dict[str, Series]]]]] = {
    "depth": ("count", _depths),
    "age": ("duration", _age),
    "flow": ("rate", _flow),
    "trouble": ("count", _trouble),
}
