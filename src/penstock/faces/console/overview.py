"""Every queue in one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from penstock import limits
from penstock.edge.http import Response
from penstock.edge.router import Route
from penstock.faces.console.console import Console
from penstock.faces.console.gate import SIGNED_IN
from penstock.faces.console.paging import TablePage
from penstock.faces.console.visit import Visit, route
from penstock.model import Count, CountedPage, Queue
from penstock.pending import Pending

_ROWS: Final = 100
Line = tuple[Queue, Count]
_SORTS: Final[dict[str, Callable[[Line], Any]]] = {
    "name": lambda line: line[0].name,
    "ready": lambda line: line[1].ready,
    "delayed": lambda line: line[1].delayed,
    "claimed": lambda line: line[1].claimed,
    "oldest": lambda line: -(line[1].oldest_ready_sent_at or limits.NEVER),
}


def overview_routes(console: Console) -> list[Route]:
    overview = _Overview(console)
    return [
        route(console, "GET", "/console", overview.show, SIGNED_IN),
        route(console, "GET", "/console/health", overview.health, SIGNED_IN),
    ]


class _Overview:
    def __init__(self, console: Console) -> None:
        self._broker = console.broker

    def show(self, visit: Visit) -> Pending[Response]:
        wanted = visit.query.get("filter", "").strip()[: limits.NAME_LENGTH]
        paging = TablePage.of(visit, tuple(_SORTS), "name", _ROWS)

        def page(counted: CountedPage) -> Response:
            lines = [
                line
                for line in zip(counted.page.queues, counted.counts, strict=True)
                if wanted.lower() in line[0].name.lower() and visit.may("get_status", line[0].name)
            ]
            lines.sort(key=_SORTS[paging.sort], reverse=paging.falling)
            shown = paging.cut(lines)
            return visit.show(
                "overview.html", live="overview_live.html", lines=shown, paging=paging, wanted=wanted, rows=len(lines)
            )

        return self._broker.count_queues(0, limits.LIST_LIMIT).map(page)

    def health(self, visit: Visit) -> Pending[Response]:
        def well(_none: None) -> Response:
            return visit.show("health.html", is_well=True, why="")

        def ill(error: Exception) -> Response:
            return visit.show("health.html", is_well=False, why=str(error))

        return self._broker.check().map(well, ill)
