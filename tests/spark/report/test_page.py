from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from penstock.spark.report.axis import HOUR_MS, Axis
from penstock.spark.report.figures import OTHERS
from penstock.spark.report.page import Facts, excerpt, render, render_plot
from penstock.spark.report.plots import Line, Plot, draw
from penstock.spark.report.scales import count_scale
from penstock.spark.report.tables import Cause, Days, Entry, Figure, Held, Series

EIGHT = 1_791_532_800_000
HOSTILE = "<script>alert('x')</script>&\"<img src=x onerror=alert(1)>"


def figure(count: int = 1) -> Figure:
    outcomes = {"processed": count, "dead-lettered": 1}
    times = {"wait": (1.0, 20.0, 300.0), "handling": (4.0, 50.0, 600.0), "latency": (5.0, 70.0, 900.0)}
    return Figure(count, count, outcomes, 1, 2, 300, **times, backlog=count, oldest=1000)


def series(queue: str | None, stretches: int = 3) -> Series:
    return Series(queue, figure(), [figure(number) for number in range(stretches)])


def facts(*queues: str, stretches: int = 3) -> Facts:
    entry = Entry(HOSTILE, HOSTILE, EIGHT, EIGHT, EIGHT + 1, EIGHT + 2, 2, HOSTILE, 3, HOSTILE, HOSTILE.encode())
    told = {name: series(name, stretches) for name in queues}
    axis = Axis(EIGHT, HOUR_MS, stretches)
    return Facts(
        HOSTILE, "archive", EIGHT, axis, 10, len(queues), {None: series(None, stretches), **told},
        days=Days(EIGHT, EIGHT + HOUR_MS, dict.fromkeys((None, *queues), (figure(2), figure(3)))),
        causes=[Cause(HOSTILE, "failed", 2, HOSTILE, 1, EIGHT, EIGHT)],
        slowest=[entry], retried=[entry], largest=[entry],
    )  # fmt: skip


def plots(page: str) -> list[ElementTree.Element]:
    found = [ElementTree.fromstring(it) for it in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]
    return [it for it in found if it.get("preserveAspectRatio") is None]


