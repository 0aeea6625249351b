"""What a measure is, and how the results are shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
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


def absent(measure: str, target: str, note: str) -> Result:
    return Result(measure, target, None, None, {}, note)


Measure = Callable[[float], Iterable[Result]]


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
