"""What a fault of the campaign is: something that is done to servers under load, in bounded rounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

from soak.checker import check
from soak.history import History


@dataclass
class Counts:
    """What a round has done: `done` of the fault's unit, and what clients were told meanwhile."""

    done: int = 0
    # Messages that were answered 2xx, and messages whose ack was.
    sent: int = 0
    acked: int = 0
    # Whatever else is worth a column, by its name: `{"killed edges": 3}`.
    notes: Counter[str] = field(default_factory=Counter)

    def add(self, other: Counts) -> None:
        self.done += other.done
        self.sent += other.sent
        self.acked += other.acked
        self.notes.update(other.notes)


class Violation(Exception):
    """A promise was broken; what proves it, in plain words."""

    def __init__(self, findings: Iterable[str], counts: Counts | None = None) -> None:
        self.findings = list(findings)
        self.counts = counts or Counts()
        super().__init__("\n".join(self.findings))


class Lacking(Exception):
    """This machine cannot do it: a program is missing, or the right to mount. The row says so and is not counted."""


@dataclass
class Round:
    """One run of a fault. The same seed makes the same choices; what processes do with them is their own affair."""

    # Empty, and its own. It is left behind if a promise was broken.
    folder: Path
    seed: int
    # How many of the fault's unit are still wanted.
    left: int
    # Whether this is the form for CI, of seconds.
    is_short: bool = False

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.history = History(self.folder / "history")

    def judge(self, counts: Counts) -> None:
        """Raise what the checker finds in the history, which is at its end; count what clients were told in it."""
        self.history.close()
        verdict = check(self.history)
        counts.sent, counts.acked = verdict.sent, verdict.acked
        if verdict.findings:
            raise Violation(verdict.findings, counts)


class Fault(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def how(self) -> str:
        """In one line."""

    @property
    def goal(self) -> int:
        """How many in the whole campaign."""

    @property
    def unit(self) -> str:
        """What is counted, such as "cycles"."""

    @property
    def short(self) -> int:
        """How many in CI."""

    def run(self, round: Round) -> Counts:
        """One round of seconds, not of minutes. Raises `Violation`, or `Lacking`."""
