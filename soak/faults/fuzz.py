"""Bytes that no client would send, given to every part that reads what clients send: see `soak/fuzz`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from soak.fault import Counts, Fault, Round, Violation
from soak.fuzz.targets import TARGETS, Target

ROOT = Path(__file__).resolve().parents[2]
# With atheris, where it could be installed: its wheels are for few versions of Python.
_GUIDED = ROOT / ".venv-fuzz" / "bin" / "python"
_ROUND_S = 60
# Far longer than a round takes: a target that hangs where no alarm reaches it.
_HANG_S = 600
_DONE = re.compile(r"number_of_executed_units:\s+(\d+)|: (\d+) cases in")


class Fuzz:
    goal = 1_000_000
    unit = "cases"
    short = 1_000

    def __init__(self, target: Target) -> None:
        self.name = f"fuzz-{target.name}"
        self.how = f"{target.what}, from bytes that no client would send"
        self._target = target

    def run(self, round: Round) -> Counts:
        # Only the source as it stands can be guided: what is compiled has no lines to count.
        is_guided = _GUIDED.exists() and not round.is_short
        program = [str(_GUIDED) if is_guided else sys.executable, "-m", "soak.fuzz", self._target.name]
        options = ["--cases", str(round.left), "--seconds", str(_ROUND_S), "--seed", str(round.seed % 2**31)]
        options += ["--found", str(round.folder), "--kept", str(ROOT / "build" / "fuzz" / "kept")]
        environ = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        try:
            ended = subprocess.run(
                [*program, *options, *(["--guided"] if is_guided else [])],
                env=environ,
                cwd=ROOT,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_HANG_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Violation([f"{self._target.name} hangs"]) from None
        told = ended.stdout + ended.stderr
        (round.folder / "output").write_text(told)
        found = _DONE.search(told)
        counts = Counts(int(found[1] or found[2]) if found else 0)
        if is_guided:
            counts.notes["guided by coverage"] = counts.done
        if ended.returncode or not counts.done:
            raise Violation([told[-4_000:]], counts)
        return counts


FAULTS: list[Fault] = [Fuzz(target) for target in TARGETS.values()]
