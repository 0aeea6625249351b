"""The figures of the page as Parquet files, for other tools: the same values, before they are rounded and put in words.

One file per table. What is of all queues together or of the small ones as one has no queue; `of` says which it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.report.axis import DAY_MS, instant
from penstock.spark.report.figures import OTHERS, OUTCOMES, PERCENTILES
from penstock.spark.report.page import Facts
from penstock.spark.report.tables import Durations, Entry, Figure, Held

_INSTANT = pa.timestamp("ms", tz="UTC")
_SPANS = ("wait", "handling", "latency")
_OF = {"of": pa.string(), "queue": pa.string(), "begins_at": _INSTANT, "ends_at": _INSTANT}
_DURATIONS = {f"{span}_p{round(share * 100)}_ms": pa.float64() for span in _SPANS for share in PERCENTILES}
_COUNTS = dict.fromkeys(
    ("finished", *(name.replace("-", "_") for name in OUTCOMES), "redelivered", "redeliveries", "bytes"), pa.int64()
)
_BACKLOG = {"backlog": pa.int64(), "backlog_oldest_ms": pa.int64()}
_DEPTH = {"depth": pa.int64(), "depth_oldest_ms": pa.int64()}
_TIMES = ("sent_at", "first_claimed_at", "last_claimed_at", "finished_at")

TABLES = {
    "stretches": {**_OF, "sent": pa.int64(), **_COUNTS, **_DURATIONS, **_BACKLOG, **_DEPTH},
    "totals": {**_OF, "sent": pa.int64(), **_COUNTS, **_DURATIONS, **_BACKLOG, "depth": pa.int64()},
    "days": {**_OF, **_COUNTS, **_DURATIONS},
    "causes": {
        "queue": pa.string(), "outcome": pa.string(), "receives": pa.int32(), "content_type": pa.string(),
        "messages": pa.int64(), "first_at": _INSTANT, "last_at": _INSTANT, "why": pa.string(),
    },
    "messages": {
        "list": pa.string(), "place": pa.int32(), "queue": pa.string(), "id": pa.string(),
        **dict.fromkeys(_TIMES, _INSTANT), "receives": pa.int32(), "outcome": pa.string(), "size": pa.int64(),
        "content_type": pa.string(), **{f"{span}_ms": pa.int64() for span in _SPANS},
    },
}  # fmt: skip


def files_of(facts: Facts) -> dict[str, bytes]:
    """The content of each file by its name. With nothing to tell, the files have columns and no rows."""
    rows = {
        "stretches": _stretches(facts),
        "totals": _totals(facts),
        "days": _days(facts),
        "causes": (vars(it) | {"why": it.why} for it in facts.causes),
        "messages": _messages(facts),
    }
    about = {
        "penstock.lake": facts.lake,
        "penstock.consumer": facts.consumer or "",
        "penstock.made_at": instant(facts.made_at),
        "penstock.known_to": "" if facts.known_to is None else instant(facts.known_to),
    }
    return {f"{name}.parquet": _written(rows[name], columns, about) for name, columns in TABLES.items()}


def _written(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, pa.DataType], about: Mapping[str, str]) -> bytes:
    schema = pa.schema(list(columns.items()), metadata=dict(about))
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=schema), sink)
    return sink.getvalue()


def _stretches(facts: Facts) -> Iterator[dict[str, Any]]:
    if facts.axis is None:
        return
    for series in facts.series.values():
        held = _held(facts, series.queue)
        for number, figure in enumerate(series.stretches):
            yield {
                **_of(series.queue), "begins_at": facts.axis.first(number), "ends_at": facts.axis.end(number),
                **_numbers(figure), **_backlog(figure),
                "depth": held.depths[number] if held and held.depths else None,
                "depth_oldest_ms": held.ages[number] if held and held.ages else None,
            }  # fmt: skip


def _totals(facts: Facts) -> Iterator[dict[str, Any]]:
    if facts.axis is None:
        return
    for series in facts.series.values():
        held = _held(facts, series.queue)
        yield {
            **_of(series.queue), "begins_at": facts.axis.from_ms, "ends_at": facts.axis.to_ms,
            **_numbers(series.whole), **_backlog(series.whole), "depth": held.total if held else None,
        }  # fmt: skip


def _days(facts: Facts) -> Iterator[dict[str, Any]]:
    if facts.days is None:
        return
    for queue, pair in facts.days.pairs.items():
        for back, figure in zip((DAY_MS, 0), pair, strict=True):
            times = {"begins_at": facts.days.day - back, "ends_at": facts.days.until - back}
            yield {**_of(queue), **times, **_numbers(figure)}


def _messages(facts: Facts) -> Iterator[dict[str, Any]]:
    lists: Mapping[str, Iterable[Entry]] = {
        "slowest": facts.slowest, "retried": facts.retried, "largest": facts.largest,
    }  # fmt: skip
    for name, entries in lists.items():
        for place, entry in enumerate(entries, 1):
            spans = {f"{span}_ms": getattr(entry, span) for span in _SPANS}
            yield {"list": name, "place": place, **vars(entry), **spans}


def _of(queue: str | None) -> dict[str, str | None]:
    if queue is None:
        return {"of": "all", "queue": None}
    return {"of": "others", "queue": None} if queue == OTHERS else {"of": "queue", "queue": queue}


def _held(facts: Facts, queue: str | None) -> Held | None:
    if facts.live is None:
        return None
    return facts.live_of_all if queue is None else facts.live.get(queue)


def _numbers(figure: Figure) -> dict[str, Any]:
    outcomes = {name.replace("-", "_"): figure.outcomes.get(name, 0) for name in OUTCOMES}
    counts = {name: getattr(figure, name) for name in ("sent", "finished", "redelivered", "redeliveries", "bytes")}
    return {**counts, **outcomes, **_spans(figure)}


def _spans(figure: Figure) -> dict[str, float]:
    found = {}
    for span in _SPANS:
        durations: Durations = getattr(figure, span)
        for share, value in zip(PERCENTILES, durations or (), strict=False):
            found[f"{span}_p{round(share * 100)}_ms"] = value
    return found


def _backlog(figure: Figure) -> dict[str, int | None]:
    return {"backlog": figure.backlog, "backlog_oldest_ms": figure.oldest}
