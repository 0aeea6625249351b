"""Tests that need a program or a privilege which is not here: skipped and counted at the end of the run.

Where `CI` is set, a test that does not run is a failure: a machine that decides has everything.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import pytest

_MARK = "missing here: "


def lacking(what: str, detail: str = "") -> NoReturn:
    """Leave the test out, because of what is not there or not possible."""
    reason = f"{what} ({detail})" if detail else what
    if os.environ.get("CI"):
        pytest.fail(f"CI must have it: {reason}")
    pytest.skip(f"{_MARK}{reason}")


def not_installed(program: str, advice: str = "see tests/prepare.sh") -> NoReturn:
    lacking(f"{program} is not installed", advice)


def path_of(name: str) -> str:
    """Where it is. Debian keeps the programs of administrators where users do not look."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    return found or not_installed(name)


def summary(reasons: Iterable[str]) -> list[str]:
    """One line for each thing that tests were left out for, the most wanted first."""
    lacks = Counter(reason.partition(_MARK)[2].partition(" (")[0] for reason in reasons if _MARK in reason)
    return [f"{count} test{'' if count == 1 else 's'} skipped because {lack}" for lack, count in lacks.most_common()]
