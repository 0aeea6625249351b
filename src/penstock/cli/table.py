"""Tables of text: columns two spaces apart, as wide as their widest cell."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence

from penstock.cli.text import printable

_GAP = "  "
# A last column narrower than this says nothing: a long line is better.
_LEAST = 24
_NARROW = 24


def render(
    rows: Sequence[Sequence[str]],
    header: Sequence[str] = (),
    *,
    right: Collection[str] = (),
    width: int | None = None,
    narrow: Collection[str] = (),
) -> list[str]:
    """The lines of the table. The columns named in `right` are flush right; with a `width` the last column
    is cut to fit it, and those in `narrow` to a few words, so that something of it is left. Cells may come
    from anywhere: what is not printable is escaped here."""
    cells = [[title.upper() for title in header]] if header else []
    cells += [[printable(cell) for cell in row] for row in rows]
    if width is not None:
        for place in [place for place, title in enumerate(header) if title in narrow]:
            for row in cells:
                row[place] = shorten(row[place], _NARROW)
    widths = [max(map(columns, column)) for column in zip(*cells, strict=True)]
    if width is not None and widths:
        left = width - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(left, _LEAST))
        for row in cells:
            row[-1] = shorten(row[-1], widths[-1])
    flush_right = [title in right for title in header] or [False] * len(widths)
    return [_GAP.join(map(_pad, row, widths, flush_right)).rstrip() for row in cells]


def _pad(cell: str, width: int, flush_right: bool) -> str:
    space = " " * (width - columns(cell))
    return space + cell if flush_right else cell + space


def columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_columns_of, text))


def shorten(text: str, most: int) -> str:
    if columns(text) <= most:
        return text
    kept, room = [], most - 1
    for character in text:
        room -= _columns_of(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + "…"


def _columns_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
