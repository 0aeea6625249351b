"""The short forms of the faults that clients are, with TLS and without, and of those that need no load."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.campaign import FAULTS
from soak.fault import Lacking, Round
from tests.lacking import lacking

BY_NAME = {fault.name: fault for fault in FAULTS}


@pytest.mark.parametrize(
    ("name", "seed", "short"),
    [
        ("clients", 2, 80),
        ("clients", 3, 80),  # TLS, and two processes
        ("crowd", 1, 1_000),  # two processes
        ("tls", 0, 4),
        ("fuzz-bridge", 1, 500),
    ],
)
def test_a_short_form(name: str, seed: int, short: int, tmp_path: Path) -> None:
    round = Round(tmp_path, seed, short, is_short=True)
    try:
        counts = BY_NAME[name].run(round)
    except Lacking as error:
        lacking(name, str(error))
    finally:
        round.history.close()
    assert counts.done >= short
