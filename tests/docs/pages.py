"""The pages of the documentation, and how a test reads them.

A fenced block says by its language what becomes of it:

    console   run: a line that starts with `$ ` is a command, the lines below it are all it prints
    python    run: `print(…)  # text` must print that text; on the page of SQS each as a program of its own, which has
              the clients of AWS
    py        the same, but by the tests of Spark, which have a session
    sh        only read, for what needs a terminal, root or a second machine

The blocks of one page run in order against one fresh server. `…` stands for any text, and a line of nothing else for
any number of lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), ROOT / "examples" / "README.md", *DOCS.rglob("*.md")])

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Section:
    """A heading, and everything up to the next heading of any level."""

    title: str
    text: str


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> list[Block]:
    text = text_of(page)
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 2) for found in _FENCE.finditer(text)]


@cache
def prose_of(page: Path) -> str:
    """The page without its fenced blocks: what looks like a heading or a link in there is none."""
    return _FENCE.sub("", text_of(page))


def sections(page: Path) -> list[Section]:
    text = prose_of(page)
    headings = list(_HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    return [Section(heading[2].strip(), text[heading.end() : end]) for heading, end in zip(headings, ends, strict=True)]


def anchors(page: Path) -> set[str]:
    """As GitHub makes them: lower case, signs gone, spaces to hyphens."""
    titles = [section.title.lower() for section in sections(page)]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def pattern(shown: str) -> re.Pattern[str]:
    """What the page shows, as an expression that what really happens must match as a whole."""
    lines = [line.rstrip() for line in shown.rstrip("\n").split("\n")]
    parts = [r"(?:.*\n)*" if line == "…" else "[^\n]*".join(map(re.escape, line.split("…"))) + "\n" for line in lines]
    return re.compile("".join(parts)) if shown else re.compile("")
