"""What `/metrics` asks of the broker: how the store does, and what is in queues.

A scrape must be answered when things go wrong above all, so a store that does not answer is not waited for: then the
answer says so, and tells what the processes know by themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from msgspec import Struct

from penstock.broker import Broker
from penstock.model import Overview, OverviewQuery, OverviewSort, StoreFigures
from penstock.pending import Pending, gather

T = TypeVar("T")


class StoreReport(Struct, frozen=True):
    """What is None was not told in time."""

    figures: StoreFigures | None = None
    overview: Overview | None = None


AskStore: TypeAlias = Callable[[], Pending[StoreReport]]


class StoreLook:
    """Asks for the figures of the store and of its `queues` largest queues, and waits for `answer_s` at most."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop, queues: int, answer_s: float) -> None:
        self._broker = broker
        self._loop = loop
        # A counter that goes back, be it by one, is taken for one that has begun again, and counted from 0.
        self._query = OverviewQuery(sort=OverviewSort.TOTAL, limit=queues, sparks=False, kept=True)
        self._answer_s = answer_s

    def __call__(self) -> Pending[StoreReport]:
        told: Pending[StoreReport] = Pending()
        answers: list[StoreReport] = []

        def tell(report: StoreReport) -> None:
            if not answers:
                answers.append(report)
                timer.cancel()
                told.resolve(report)

        timer = self._loop.call_later(self._answer_s, tell, StoreReport())
        figures: Pending[object] = _or_none(self._broker.figures())
        overview: Pending[object] = _or_none(self._broker.overview(self._query))
        gather([figures, overview]).map(_report).listen(tell, lambda _error: tell(StoreReport()))
        return told


def _report(found: list[object]) -> StoreReport:
    figures, overview = found
    return StoreReport(
        figures if isinstance(figures, StoreFigures) else None, overview if isinstance(overview, Overview) else None
    )


def _or_none(asked: Pending[T]) -> Pending[object]:
    return asked.map(lambda value: value, lambda _error: None)
