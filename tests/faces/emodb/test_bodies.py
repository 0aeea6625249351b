"""Messages as bytes: when two are equal, and how deep they are."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidRequest
from penstock.faces.emodb import emodb_routes
from penstock.faces.emodb.bodies import DEEPEST, json_key, read_message

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def reversed_keys(value: object) -> object:
    if isinstance(value, dict):
        return {key: reversed_keys(inner) for key, inner in reversed(value.items())}
    return [reversed_keys(inner) for inner in value] if isinstance(value, list) else value


@given(values)
def test_equal_values_have_one_key(value: object) -> None:
    plain = json.dumps(value).encode()
    other = json.dumps(reversed_keys(value), indent=1, ensure_ascii=False, separators=(" , ", " : "))
    assert json_key(plain) == json_key(other.encode("utf-8", "surrogatepass"))


@given(values, values)
def test_values_that_differ_have_two(one: object, other: object) -> None:
    if one != other and not (bools(one) or bools(other)):
        assert json_key(json.dumps(one).encode()) != json_key(json.dumps(other).encode())


def bools(value: object) -> bool:
    """Python takes True for 1; JSON does not."""
    if isinstance(value, dict | list):
        return any(map(bools, value.values() if isinstance(value, dict) else value))
    return isinstance(value, bool)


@given(st.decimals(-(10**15), 10**15, places=6), st.integers(-30, 30))
def test_a_number_is_the_same_however_it_is_written(number: Decimal, shift: int) -> None:
    shifted = f"{number.scaleb(-shift):f}e{shift}"
    assert json_key(f"{number:f}".encode()) == json_key(shifted.encode())


@given(st.integers(0, 2 * DEEPEST), st.sampled_from([("[", "]"), ('{"a":', "}"), ('[{"[":', "}]")]))
def test_nested_no_deeper_than_allowed(levels: int, brackets: tuple[str, str]) -> None:
    start, end = brackets
    depth = levels * (start.count("[") - start.count('"[') + start.count("{"))
    message = (start * levels + "1" + end * levels).encode()
    if depth <= DEEPEST:
        assert read_message(message) == message
    else:
        with pytest.raises(InvalidRequest, match=f"nested at most {DEEPEST}|recursion"):
            read_message(message)


def test_both_services_have_the_same_routes() -> None:
    no_broker: object = None
    routes = [
        (route.method, route.pattern, route.permission, route.body, route.head) for route in emodb_routes(no_broker)
    ]
    plain = [route for route in routes if route[1].startswith("/queue/1/")]
    dedup = [(method, pattern.replace("/dedupq/", "/queue/"), *rest) for method, pattern, *rest in routes[len(plain) :]]
    assert plain == [tuple(route) for route in dedup]
    assert len(plain) == 13


def test_lone_surrogates_have_keys_like_other_characters() -> None:
    key = json_key(rb'{"a": "\ud800", "b": 1}')
    assert key == json_key(rb'{"b":1.0,"a":"\uD800"}')
    assert key != json_key(rb'{"a": "\ud801", "b": 1}')
    # Whatever they are hidden behind is not taken for the same text.
    assert len({json_key(one) for one in (rb'"\ud800"', b'"~0!d800"', b'"~d800"', rb'["~0!\ud800"]')}) == 4