class Reader(HTMLParser):
    """The tags of a page, and the places that it refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.places: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.places += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "srcset", "data")]


def test_nothing_that_others_wrote_becomes_part_of_the_page() -> None:
    page = render(replace(facts(HOSTILE, "b"), live={HOSTILE: Held(3)}, queue=None))
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert" in page


def test_it_needs_nothing_from_elsewhere() -> None:
    page = render(facts("a", "b"))
    reader = Reader()
    reader.feed(page)
    assert reader.tags.isdisjoint({"script", "link", "img", "iframe", "object", "image", "use"})
    assert reader.places
    assert all(place.startswith("#") for place in reader.places)
    assert "url(" not in page
    assert "@import" not in page


def test_the_overview_and_every_queue_have_eight_plots() -> None:
    assert len(plots(render(facts("a", "b")))) == 3 * 8


def test_one_queue_is_not_told_twice() -> None:
    assert len(plots(render(facts("a")))) == 8


def test_what_a_server_has_counted_is_shown_beside_the_backlog() -> None:
    told = facts("a", "b")
    assert "counted by the server" not in render(told)
    whole = render(replace(told, live={"a": Held(3, [None, 2, 3], [None, 5, 6]), "b": Held(4, [1, 1, 4], [7, 7, 7])}))
    assert len(re.findall("counted by the server</span>", whole)) == 3
    assert "counted by the server: 7" in whole, "of all queues together"
    assert "oldest ready, by the server: 7 ms" in whole
    part = render(replace(told, live={"a": Held(3, [None, 2, 3], [None, 5, 6])}))
    assert len(re.findall("counted by the server</span>", part)) == 1, "a sum without b would be too small"


def test_the_latest_day_is_compared_in_words() -> None:
    page = render(facts("a", "b"))
    assert "Friday 2026-10-09 and Thursday 2026-10-08, each until 09:00:00 UTC" in page
    assert len(re.findall("50 % more", page)) == 3
    assert "the day before: 2" in page


def test_a_queue_without_a_day_to_compare_has_none() -> None:
    told = facts("a", "b")
    assert told.days is not None
    page = render(
        replace(told, days=replace(told.days, pairs={None: (figure(2), figure(3)), "b": (figure(2), figure(3))}))
    )
    assert len(re.findall("50 % more", page)) == 2
    assert "day before</h2>" not in render(replace(told, days=replace(told.days, pairs={})))


def test_causes_that_are_not_shown_are_counted() -> None:
    lost = replace(figure(50), outcomes={"dead-lettered": 9, "expired": 3})
    told = facts("a")
    page = render(replace(told, series={**told.series, None: replace(told.series[None], whole=lost)}))
    assert "12 of 50 messages were lost, 24 %: 9 dead-lettered, 3 expired." in page
    assert "past its deadline, handed out twice" in page
    assert "11 more messages were lost in other ways" in page
    assert "no message was dead-lettered" in render(replace(told, causes=[]))


def test_the_worst_hour_of_a_queue_is_named() -> None:
    slow = replace(figure(), latency=(1.0, 90_000.0, 90_000.0))
    page = render(
        replace(facts("a"), series={None: series(None), "a": Series("a", figure(), [figure(), slow, figure()])})
    )
    assert "70 ms, at most 1 min 30 s at 2026-10-09 09:00" in page


def test_every_stretch_says_what_it_was() -> None:
    [svg, *_] = plots(render(facts("a")))
    titles = [it.text for it in svg.iter("title")]
    assert titles[1] == "2026-10-09 09:00 – 10:00 UTC\nsent: 1\nfinished: 1"
    assert len(titles) == 3


def test_the_small_queues_are_told_together() -> None:
    page = render(replace(facts("a", OTHERS), distinct=9))
    assert "8 other queues" in page
    assert "8 others</a>" in page


def test_links_lead_to_sections() -> None:
    page = render(facts("a", "b", OTHERS))
    links = set(re.findall(r'href="#([^"]+)"', page))
    assert links == {"queue-0", "queue-1", "queue-2"}
    assert re.findall(r'href="#([^"]+)"', render(facts("a"))) == ["all"]
    assert links <= set(re.findall(r'id="([^"]+)"', page))


def test_the_largest_page_stays_small() -> None:
    assert len(render(facts(*map(str, range(13)), stretches=168))) < 6_000_000


def test_an_empty_ledger_says_what_to_do() -> None:
    page = render(Facts("/lake", None, EIGHT))
    assert "penstock pipeline archive" in page
    assert not plots(page)


def test_without_bodies_there_is_no_column_for_them() -> None:
    plain = facts("a")
    without = [replace(plain.slowest[0], body=None)]
    assert ">body</th>" in render(plain)
    assert ">body</th>" not in render(replace(plain, slowest=without, retried=without, largest=without))


@pytest.mark.parametrize(
    ("values", "shapes"),
    [
        ([5], ["circle"]),
        ([1, 2, 3], ["path"]),
        ([1, None, 3], ["circle", "circle"]),
        ([1, 2, None, None, 4], ["path", "circle"]),
    ],
)
def test_a_lonely_value_is_seen_and_a_gap_stays_a_gap(values: list[float | None], shapes: list[str]) -> None:
    plot = Plot("t", "u", [Line("x", "sent", values)], count_scale, str)
    [svg] = plots(render_plot(draw(plot, Axis(EIGHT, HOUR_MS, len(values)))))
    marks = [it for it in svg if "sent" in (it.get("class") or "")]
    assert [it.tag for it in marks] == shapes


def test_a_plot_without_values_says_so() -> None:
    plot = Plot("t", "u", [Line("x", "sent", [None, None])], count_scale, str)
    assert "nothing to show" in render_plot(draw(plot, Axis(EIGHT, HOUR_MS, 2)))


def test_columns_stand_on_each_other() -> None:
    lines = [Line("a", "failed", [1, 0]), Line("b", "expired", [3, 0])]
    [svg] = plots(render_plot(draw(Plot("t", "u", lines, count_scale, str, stacked=True), Axis(EIGHT, HOUR_MS, 2))))
    lower, upper = (it.get("d") or "" for it in svg if "column" in (it.get("class") or ""))
    foot, height = (float(it) for it in re.findall(r"M\S+ (\S+)v-([\d.]+)", lower)[0])
    assert float(re.findall(r"M\S+ (\S+?)v", upper)[0]) == pytest.approx(foot - height, abs=0.2)


def test_a_body_is_shown_as_text_whatever_it_is() -> None:
    assert excerpt(b"caf\xc3\xa9") == "café"
    assert excerpt(b"a\nb\x00\xff") == "a·b\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    assert len(excerpt(b"x" * 1000)) == 120
