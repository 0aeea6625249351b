"""The campaign: every fault in rounds, until its goal or its time is over, and the table at the end."""

from __future__ import annotations

import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from soak.fault import Counts, Fault, Lacking, Round, Violation
from soak.faults import clients, clock, crowd, databases, disk, fuzz, kill, migration, model, power, stop, syscalls, tls

FAULTS: list[Fault] = [
    *kill.FAULTS,
    *power.FAULTS,
    *syscalls.FAULTS,
    *disk.FAULTS,
    *clock.FAULTS,
    *stop.FAULTS,
    *databases.FAULTS,
    *migration.FAULTS,
    *clients.FAULTS,
    *crowd.FAULTS,
    *tls.FAULTS,
    *model.FAULTS,
    *fuzz.FAULTS,
]


@dataclass
class Row:
    fault: Fault
    goal: int
    counts: Counts = field(default_factory=Counts)
    rounds: int = 0
    seconds: float = 0.0
    findings: int = 0
    lacking: str = ""


class Campaign:
    def __init__(
        self, folder: Path, seed: int, minutes: float | None, *, is_short: bool = False, keeps: bool = False
    ) -> None:
        self._folder = folder
        self._seed = seed
        self._minutes = minutes
        self._is_short = is_short
        self._keeps = keeps
        self.rows: list[Row] = []

    def run(self, faults: Sequence[Fault]) -> bool:
        """Whether no promise was broken. What a fault leaves of its time goes to those after it."""
        begun = time.monotonic()
        for number, fault in enumerate(faults):
            share = None
            if self._minutes is not None:
                left = self._minutes * 60 - (time.monotonic() - begun)
                share = max(0.0, left / (len(faults) - number))
            self._run_fault(fault, share)
        return not any(row.findings for row in self.rows)

    def _run_fault(self, fault: Fault, seconds: float | None) -> None:
        row = Row(fault, fault.short if self._is_short else fault.goal)
        self.rows.append(row)
        begun = time.monotonic()
        # The first round has the seed of the campaign, so that a failure is replayed by naming its own.
        seeds = Random(f"{fault.name}/{self._seed}")
        seed = self._seed
        while row.counts.done < row.goal and not row.lacking:
            if row.rounds and seconds is not None and time.monotonic() - begun >= seconds:
                break
            self._run_round(row, seed)
            row.seconds = time.monotonic() - begun
            print(line(row), file=sys.stderr, flush=True)
            seed = seeds.randrange(1_000_000_000)

    def _run_round(self, row: Row, seed: int) -> None:
        folder = self._folder / f"{row.fault.name}-{seed}".replace(" ", "-")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        round = Round(folder, seed, row.goal - row.counts.done, self._is_short)
        row.rounds += 1
        try:
            counts = row.fault.run(round)
        except Lacking as lacking:
            row.lacking = str(lacking)
            counts = Counts()
        except Violation as violation:
            counts = violation.counts
            self._tell(row, round, violation.findings)
        except Exception:
            counts = Counts()
            self._tell(row, round, [f"the round itself has failed:\n{traceback.format_exc()}"])
            row.counts.done += 1  # or a fault that cannot run at all would never end
        finally:
            round.history.close()
        row.counts.add(counts)
        if not self._keeps and not (folder / "FINDINGS").exists():
            shutil.rmtree(folder, ignore_errors=True)

    def _tell(self, row: Row, round: Round, findings: list[str]) -> None:
        row.findings += len(findings)
        replay = f'make soak SOAK_ARGS="--only {row.fault.name} --seed {round.seed}"'
        text = "\n".join(
            [
                f"{row.fault.name}, seed {round.seed}:",
                *findings,
                f"History and store: {round.folder}",
                f"Again: {replay}",
            ]
        )
        (round.folder / "FINDINGS").write_text(text + "\n")
        print(text, file=sys.stderr, flush=True)

    def table(self) -> str:
        head = ["fault", "how", "done", "of", "acked", "findings", "time"]
        cells = [head, ["---"] * len(head)]
        cells += [_cells(row) for row in self.rows]
        return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _cells(row: Row) -> list[str]:
    done = row.lacking or f"{row.counts.done:,} {row.fault.unit}"
    notes = "".join(f"; {count:,} {name}" for name, count in sorted(row.counts.notes.items()))
    return [
        row.fault.name, row.fault.how, done + notes, f"{row.goal:,}", f"{row.counts.acked:,}", f"{row.findings}",
        f"{row.seconds:.0f} s",
    ]  # fmt: skip


def line(row: Row) -> str:
    name, _, done, goal, acked, findings, seconds = _cells(row)
    return f"{name}: {done} of {goal}, {acked} acked, {findings} findings, {seconds}"
