"""Ids that carry their sequence number."""

from __future__ import annotations

import uuid
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import ids

origins = st.integers().map(lambda seed: ids.new_origin(Random(seed)))
instants = st.integers(0, 2**48 - 1)
seqs = st.integers(0, ids.SEQ_MAX)


@given(origins, instants, seqs)
def test_an_id_is_a_uuid_of_version_7_that_tells_its_instant_and_number(origin: str, sent_at: int, seq: int) -> None:
    made = ids.make_id(origin, sent_at, seq)
    parsed = uuid.UUID(made)
    assert str(parsed) == made
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert parsed.int >> 80 == sent_at
    assert parsed.int & ids.SEQ_MAX == seq
    assert ids.seq_of(made) == seq
    assert ids.seq_of(made.upper()) == seq


@given(origins, st.tuples(instants, seqs), st.tuples(instants, seqs))
def test_ids_of_one_store_sort_by_instant_and_number_and_differ(
    origin: str, one: tuple[int, int], other: tuple[int, int]
) -> None:
    assert (ids.make_id(origin, *one) < ids.make_id(origin, *other)) == (one < other)
    assert (ids.make_id(origin, *one) == ids.make_id(origin, *other)) == (one == other)


@given(st.integers())
def test_an_origin_is_drawn_from_the_random_it_is_given(seed: int) -> None:
    origin = ids.new_origin(Random(seed))
    assert origin == ids.new_origin(Random(seed))
    assert len(origin) == 9


def test_two_stores_have_two_origins() -> None:
    random = Random(1)
    assert len({ids.new_origin(random) for _ in range(1_000)}) == 1_000


@given(st.text())
def test_any_text_is_looked_at_without_complaint(text: str) -> None:
    found = ids.seq_of(text)
    assert found is None or abs(found) <= ids.SEQ_MAX


GOOD = "0199a8c2-51f4-7abc-9def-00000000002a"


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD[:-1],
        GOOD + "0",
        GOOD + "\n",
        GOOD[:-1] + "\n",
        " " + GOOD[1:],
        GOOD.replace("-", ""),
        GOOD.replace("-", "_"),
        f"{{{GOOD}}}",
        "0x" + GOOD[2:],
        GOOD[:-2] + "+a",
        GOOD[:-2] + "_a",
        GOOD[:-1] + "g",
        GOOD[:-1] + "٣",
        GOOD[:-1] + "\uff41",  # an "a" of full width
        GOOD[:24] + "-00000000002",
    ],
    ids=ascii,
)
def test_what_is_not_an_id(text: str) -> None:
    """It may lead to a row, but that row's own id is another: so the stores compare."""
    seq = ids.seq_of(text)
    assert seq is None or seq < 0 or ids.make_id("7abc-9def", 0x0199A8C251F4, seq) != text.lower()


def test_the_example_of_the_documentation() -> None:
    assert ids.seq_of(GOOD) == 42
    assert ids.make_id("7abc-9def", 0x0199A8C251F4, 42) == GOOD


def test_an_id_is_canonical_however_it_was_written() -> None:
    text = "0199a8c2-51f4-7abc-9def-00000000002a"
    for written in (text, text.upper(), text.replace("-", ""), f"{{{text}}}", f"urn:uuid:{text}"):
        assert ids.canonical(written) == text


@pytest.mark.parametrize("text", ["", "x", "0199a8c2-51f4-7abc-9def-00000000002", "\n" * 36])
def test_what_is_not_a_uuid_is_never_canonical(text: str) -> None:
    with pytest.raises(ValueError, match="UUID"):
        ids.canonical(text)
    with pytest.raises(ValueError, match="invalid literal"):
        ids.canonical("g" * 32)
