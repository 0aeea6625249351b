"""A failure at every single call by which a store is changed: an I/O error, a full disk, and a kill.

A script of a hundred operations is traced once, which tells the calls. Then it runs once more for each of them, and for
each way to fail; what clients were told is compared with what a server finds that opens the store afterwards.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

from soak import device
from soak.checker import Verdict, check
from soak.fault import Counts, Fault, Lacking, Round, Violation
from soak.file_stores import STORES, Store
from soak.history import History
from soak.tracing import Point, counting, injecting, points, tracing
from soak.warm import WarmServers, warm_servers

STEPS = 100
# The same script for every point, so that a number means the same call.
_SEED = 17
_POINTS_PER_ROUND = 40


@dataclass
class Injected:
    """One store, and all points of its script."""

    store: Store
    unit: str = "points"
    short: int = 9

    @property
    def name(self) -> str:
        return f"syscalls-{self.store.name}"

    @property
    def how(self) -> str:
        return f"{self.store.title}: EIO, ENOSPC and KILL at every sync, write, rename, truncate of {STEPS} operations"

    @cached_property
    def points(self) -> list[Point]:
        folder = device.in_memory("syscalls")
        try:
            with tracing(*counting(folder / "trace")) as prepare:
                where = folder / "store"
                self.store.run(where, warm_servers(), folder / "log", folder / "history", _SEED, STEPS, prepare)
            found = points(folder / "trace", where)
        finally:
            shutil.rmtree(folder)
        # In any order but that of the calls: a part of the campaign is a part of everything.
        Random(_SEED).shuffle(found)
        return found

    @property
    def goal(self) -> int:
        """As many as there are; where they cannot be counted, the first round says why."""
        try:
            return len(self.points)
        except Lacking:
            return self.short

    def run(self, round: Round) -> Counts:
        if round.is_short:
            chosen = _some_of_each(self.points, round)
        else:
            done = self.goal - round.left
            chosen = self.points[done : done + _POINTS_PER_ROUND]
        return self.fail_at(chosen, round)

    def fail_at(self, chosen: Sequence[Point], round: Round) -> Counts:
        counts, findings = Counts(), []
        for point in chosen:
            found, verdict = self._fail_at(point, round, warm_servers())
            counts.add(Counts(1, verdict.sent, verdict.acked, Counter({point.how: 1})))
            if found:
                again = f"python -m soak.faults.syscalls {self.store.name} {point.call} {point.when} {point.how}"
                findings += [f"{point} (again: {again}):", *found]
        if findings:
            raise Violation(findings, counts)
        return counts

    def _fail_at(self, point: Point, round: Round, servers: WarmServers) -> tuple[list[str], Verdict]:
        folder = device.in_memory("syscalls")
        history = History(folder / "history")
        try:
            with tracing(*injecting(point)) as prepare:
                self.store.run(folder / "store", servers, folder / "log", history.folder, _SEED, STEPS, prepare)
            life = list(history.events()) if history.folder.exists() else []
            findings: list[str] = []
            try:
                self.store.look(folder / "store", servers, folder / "log", history.recorder("after"), life)
            except (AssertionError, OSError) as error:
                findings.append(f"{type(error).__name__}: {error}")
            history.close()
            verdict = check(history)
            findings += verdict.findings
            if findings:
                shutil.copytree(folder, round.folder / str(point).replace(" ", "-"))
            return findings, verdict
        finally:
            shutil.rmtree(folder)


def _some_of_each(all_of_them: list[Point], round: Round) -> list[Point]:
    """One of each kind of call in turn, up to as many as are wanted."""
    by_kind: dict[str, list[Point]] = {}
    for point in round.random.sample(all_of_them, len(all_of_them)):
        by_kind.setdefault(point.call, []).append(point)
    chosen: list[Point] = []
    while len(chosen) < min(round.left, len(all_of_them)):
        for kind in by_kind.values():
            if kind and len(chosen) < round.left:
                chosen.append(kind.pop())
    return chosen


FAULTS: list[Fault] = [Injected(store) for store in STORES]


def main(name: str, call: str, when: str, how: str) -> None:
    """One point alone, as a finding names it."""
    [store] = [store for store in STORES if store.name == name]
    folder = Path(tempfile.mkdtemp(prefix="penstock-syscalls-"))
    print(folder)
    print(Injected(store).fail_at([Point(call, int(when), how)], Round(folder, 0, 1)))


if __name__ == "__main__":
    main(*sys.argv[1:])
