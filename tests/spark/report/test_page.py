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
from penstock.spark.report.tables import Entry, Figure, Series

EIGHT = 1_791_532_800_000
HOSTILE = "<script>alert('x')</script>&\"<img src=x onerror=alert(1)>"


def figure(count: int = 1) -> Figure:
    return Figure(count, count, {"processed": count, "dead-lettered": 1}, 1, (1, 20, 300), (4, 50, 600), count)


def series(queue: str | None, stretches: int = 3) -> Series:
    return Series(queue, figure(), [figure(number) for number in range(stretches)])


def facts(*queues: str, stretches: int = 3) -> Facts:
    entry = Entry(HOSTILE, HOSTILE, EIGHT, EIGHT, EIGHT + 1, EIGHT + 2, 2, HOSTILE, 3, HOSTILE, HOSTILE.encode())
    told = {name: series(name, stretches) for name in queues}
    axis = Axis(EIGHT, HOUR_MS, stretches)
    return Facts(
        HOSTILE, "archive", EIGHT, axis, 10, len(queues), {None: series(None, stretches), **told}, [entry], [entry]
    )


def plots(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(it) for it in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


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
    page = render(replace(facts(HOSTILE, "b"), live={HOSTILE: 3}, queue=None))
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


def test_the_overview_and_every_queue_have_six_plots() -> None:
    assert len(plots(render(facts("a", "b")))) == 3 * 6


def test_one_queue_is_not_told_twice() -> None:
    assert len(plots(render(facts("a")))) == 6


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
    assert links <= set(re.findall(r'id="([^"]+)"', page))


def test_the_largest_page_stays_small() -> None:
    assert len(render(facts(*map(str, range(13)), stretches=168))) < 4_000_000


def test_an_empty_ledger_says_what_to_do() -> None:
    page = render(Facts("/lake", None, EIGHT))
    assert "penstock pipeline archive" in page
    assert not plots(page)


def test_without_bodies_there_is_no_column_for_them() -> None:
    plain = facts("a")
    without = [replace(plain.slowest[0], body=None)]
    assert ">body</th>" in render(plain)
    assert ">body</th>" not in render(replace(plain, slowest=without, retried=without))


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
