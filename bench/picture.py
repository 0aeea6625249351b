"""The peers at a glance: bars as SVG, made by hand, for light and dark pages alike.

    python -m bench.picture docs/figures.json docs/figures.svg

draws it again from the figures that a run has kept beside it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from xml.sax.saxutils import escape

from bench.beside import PEER
from bench.measure import Result
from bench.occasion import Occasion

OURS = "Penstock"
# What is drawn: the figure, its title, and the figure whose bar goes on where the first ends.
PANELS = (
    ("sends", "durable sends a second, 64 connections", None),
    ("cycles", "send → claim → ack, cycles a second, 64 workers", None),
    ("batch_sends", "messages sent a second, in batches of 1,000", None),
    ("batch_claims", "messages claimed and acked a second, in batches of 1,000", None),
    ("p50_us", "one send, µs: median, and 99 % (shorter is better)", "p99_us"),
)
_WIDTH, _NAME, _BAR, _ROW, _TITLE = 760, 210, 410, 22, 34
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 }
.small { font-size: 11px; fill: #57606a }
.ours { fill: #0969da } .theirs { fill: #8c959f } .late, .loose { opacity: .4 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9198a1 }
  .ours { fill: #4493f8 } .theirs { fill: #6e7681 }
}
"""


def keep(svg: Path, occasion: Occasion, results: Sequence[Result]) -> None:
    """The picture, and beside it what it was drawn from. Nothing is written where no peer was measured."""
    peers = {
        result.measure.removeprefix(PEER): {"figures": result.figures, "note": result.note}
        for result in results
        if result.measure.startswith(PEER)
    }
    if not peers:
        print("no peers were measured, so there is no picture of them: --only peers", file=sys.stderr)
        return
    kept = {"occasion": asdict(occasion), "peers": peers}
    svg.with_suffix(".json").write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")
    svg.write_text(drawn(kept))


def drawn(kept: dict) -> str:
    peers = {name: peer["figures"] for name, peer in kept["peers"].items() if peer["figures"]}
    absent = [name for name, peer in kept["peers"].items() if not peer["figures"]]
    lines: list[str] = []
    top = 8
    for figure, title, late in PANELS:
        top += _TITLE
        lines.append(f'<text class="title" x="0" y="{top - 10}">{escape(title)}</text>')
        longest = max(figures[late or figure] for figures in peers.values())
        # The fastest is first: on the right of a bar its value, which no other bar can reach.
        for name, figures in sorted(peers.items(), key=lambda peer: peer[1][figure], reverse=late is None):
            lines += _bar(name, figures[figure], figures[late] if late else None, longest, top)
            top += _ROW
    top += 24
    occasion = Occasion(**kept["occasion"])
    said = str(occasion).replace("`", "") + (f" Absent: {', '.join(absent)}." if absent else "")
    lines.append(f'<text class="small" x="0" y="{top}">{escape(said)}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top + 10}" width="{_WIDTH}" role="img">'
    described = f"<title>{OURS} and other queues: rates and latencies</title>"
    return "\n".join([head, described, f"<style>{_STYLE}</style>", *lines, "</svg>", ""])


def _bar(name: str, value: float, late: float | None, longest: float, top: int) -> list[str]:
    kind = "ours" if name == OURS else "theirs loose" if name.endswith("not durable") else "theirs"
    middle = top + _ROW * 0.7
    shown = f"{value:,.0f}" + (f" and {late:,.0f}" if late else "")

    def rectangle(length: float, also: str = "") -> str:
        width = max(1.0, _BAR * length / longest)
        return f'<rect class="{kind}{also}" x="{_NAME}" y="{top + 3}" width="{width:.1f}" height="{_ROW - 6}" rx="2"/>'

    end = _NAME + _BAR * (late or value) / longest
    return [
        f'<text x="{_NAME - 8}" y="{middle:.0f}" text-anchor="end">{escape(name)}</text>',
        *([rectangle(late, " late")] if late else []),
        rectangle(value),
        f'<text x="{end + 6:.1f}" y="{middle:.0f}">{shown}</text>',
    ]


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(drawn(json.loads(Path(sys.argv[1]).read_text())))
