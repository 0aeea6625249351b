"""What a key permits, as pure functions."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock import keys, limits
from penstock.errors import InvalidRequest
from penstock.keys import check_name, check_rules, fits, permitting_rule

short = st.text("ab*", max_size=8)


@given(glob=short, name=st.text("ab", max_size=8))
@example(glob="a*a", name="a")
@example(glob="*", name="")
@example(glob="a*b*a", name="aba")
def test_a_star_stands_for_anything(glob: str, name: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, glob.split("*"))), name) is not None
    assert fits(glob, name) is expected


def test_everything_but_the_star_stands_for_itself() -> None:
    assert fits("a.b", "a.b")
    assert not fits("a.b", "axb")
    assert not fits("a?", "ab")
    assert not fits("[ab]", "a")
    assert not fits("Orders", "orders")


def test_no_glob_takes_long() -> None:
    """As a regular expression this one would not come back in a lifetime."""
    assert not fits("*a" * 120 + "*b", "a" * 255)


@pytest.mark.parametrize(
    ("rules", "action", "queue", "permitted_by"),
    [
        (["queue|post|orders"], "post", "orders", "queue|post|orders"),
        (["queue|post|orders"], "poll", "orders", None),
        (["queue|post|orders"], "post", "orders2", None),
        (["queue|post|orders-*"], "post", "orders-eu", "queue|post|orders-*"),
        (["queue|post|orders-*"], "post", "orders", None),
        (["queue|*|orders"], "admin", "orders", "queue|*|orders"),
        (["queue|get_status|*"], "get_status", "x", "queue|get_status|*"),
        (["queue|post|a", "queue|post|*", "queue|*|*"], "post", "b", "queue|post|*"),
        ([], "post", "b", None),
        (["queue|post|x"], "post", "dedupq/x", "queue|post|x"),
        (["queue|post|x"], "post", "dedupq/y", None),
        (["queue|admin|*"], "admin", "*", "queue|admin|*"),
        (["queue|*|*"], "admin", "*", "queue|*|*"),
        (["queue|admin|**"], "admin", "*", None),
        (["queue|admin|a*"], "admin", "*", None),
    ],
)
def test_the_first_rule_that_permits(rules: list[str], action: str, queue: str, permitted_by: str | None) -> None:
    assert permitting_rule(rules, action, queue) == permitted_by


@pytest.mark.parametrize("action", [*keys.ACTIONS, "*"])
@pytest.mark.parametrize("name", ["*", "orders", "orders-*", "*.eu", "a:b@c_d.e-f", "x" * 255])
def test_good_rules(action: str, name: str) -> None:
    assert check_rules([f"queue|{action}|{name}"]) == (f"queue|{action}|{name}",)


@pytest.mark.parametrize(
    "rule",
    [
        *("", "queue", "queue|post", "post|orders", "queue|post|a|b", "topic|post|a", "Queue|post|a", "|post|a"),
        *("queue||a", "queue|send|a", "queue|POST|a", "queue|post,poll|a", "queue| post|a"),
        *(
            "queue|post|",
            "queue|post|a b",
            "queue|post|dedupq/a",
            "queue|post|é",
            "queue|post|" + "x" * 256,
            "queue|post|a\n",
        ),
    ],
)
def test_bad_rules(rule: str) -> None:
    with pytest.raises(InvalidRequest):
        check_rules(["queue|post|fine", rule])


def test_as_many_rules_as_are_allowed() -> None:
    assert len(check_rules(["queue|post|a"] * limits.RULES)) == limits.RULES
    for count in (0, limits.RULES + 1):
        with pytest.raises(InvalidRequest, match="1 to 100 rules"):
            check_rules(["queue|post|a"] * count)


@pytest.mark.parametrize("name", ["a", "billing.worker-2@eu_west", "x" * 100])
def test_good_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "x" * 101, "a\n", "a|b"])
def test_bad_names(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_name(name)
