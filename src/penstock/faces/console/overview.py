"""Every queue in one table, and above it how the server does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock import limits
from penstock.edge.http import Response
from penstock.edge.router import Route
from penstock.errors import TryAgain
from penstock.faces.console.console import Console
from penstock.faces.console.gate import SIGNED_IN
from penstock.faces.console.paging import TablePage
from penstock.faces.console.queue_settings import may_create
from penstock.faces.console.visit import Visit, route
from penstock.model import Overview, OverviewQuery, OverviewSort, ProcessReport, StoreFigures
from penstock.pending import Pending, chained, gather, resolved

_ROWS: Final = 100
_SORTS: Final = tuple(sort.value for sort in OverviewSort)
_FALLING: Final = frozenset(_SORTS) - {OverviewSort.NAME.value}


@dataclass(frozen=True, slots=True)
class Health:
    """How the server does. `why` is empty while the store is well; figures are for those who may see every queue."""

    why: str
    has_room: bool
    figures: StoreFigures | None = None
    processes: tuple[ProcessReport, ...] = ()

    @property
    def connections(self) -> int:
        return sum(one.connections for one in self.processes)

    @property
    def waiting_claims(self) -> int:
        return sum(one.waiting_claims for one in self.processes)

    @property
    def memory_bytes(self) -> int:
        return sum(one.memory_bytes for one in self.processes)


def overview_routes(console: Console) -> list[Route]:
    overview = _Overview(console)
    return [
        route(console, "GET", "/console", overview.show, SIGNED_IN),
        route(console, "GET", "/console/health", overview.health, SIGNED_IN),
    ]


class _Overview:
    def __init__(self, console: Console) -> None:
        self._broker = console.broker
        self._reports = console.reports

    def show(self, visit: Visit) -> Pending[Response]:
        wanted = visit.query.get("filter", "").strip()[: limits.NAME_LENGTH]
        paging = TablePage.of(visit, _SORTS, OverviewSort.OLDEST.value, _ROWS, falling=_FALLING)

        def page(found: list[Any]) -> Response:
            health, overview = found
            return visit.show(
                "overview.html",
                live="overview_live.html",
                overview=overview,
                health=health,
                paging=paging,
                wanted=wanted,
                may_create=may_create(visit),
            )

        asked: list[Pending[Any]] = [self._health(visit), self._rows(visit, paging, wanted)]
        return gather(asked).map(page)

    def _rows(self, visit: Visit, paging: TablePage, wanted: str) -> Pending[Overview]:
        def ask() -> Pending[Overview]:
            query = OverviewQuery(
                sort=OverviewSort(paging.sort),
                descending=paging.falling,
                contains=wanted,
                offset=paging.start,
                limit=paging.rows,
            )
            return self._broker.overview(query, visit.visitor.rules)

        def settle(found: Overview) -> Pending[Overview]:
            """There may be fewer pages by now."""
            paging.total = found.total
            if paging.page <= paging.pages:
                return resolved(found)
            paging.page = paging.pages
            return ask()

        return chained(ask(), settle)

    def _health(self, visit: Visit) -> Pending[Health]:
        """A store that may soon be back has the whole page say so; what else is wrong with it is shown."""

        def ill(error: Exception) -> Health:
            if isinstance(error, TryAgain):
                raise error
            return Health(str(error), has_room=True)

        if not visit.may("get_status"):
            return self._broker.check_room().map(lambda has_room: Health("", has_room), ill)

        def well(found: list[Any]) -> Health:
            has_room, figures = found
            return Health("", has_room, figures, tuple(self._reports()))

        asked: list[Pending[Any]] = [self._broker.check_room(), self._broker.figures()]
        return gather(asked).map(well, ill)

    def health(self, visit: Visit) -> Pending[Response]:
        def well(_none: None) -> Response:
            return visit.show("health.html", is_well=True, why="")

        def ill(error: Exception) -> Response:
            return visit.show("health.html", is_well=False, why=str(error))

        return self._broker.check().map(well, ill)
