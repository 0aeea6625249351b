"""The state machines and models of the test suite, at length: random histories beside a reference, over all stores.

They are tests, and stay so: what a store promises is written down there. The campaign has them look longer, at other
histories each time. A seed makes the same ones.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from soak.fault import Counts, Fault, Lacking, Round, Violation

ROOT = Path(__file__).resolve().parents[2]
STEPS = 100
# What is run, in turns, and how many histories in one round: some tens of seconds on a quiet machine.
TURNS = (
    (("tests/stores/test_state_machine.py", "-k", "sqlite"), "SQLite", 40),
    (("tests/stores/groups/test_histories.py", "-k", "sqlite"), "groups on SQLite", 100),
    (("tests/mqcore/test_state_machine.py",), "MQ-Core", 60),
    (("tests/vsqs/test_model.py",), "VSQS", 60),
    (("tests/stores/test_state_machine.py", "-k", "postgresql"), "PostgreSQL", 15),
    (("tests/stores/groups/test_histories.py", "-k", "postgresql"), "groups on PostgreSQL", 40),
    (("tests/stores/test_state_machine.py", "-k", "mariadb"), "MariaDB", 15),
    (("tests/stores/groups/test_histories.py", "-k", "mariadb"), "groups on MariaDB", 40),
)
_HANG_S = 1_800


class Model:
    name = "model"
    how = f"state machines over all stores and groups, {STEPS} steps each, beside a reference"
    goal = 10_000
    unit = "histories"
    short = 5

    def run(self, round: Round) -> Counts:
        chosen, name, most = TURNS[round.seed % len(TURNS)]
        histories = min(most, round.left)
        environ = {**os.environ, "PENSTOCK_EXAMPLES": str(histories), "PENSTOCK_STEPS": str(STEPS)}
        command = [sys.executable, "-m", "pytest", *chosen, f"--hypothesis-seed={round.seed}", "-p", "no:xdist"]
        try:
            ended = subprocess.run(
                [*command, "--timeout", str(_HANG_S)],
                cwd=ROOT, env=environ, capture_output=True, text=True, timeout=_HANG_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Violation([f"{name}: not done within {_HANG_S} s"]) from None
        told = ended.stdout + ended.stderr
        (round.folder / "output").write_text(told)
        passed = re.search(r"^(\.+)", ended.stdout, re.MULTILINE)
        if ended.returncode == 0 and passed is None:
            raise Lacking(told[-300:])
        # Each test that was run has made so many.
        tests = len(passed[1]) if passed else 1
        counts = Counts(histories * tests)
        counts.notes[name] = counts.done
        if ended.returncode:
            raise Violation([told[-8_000:]], counts)
        return counts


FAULTS: list[Fault] = [Model()]
