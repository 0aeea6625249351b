"""Ledgers in a lake, row by row as a test needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from devtools import lakes
from penstock.spark.lake import LEDGER_COLUMNS
from penstock.spark.manifest import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# 2026-10-09 08:00 UTC, the beginning of an hour.
EIGHT = 1_791_532_800_000
MINUTE = 60_000
HOUR = 60 * MINUTE

Row = tuple[object, ...]


def at(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def row(
    number: int,
    sent: int = 0,
    wait: int | None = 1000,
    handling: int = 100,
    *,
    queue: str = "jobs",
    outcome: str = "processed",
    receives: int = 1,
    finished: int | None = None,
    body: bytes | None = None,
) -> Row:
    """A ledger row; `sent` is in ms after eight o'clock, `wait` and `handling` in ms. Without a wait it was never
    claimed."""
    sent += EIGHT
    claimed = None if wait is None else sent + wait
    ended = (sent if claimed is None else claimed) + handling if finished is None else EIGHT + finished
    times = (at(sent), at(claimed), at(None if claimed is None else ended - handling), at(ended))
    return (
        number, queue, f"id-{number}", *times, receives if claimed else 0, outcome, len(body or b""), b"",
        "text/plain", body, at(EIGHT),
    )  # fmt: skip


@pytest.fixture
def ledger(spark: SparkSession) -> Callable[[Sequence[Row]], DataFrame]:
    def make(rows: Sequence[Row]) -> DataFrame:
        schema = ", ".join(f"{name} {kind}" for name, kind in LEDGER_COLUMNS.items())
        return spark.createDataFrame(list(rows), schema)

    return make


@pytest.fixture
def archived(
    ledger: Callable[[Sequence[Row]], DataFrame], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., str]:
    """A lake with these rows, archived by one consumer after the other."""

    def write(rows: Sequence[Row], *consumers: str) -> str:
        lake = tmp_path_factory.mktemp("lake")
        for consumer in consumers or ("archive",):
            lakes.put(lake, Place(consumer, 1, 1_790_000_000_000), ledger(rows).toArrow())
        return str(lake)

    return write
