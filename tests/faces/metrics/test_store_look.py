"""A scrape is answered whatever the store does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.edge.http import Request, Response
from penstock.errors import StoreUnavailable
from penstock.faces.metrics import ServerReport, StoreLook, StoreReport
from penstock.faces.metrics.families import families_of
from penstock.faces.metrics.routes import metrics_routes
from penstock.faces.metrics.writing import prometheus_text
from penstock.model import Overview, OverviewSums, StoreFigures
from penstock.pending import Pending, rejected, resolved

FIGURES = StoreFigures(
    store_bytes=1,
    log_bytes=None,
    free_bytes=None,
    units=1,
    operations=1,
    unit_seconds=1.0,
    commit_seconds=1.0,
    sync_seconds=0.5,
    units_written=1,
    commit_median_ms=1.0,
    commit_p99_ms=1.0,
    waiting_claims=0,
    open_shipments=0,
    errors={},
)
OVERVIEW = Overview(0, OverviewSums(), 0, [])


class FakeBroker:
    def __init__(self, figures: Pending[Any], overview: Pending[Any]) -> None:
        self._figures = figures
        self._overview = overview

    def figures(self) -> Pending[Any]:
        return self._figures

    def overview(self, _query: object) -> Pending[Any]:
        return self._overview


async def answer_of(broker: FakeBroker, answer_s: float) -> Response:
    loop = asyncio.get_running_loop()
    look: Any = StoreLook(broker, loop, 10, answer_s)  # type: ignore[arg-type]
    [metrics, *_] = metrics_routes(ServerReport, look)
    told: asyncio.Future[Response] = loop.create_future()
    answer = metrics.handler(Request("GET", "/metrics"))
    assert isinstance(answer, Pending)
    answer.listen(told.set_result, told.set_exception)
    return await asyncio.wait_for(told, 60)


@pytest.mark.parametrize(
    "broker",
    [
        lambda: FakeBroker(Pending(), Pending()),
        lambda: FakeBroker(resolved(FIGURES), Pending()),
        lambda: FakeBroker(rejected(StoreUnavailable("gone")), rejected(StoreUnavailable("gone"))),
        lambda: FakeBroker(rejected(RuntimeError("a mistake")), resolved(OVERVIEW)),
    ],
)
async def test_a_store_that_does_not_answer_is_told_and_not_waited_for(broker: Any) -> None:
    answer = await answer_of(broker(), 0.001)
    assert answer.status == 200
    lines = answer.body.decode().splitlines()
    assert "penstock_store_up 0" in lines
    assert "# TYPE penstock_requests_total counter" in lines


async def test_what_comes_too_late_is_not_told_twice() -> None:
    figures: Pending[Any] = Pending()
    answer = await answer_of(FakeBroker(figures, resolved(OVERVIEW)), 0.001)
    figures.resolve(FIGURES)
    assert b"penstock_store_up 0" in answer.body


async def test_an_overview_that_fails_leaves_the_figures() -> None:
    answer = await answer_of(FakeBroker(resolved(FIGURES), rejected(StoreUnavailable("gone"))), 20)
    assert b"penstock_store_up 1" in answer.body
    assert b"penstock_queues " not in answer.body


def test_what_is_not_known_has_no_series() -> None:
    text = prometheus_text(families_of(ServerReport(), StoreReport(FIGURES))).decode()
    assert "penstock_store_size_bytes 1" in text
    assert "penstock_store_free_bytes" not in text
