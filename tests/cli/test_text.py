"""Ages, bodies and tables for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.output import Table, columns, shorten
from penstock.cli.text import age, body
from penstock.durations import parse_instant
from penstock.terminal import printable


@pytest.mark.parametrize(
    ("ms", "text"),
    [(-5, "0s"), (999, "0s"), (59_999, "59s"), (60_000, "1m"), (86_399_999, "23h"), (10**10, "115d")],
)
def test_an_age_is_rough(ms, text):
    assert age(1_000, 1_000 + ms) == text


@given(st.text())
def test_printable_text_is_printable_and_printable_stays(text):
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)


def test_a_binary_body_is_shown_as_bytes():
    assert body(b"\xff\x00a") == "(3 bytes) ff 00 61"
    assert body(b"\xff" * 2000).startswith("(2,000 bytes) ff ff ")
    assert body(b"\xff" * 2000).endswith(" ff…")


def test_a_table_is_aligned():
    assert Table(["name", "n", "last"], right=["n"]).lines([["a", "10", "x"], ["bbb", "9", ""]]) == [
        "NAME   N  LAST",
        "a     10  x",
        "bbb    9",
    ]
    assert Table().lines([["key", "value"], ["k", "v"]]) == ["key  value", "k    v"]
    assert Table().lines([]) == []


def test_rows_may_be_added_to_a_table():
    table = Table(["name", "last"])
    assert table.lines([["a", "x"]]) == ["NAME  LAST", "a     x"]
    assert table.lines([]) == []
    assert table.lines([["longer", "y"]]) == ["longer  y"]
    assert table.lines([["b", "z"]]) == ["b       z"]


def test_wide_characters_take_two_columns():
    assert Table().lines([["日本", "x"], ["ab", "y"]]) == ["日本  x", "ab    y"]
    assert columns("e\u0301") == 1


@given(st.text(), st.integers(1, 30))
def test_shortened_text_fits(text, most):
    assert columns(shorten(text, most)) <= max(most, 1)


def test_the_last_column_is_cut_to_the_width():
    [line] = Table(width=40).lines([["id", "a" * 100]])
    assert len(line) == 40
    assert line.endswith("a…")
    # Where next to nothing would be left, a long line is better.
    [line] = Table(width=40).lines([["i" * 50, "a" * 100]])
    assert line == "i" * 50 + "  " + "a" * 23 + "…"


def test_narrow_columns_leave_room_for_the_last_one():
    header = ["id", "attributes", "body"]
    rows = [["1", "k=" + "v" * 60_000, "b" * 100], ["2", "k=v", "short"]]
    title, long, short = Table(header, width=60, narrow=["attributes"]).lines(rows)
    assert title == "ID  ATTRIBUTES                BODY"
    assert long == "1   k=" + "v" * 21 + "…  " + "b" * 29 + "…"
    assert short == "2   k=v                       short"
    # Where nothing is cut, nothing is narrow.
    assert "v" * 60_000 in Table(header, narrow=["attributes"]).lines(rows)[1]


NOW = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", NOW),
        ("1h30m", NOW - 5_400_000),
        ("forever", 0),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:01", 60_000),
        ("1970-01-01T01:00:00.5+01:00", 500),
        ("1970-01-01 00:00:01Z", 1_000),
    ],
)
def test_instants_are_read(text, ms):
    assert parse_instant(text, NOW) == ms


@pytest.mark.parametrize("text", ["", "soon", "1970-13-01", "12:30"])
def test_what_is_not_an_instant_is_refused(text):
    with pytest.raises(ValueError, match="is not an instant"):
        parse_instant(text, NOW)
