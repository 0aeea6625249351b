"""Every input that is kept, and some thousands made from them: none brings a part that reads down.

`make fuzz` looks far longer. An input that was found to do harm is kept in the corpus once it does none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from random import Random

import pytest

from soak.fuzz.mutation import Mutator
from soak.fuzz.run import inputs_of, resident_mib
from soak.fuzz.targets import TARGETS

CASES = 1_500
MOST_INPUTS, LONGEST_INPUT = 200, 64 * 1024


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The log would tell of every case."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_does_no_harm(name: str) -> None:
    inputs = inputs_of(TARGETS[name])
    assert 0 < len(inputs) <= MOST_INPUTS
    for data in inputs:
        assert len(data) <= LONGEST_INPUT
        TARGETS[name].run(data)


@pytest.mark.parametrize("name", TARGETS)
def test_nor_does_what_is_made_from_it(name: str) -> None:
    target = TARGETS[name]
    mutator = Mutator(Random(17), inputs_of(target), target.words, target.longest)
    before = resident_mib()
    for _ in range(CASES):
        data = mutator.next()
        try:
            target.run(data)
        except Exception as error:
            raise AssertionError(f"{name}: {data!r}") from error
    assert resident_mib() - before < 256
