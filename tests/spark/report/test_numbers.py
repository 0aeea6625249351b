"""Every number of a report once more, in plain Python over the same rows: no Spark, no histogram, one rule each."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from penstock.spark.jobs import Run
from penstock.spark.report import Scope, report
from penstock.spark.report.scales import count, duration, per_cent
from tests.spark.report.conftest import EIGHT, HOUR, MINUTE, Row, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 24 * HOUR
OUTCOMES = ("processed", "dead-lettered", "failed", "expired", "purged", "moved", "collapsed")
QUEUES = ("orders", "mails", "<b>bold</b>", "rare")
TOLD = 3
# Half a step of a sixteenth of a power of two.
ACCURACY = 2 ** (1 / 32) - 1
EXACT_MS = 20


@dataclass(frozen=True)
class Message:
    """A ledger row in milliseconds."""

    number: int
    queue: str
    sent: int
    first: int | None
    last: int | None
    finished: int
    receives: int
    outcome: str
    size: int
    content_type: str | None

    @property
    def wait(self) -> int | None:
        return None if self.first is None else self.first - self.sent

    @property
    def handling(self) -> int | None:
        return None if self.last is None or self.outcome != "processed" else self.finished - self.last

    @property
    def latency(self) -> int | None:
        return self.finished - self.sent if self.outcome == "processed" else None


def made() -> list[Row]:
    """Two days and a half, also across the hour in which clocks of people change, with rows of every kind."""
    chance = random.Random(18)
    rows = []
    for number in range(1, 700):
        outcome = chance.choices(OUTCOMES, (80, 6, 4, 4, 2, 2, 2))[0]
        claimed = outcome in ("processed", "dead-lettered", "moved") or chance.random() < 0.5
        rows.append(
            row(
                number,
                int(chance.random() * 2.4 * DAY),
                int(chance.lognormvariate(9, 3)) if claimed else None,
                int(chance.lognormvariate(5, 2)),
                queue=chance.choices(QUEUES, (8, 4, 2, 1))[0],
                outcome=outcome,
                receives=chance.choices((1, 2, 5, 30), (80, 10, 5, 5))[0],
                body=b"x" * int(chance.lognormvariate(4, 1)),
            )
        )
    return rows


def messages(rows: Iterable[Row]) -> list[Message]:
    def ms(when: Any) -> int | None:
        return None if when is None else round(when.timestamp() * 1000)

    return [
        Message(it[0], it[1], ms(it[3]), ms(it[4]), ms(it[5]), ms(it[6]), *it[7:10], it[11])  # type: ignore[arg-type]
        for it in rows
    ]


def percentile(values: Iterable[int | None], share: float) -> float | None:
    ordered = sorted(it for it in values if it is not None)
    if not ordered:
        return None
    place = (len(ordered) - 1) * share
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def check_durations(told: dict[str, Any], name: str, values: Sequence[int | None]) -> None:
    for percent in (50, 95, 99):
        expected, found = percentile(values, percent / 100), told[f"{name}_p{percent}_ms"]
        assert (expected is None) == (found is None)
        if expected is not None:
            near = 1e-9 if max(it or 0 for it in values) <= EXACT_MS else ACCURACY * 1.0001
            assert found == pytest.approx(expected, rel=near), (name, percent, told)


def check_ended(told: dict[str, Any], ended: Sequence[Message]) -> None:
    """What is told of messages that finished in a time."""
    outcomes = Counter(it.outcome for it in ended)
    assert told["finished"] == len(ended)
    assert {name: told[name.replace("-", "_")] for name in OUTCOMES} == {name: outcomes[name] for name in OUTCOMES}
    assert told["redelivered"] == sum(it.receives > 1 for it in ended)
    assert told["redeliveries"] == sum(max(it.receives - 1, 0) for it in ended)
    assert told["bytes"] == sum(it.size for it in ended)
    check_durations(told, "handling", [it.handling for it in ended])
    check_durations(told, "latency", [it.latency for it in ended])


def chosen(told: dict[str, Any], given: Sequence[Message], names: Sequence[str]) -> list[Message]:
    """Those that a row is about."""
    if told["of"] == "all":
        return list(given)
    if told["of"] == "others":
        return [it for it in given if it.queue not in names]
    return [it for it in given if it.queue == told["queue"]]


def read(folder: Path, name: str) -> list[dict[str, Any]]:
    """With times in ms."""

    def plain(value: Any) -> Any:
        return round(value.timestamp() * 1000) if isinstance(value, datetime) else value

    rows = pq.read_table(folder / f"{name}.parquet").to_pylist()
    return [{key: plain(value) for key, value in it.items()} for it in rows]


SCOPES = {
    "everything": (None, None, None),
    # In the middle of hours, and of a day.
    "a part": (EIGHT + 7 * HOUR + 20 * MINUTE, EIGHT + 41 * HOUR + 50 * MINUTE, None),
    "a queue": (None, EIGHT + 30 * HOUR, "orders"),
}


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return made()


@pytest.mark.parametrize("scope", SCOPES)
def test_the_figures_are_what_plain_python_makes_of_the_rows(
    spark: SparkSession, archived: Callable[..., str], rows: list[Row], tmp_path: Path, scope: str
) -> None:
    since, until, queue = SCOPES[scope]
    when = [None if ms is None else datetime.fromtimestamp(ms / 1000, UTC) for ms in (since, until)]
    page = tmp_path / "page.html"
    report(
        archived(rows), str(page), Scope(*when, queue=queue), figures=str(tmp_path / "f"), queues=TOLD, run=Run(spark)
    )
    everything = [it for it in messages(rows) if queue in (None, it.queue)]
    known = [
        it for it in everything if it.finished >= (since or 0) and (until is None or it.sent < until)
    ]  # fmt: skip
    names = [
        name for name, _ in sorted(Counter(it.queue for it in known).items(), key=lambda it: (-it[1], it[0]))[:TOLD]
    ]

    stretches = read(tmp_path / "f", "stretches")
    assert {it["queue"] for it in stretches if it["of"] == "queue"} == set(names)
    assert stretches[0]["begins_at"] <= (since or min(it.sent for it in known))
    for told in stretches:
        start, end = told["begins_at"], told["ends_at"]
        of = chosen(told, known, names)
        check_ended(told, [it for it in of if start <= it.finished < end])
        sent = [it for it in of if start <= it.sent < end]
        assert told["sent"] == len(sent)
        check_durations(told, "wait", [it.wait for it in sent])
        there = [it.sent for it in of if it.sent < end <= it.finished]
        assert told["backlog"] == len(there)
        assert told["backlog_oldest_ms"] == (end - min(there) if there else None)

    for told in read(tmp_path / "f", "totals"):
        start, end = told["begins_at"], told["ends_at"]
        of = chosen(told, known, names)
        check_ended(told, [it for it in of if start <= it.finished < end])
        sent = [it for it in of if start <= it.sent < end]
        assert told["sent"] == len(sent)
        check_durations(told, "wait", [it.wait for it in sent])

    ended = [it for it in known if (since or 0) <= it.finished < (until or math.inf)]
    days = read(tmp_path / "f", "days")
    latest = max(it.finished for it in ended)
    midnight = latest // DAY * DAY
    assert {it["begins_at"] for it in days} == {midnight - DAY, midnight}
    assert len({it["ends_at"] - it["begins_at"] for it in days}) == 1
    assert max(it["ends_at"] for it in days) in (midnight + DAY, until, max(it.finished for it in messages(rows)) + 1)
    for told in days:
        finished = [it for it in chosen(told, everything, names) if told["begins_at"] <= it.finished < told["ends_at"]]
        check_ended(told, finished)
        check_durations(told, "wait", [it.wait for it in finished])

    lost = Counter(
        (it.queue, it.outcome, min(it.receives, 11), it.content_type)
        for it in ended
        if it.outcome in ("dead-lettered", "failed", "expired")
    )
    causes = {
        (it["queue"], it["outcome"], it["receives"], it["content_type"]): it["messages"]
        for it in read(tmp_path / "f", "causes")
    }
    assert causes.items() <= lost.items()
    assert sorted(causes.values()) == sorted(lost.values())[-20:]

    lists: dict[str, list[str]] = {}
    for told in sorted(read(tmp_path / "f", "messages"), key=lambda it: it["place"]):
        lists.setdefault(told["list"], []).append(told["id"])
    by_number = {it.number: it for it in ended}
    assert [by_number[int(it[3:])].latency for it in lists["slowest"]] == sorted(
        (it.latency for it in ended if it.latency is not None), reverse=True
    )[:10]
    assert lists["largest"] == [f"id-{it.number}" for it in sorted(ended, key=lambda it: (-it.size, it.number))[:10]]
    assert [by_number[int(it[3:])].receives for it in lists["retried"]] == sorted(
        (it.receives for it in ended), reverse=True
    )[:10]

    if queue is None:
        check_page(page.read_text(), read(tmp_path / "f", "totals"))


def check_page(page: str, totals: Sequence[dict[str, Any]]) -> None:
    """The table of the queues says what the file says."""
    table = page.partition("Queue by queue</h2>")[2].partition("</table>")[0]
    found = {}
    for line in re.findall(r"<tr><th scope.*?</tr>", table, re.DOTALL):
        name = unescape(re.findall(r">([^<>]+)</a>", line)[0])
        found[name] = {label: unescape(value) for label, value in re.findall(r'data-label="([^"]+)">([^<]*)<', line)}
    assert len(found) == TOLD + 1
    for told in totals:
        if told["of"] == "all":
            continue
        shown = found["1 others" if told["of"] == "others" else told["queue"]]
        assert shown["finished"] == count(told["finished"])
        assert shown["sent"] == count(told["sent"])
        assert shown["handed out again"] == per_cent(told["redelivered"] / told["finished"])
        for name in ("latency", "wait", "handling"):
            for percent in (50, 95, 99):
                assert shown[f"{name} p{percent}"] == duration(told[f"{name}_p{percent}_ms"])
