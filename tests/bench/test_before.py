"""The server of an older commit is found, or it is said why not."""

from __future__ import annotations

import pytest

from bench.before import CannotBuild, before, package_of
from bench.measure import Effort, missed


def test_without_a_commit_nothing_is_measured_nor_missed():
    results = list(before(Effort(1, quick=True)))
    assert {result.note for result in results} == {"no older commit was named (--before COMMIT)"}
    assert missed(results) == []


def test_a_commit_that_is_not_there_is_named():
    with pytest.raises(CannotBuild, match="there is no commit 0123abc here"):
        package_of("0123abc")
    assert {result.note for result in before(Effort(1, before="0123abc"))} == {"there is no commit 0123abc here"}
