"""Which messages a filter means."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.model import JsonValue, MessageState, Selection, WantedAttribute
from penstock.selection import Selector, parse_path

SENT_AT = 1_000


def is_meant(selection: Selection, body: bytes = b"", receives: int = 0, content_type: str | None = None) -> bool:
    selector = Selector(selection)
    return selector.admits(SENT_AT, receives, content_type, MessageState.READY) and selector.finds(body, None)


def test_without_conditions_everything_is_meant():
    assert is_meant(Selection(), b"\xff")
    assert not Selector(Selection()).reads_bodies


@pytest.mark.parametrize(
    ("selection", "meant"),
    [
        (Selection(sent_since=1_000), True),
        (Selection(sent_since=1_001), False),
        (Selection(sent_until=1_000), True),
        (Selection(sent_until=999), False),
        (Selection(min_receives=2), True),
        (Selection(min_receives=3), False),
        (Selection(max_receives=2), True),
        (Selection(max_receives=1), False),
        (Selection(content_type="application/json"), True),
        (Selection(content_type="APPLICATION/json ; charset=latin-1"), True),
        (Selection(content_type="application/xml"), False),
        (Selection(min_receives=2, max_receives=2, sent_since=1, content_type="application/xml"), False),
    ],
)
def test_what_is_known_without_the_body(selection, meant):
    assert is_meant(selection, receives=2, content_type="application/JSON; charset=utf-8") is meant
    assert not Selector(selection).reads_bodies


def test_a_message_without_a_content_type_has_none_that_could_be_meant():
    assert not is_meant(Selection(content_type="text/plain"))


@pytest.mark.parametrize(
    ("text", "body", "meant"),
    [
        ("rr", b"error", True),
        ("RR", b"error", False),
        ("é", "caf\u00e9".encode(), True),
        ("é", "caf\u00e9".encode("latin-1"), False),
        ("\ud800", b"x\xed\xa0\x80x", True),
    ],
)
def test_text_in_the_body(text, body, meant):
    assert is_meant(Selection(text=text), body) is meant
    assert Selector(Selection(text=text)).reads_bodies


ORDER = {"id": 7, "paid": True, "lines": [{"sku": "a b", "n": 1.0}], "odd key": None, "a": {"b-c": "x"}, "": 1}


@pytest.mark.parametrize(
    ("path", "value", "meant"),
    [
        ("$.id", 7, True),
        ("$.id", 7.0, True),
        ("$.id", "7", False),
        ("$.id", True, False),
        ("$.paid", True, True),
        ("$.paid", 1, False),
        ("$.lines[0].sku", "a b", True),
        ("$.lines[0].n", 1, True),
        ("$.lines[1].sku", "a b", False),
        ('$["odd key"]', None, True),
        ('$["odd\\u0020key"]', None, True),
        ('$[""]', 1, True),
        ("$.missing", None, False),
        ("$.a.b-c", "x", True),
        ("$.a[0]", "x", False),
        ("$.lines.sku", "a b", False),
        ("$", None, False),
    ],
)
def test_a_value_at_a_path(path, value, meant):
    assert is_meant(Selection(json=JsonValue(path, value)), json.dumps(ORDER).encode()) is meant


@pytest.mark.parametrize("body", [b"", b"x", b"\xff", b"{", b"[" * 100_000, b'{"a": 1} x'])
def test_what_is_not_json_has_no_values(body):
    assert not is_meant(Selection(json=JsonValue("$.a", 1)), body)
    assert not is_meant(Selection(json=JsonValue("$", None)), body)


def test_a_whole_body_may_be_the_value():
    assert is_meant(Selection(json=JsonValue("$", "x")), b'"x"')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        ".a",
        "$a",
        "$.",
        "$..a",
        "$.a b",
        "$[x]",
        "$[-1]",
        "$[01]",
        "$[0",
        '$["a]',
        "$['a']",
        '$["\\x"]',
        "$[*]",
        "$.*",
        "$" + ".a" * (limits.PATH_STEPS + 1),
        "$." + "a" * limits.PATH_LENGTH,
        '$["' + "\\" * 200,
    ],
)
def test_what_is_not_a_path(text):
    with pytest.raises(ValueError, match=r"path|JSON string"):
        parse_path(text)


@given(st.lists(st.text(max_size=5) | st.integers(0, 10**8), max_size=limits.PATH_STEPS))
def test_every_value_has_a_path(steps):
    path = "$" + "".join(f"[{json.dumps(step)}]" for step in steps)
    if len(path) <= limits.PATH_LENGTH and "\\ud" not in path:
        assert parse_path(path) == steps


@given(st.text(max_size=300))
def test_any_text_is_a_path_or_refused(text):
    with suppress(ValueError):
        parse_path("$" + text)


@pytest.mark.parametrize("state", MessageState)
def test_a_state_is_that_state_alone(state):
    selector = Selector(Selection(state=state))
    assert [one for one in MessageState if selector.admits(SENT_AT, 0, None, one)] == [state]
    assert not selector.reads_bodies


@pytest.mark.parametrize(
    ("wanted", "attributes", "meant"),
    [
        (WantedAttribute("kind"), {"kind": ""}, True),
        (WantedAttribute("kind"), {"Kind": "x"}, False),
        (WantedAttribute("kind"), None, False),
        (WantedAttribute("kind", "test"), {"kind": "test", "other": "x"}, True),
        (WantedAttribute("kind", "test"), {"kind": "tests"}, False),
        (WantedAttribute("kind", ""), {"kind": ""}, True),
        (WantedAttribute("kind", ""), {"kind": "x"}, False),
    ],
)
def test_an_attribute_is_there_or_has_a_value(wanted, attributes, meant):
    selector = Selector(Selection(attribute=wanted))
    assert selector.finds(b"", attributes) is meant
    assert selector.reads_bodies
