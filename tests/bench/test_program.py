"""`make bench` fails when a target is missed, and says which."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.__main__ import main
from bench.measure import Effort, Result, absent, at_least, at_most

ASKED: list[Effort] = []


def good(effort: Effort) -> Iterator[Result]:
    ASKED.append(effort)
    yield at_least("good", 2, 2.0)
    yield absent("good beside a peer", "≥ 2", "the peer is not installed")


def bad(_effort: Effort) -> Iterator[Result]:
    yield at_most("bad", 1.5, 1.66)
    yield at_least("well", 1, 3.0)


MEASURES = {"good": good, "bad": bad, "pipeline": bad}


@pytest.fixture
def run():
    ASKED.clear()
    return lambda *words: main(words, MEASURES, lambda _program: True)


def test_all_met(run, capsys):
    assert run("--only", "good") == 0
    assert "missed" not in capsys.readouterr().err
    assert [Effort(5, quick=False)] == ASKED


def test_a_miss_is_named(run, capsys):
    assert run() == 1
    missed = [line for line in capsys.readouterr().err.splitlines() if line.startswith("missed")]
    assert missed == ["missed: bad: 1.66, and the target is ≤ 1.5"] * 2


def test_quick_does_less(run, capsys):
    assert run("--quick") == 1
    assert capsys.readouterr().err.count("missed: bad") == 1
    assert [Effort(1, quick=True)] == ASKED
    assert (ASKED[0].rounds(5), ASKED[0].messages(1_000_000)) == (1, 100_000)
    assert run("--quick", "--seconds", "3", "--only", "good") == 0
    assert ASKED[-1] == Effort(3, quick=True)


def test_without_its_load_generator_nothing_is_measured_nor_missed(capsys):
    ASKED.clear()
    assert main([], MEASURES, lambda program: program != "wrk") == 2
    assert "wrk is not installed" in capsys.readouterr().err
    assert ASKED == []


def test_a_measure_that_does_not_exist_is_wrong_usage(run, capsys):
    with pytest.raises(SystemExit) as ended:
        run("--only", "nothing")
    assert ended.value.code == 2
    assert "invalid choice: 'nothing'" in capsys.readouterr().err
