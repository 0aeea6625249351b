"""What a measure is, and how the results are shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Result:
    """One row of the table. `ratio` is what the target is about; None where a peer is absent."""

    measure: str
    target: str
    ratio: float | None
    met: bool | None
    figures: dict[str, float] = field(default_factory=dict)
    note: str = ""


def at_least(measure: str, target: float, ratio: float, note: str = "", **figures: float) -> Result:
    return Result(measure, f"≥ {target}", ratio, ratio >= target, figures, note)


def at_most(measure: str, target: float, ratio: float, note: str = "", **figures: float) -> Result:
    return Result(measure, f"≤ {target}", ratio, ratio <= target, figures, note)


def told(measure: str, ratio: float, note: str = "", **figures: float) -> Result:
    """Worth knowing, and without a target."""
    return Result(measure, "–", ratio, None, figures, note)


def described(measure: str, note: str = "", **figures: float) -> Result:
    """Figures without a ratio."""
    return Result(measure, "–", None, None, figures, note)


def spread(ratios: Sequence[float]) -> str:
    """How far the rounds lie apart; nothing where there was one."""
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if len(ratios) > 1 else ""


def absent(measure: str, target: str, note: str) -> Result:
    return Result(measure, target, None, None, {}, note)


@dataclass(frozen=True)
class Effort:
    """How much is done for a figure. A quick run tells whether something has become slow; its figures are rough."""

    seconds: float = 5
    quick: bool = False
    # A commit to compare with.
    before: str = ""

    def rounds(self, usual: int) -> int:
        """How often a comparison is repeated."""
        return 1 if self.quick else usual

    def messages(self, usual: int) -> int:
        """How many lie in a queue, or pass through it."""
        return usual // 10 if self.quick else usual


Measure = Callable[[Effort], Iterable[Result]]


def missed(results: Iterable[Result]) -> list[str]:
    """What did not reach its target, a line each. What is absent was not measured, and misses nothing."""
    return [
        f"missed: {result.measure}: {result.ratio:.2f}, and the target is {result.target}"
        for result in results
        if result.met is False and result.ratio is not None
    ]


def table(results: list[Result]) -> str:
    lines = ["| measure | target | ratio | met | figures |", "|---|---|---|---|---|"]
    for result in results:
        ratio = "–" if result.ratio is None else f"{result.ratio:.2f}"
        met = {True: "yes", False: "**no**", None: "–"}[result.met]
        figures = ", ".join(
            f"{name.replace('_', ' ')} {value:,.4g}" if value < 1000 else f"{name.replace('_', ' ')} {value:,.0f}"
            for name, value in result.figures.items()
        )
        if result.note:
            figures = f"{figures} ({result.note})" if figures else result.note
        lines.append(f"| {result.measure} | {result.target} | {ratio} | {met} | {figures} |")
    return "\n".join(lines)


def as_json(results: list[Result]) -> str:
    return json.dumps([asdict(result) for result in results], indent=2, ensure_ascii=False)
