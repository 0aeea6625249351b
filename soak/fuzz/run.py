"""A target with many inputs, in this process: each is timed, and memory is looked at from time to time."""

from __future__ import annotations

import hashlib
import signal
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from random import Random

from soak.fuzz.mutation import Mutator
from soak.fuzz.targets import Target

# A case is a matter of a millisecond; one that takes so long hangs.
HANG_S = 20
# What a process may take beside what it has after the first cases: a house with all of its messages is a few MiB.
MORE_MIB = 256
_WARM = 2_000
_LOOK_EVERY = 1_000


@dataclass
class Done:
    cases: int = 0
    grown_mib: int = 0
    # What was found, in words, with the file that has the input.
    finding: str = ""


class Hang(Exception):
    """A case takes too long."""


def inputs_of(target: Target) -> list[bytes]:
    """The corpus of a target, in a fixed order."""
    return [path.read_bytes() for path in sorted(target.corpus.iterdir())] if target.corpus.is_dir() else []


def run(target: Target, cases: int, seed: int, until: float, folder: Path) -> Done:
    """First the corpus as it is, then mutations of it. In the main thread, for an alarm ends a case that hangs."""
    corpus = inputs_of(target)
    mutator = Mutator(Random(seed), corpus, target.words, target.longest)
    done = Done()
    base = 0

    def hang(_number: int, _frame: object) -> None:
        raise Hang(f"a case took more than {HANG_S} s")

    before = signal.signal(signal.SIGALRM, hang)
    try:
        while done.cases < cases and time.monotonic() < until:
            data = corpus[done.cases] if done.cases < len(corpus) else mutator.next()
            signal.setitimer(signal.ITIMER_REAL, HANG_S)
            try:
                target.run(data)
            except Exception:
                done.finding = _keep(target, data, folder, traceback.format_exc())
                return done
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            done.cases += 1
            if done.cases == _WARM:
                base = resident_mib()
            elif done.cases % _LOOK_EVERY == 0 and base:
                done.grown_mib = resident_mib() - base
                if done.grown_mib > MORE_MIB:
                    done.finding = f"{target.name}: memory has grown by {done.grown_mib} MiB in {done.cases} cases"
                    return done
    finally:
        signal.signal(signal.SIGALRM, before)
    return done


def resident_mib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 >> 20


def _keep(target: Target, data: bytes, folder: Path, what: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{target.name}-{hashlib.sha256(data).hexdigest()[:16]}"
    path.write_bytes(data)
    return f"{what}\nagain: python -m soak.fuzz {target.name} --replay {path}"
