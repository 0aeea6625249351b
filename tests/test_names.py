"""What a queue may be called."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits, names
from penstock.errors import InvalidRequest

ALLOWED = string.ascii_letters + string.digits + "._:@-"
good = st.text(ALLOWED, min_size=1, max_size=limits.NAME_LENGTH).filter(lambda name: name not in (".", ".."))


@given(good)
def test_a_good_name_is_itself(name: str) -> None:
    assert names.is_valid(name)
    assert names.check(name) == name


@given(st.text())
def test_a_name_is_good_when_all_its_characters_are(name: str) -> None:
    expected = 0 < len(name) <= 255 and set(name) <= set(ALLOWED) and name not in (".", "..")
    assert names.is_valid(name) == expected


@given(good, st.characters().filter(lambda character: character not in ALLOWED), st.data())
def test_one_bad_character_anywhere_spoils_it(name: str, bad: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(name)))
    assert not names.is_valid(name[:place] + bad + name[place:])


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 256, "a/b", "/", "../x", "a\n", "a\0", "é", "٣", "a b", "a%2Fb"])
def test_what_is_refused_says_what_a_name_may_be(name: str) -> None:
    with pytest.raises(InvalidRequest, match="1 to 255 of the characters"):
        names.check(name)


@pytest.mark.parametrize("name", ["a", "x" * 255, "...", ".a", "-", "a.b_c:d@e-F9"])
def test_what_is_taken(name: str) -> None:
    assert names.check(name) == name


@given(good)
def test_only_one_name_space_may_be_named_and_only_once(name: str) -> None:
    spaced = names.DEDUP_SPACE + name
    assert names.check_with_space(name) == name
    assert names.check_with_space(spaced) == spaced
    assert not names.is_valid(spaced)
    for bad in (names.DEDUP_SPACE, names.DEDUP_SPACE + spaced, f"other/{name}", f"{spaced}/{name}"):
        with pytest.raises(InvalidRequest):
            names.check_with_space(bad)
