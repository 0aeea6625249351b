"""What the commands print: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import shutil
import sys
import unicodedata
from collections.abc import Collection, Sequence

import click

from penstock.terminal import printable

_GAP = "  "
# A last column narrower than this says nothing: a long line is better.
_LEAST = 24
_NARROW = 24


def on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def print_json(value: object) -> None:
    # ASCII only: no control character of a message reaches a terminal, whatever its encoding.
    click.echo(json.dumps(value, indent=2))


def print_json_line(value: object) -> None:
    click.echo(json.dumps(value))


def note(text: str) -> None:
    click.echo(f"penstock: {printable(text)}", err=True)


def print_table(
    rows: Sequence[Sequence[str]],
    header: Sequence[str] = (),
    right: Collection[str] = (),
    narrow: Collection[str] = (),
) -> None:
    Table(header, right=right, narrow=narrow, width=line_width()).print(rows)


def line_width() -> int | None:
    """Of the terminal; None where nothing is to be cut."""
    return shutil.get_terminal_size().columns if on_terminal() else None


class Table:
    """Columns two spaces apart, as wide as their widest cell. Rows may be added: the header comes once, with the first
    of them, and no column gets narrower."""

    def __init__(
        self,
        header: Sequence[str] = (),
        *,
        right: Collection[str] = (),
        width: int | None = None,
        narrow: Collection[str] = (),
    ) -> None:
        """The columns named in `right` are flush right. With a `width` the last column is cut to fit it, and those in
        `narrow` to a few words, so that something of it is left."""
        self._header = header
        self._right = right
        self._width = width
        self._narrow = narrow
        self._widths: list[int] = []

    def print(self, rows: Sequence[Sequence[str]]) -> None:
        for line in self.lines(rows):
            click.echo(line)

    def lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Cells may come from anywhere: what is not printable is escaped here."""
        header = self._header
        cells = [[title.upper() for title in header]] if header and not self._widths else []
        cells += [[printable(cell) for cell in row] for row in rows]
        if self._width is not None:
            for place in [place for place, title in enumerate(header) if title in self._narrow]:
                for row in cells:
                    row[place] = shorten(row[place], _NARROW)
        widths = [max(map(columns, column)) for column in zip(*cells, strict=True)]
        if self._widths and widths:
            widths = list(map(max, widths, self._widths))
        if self._width is not None and widths:
            left = self._width - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)
            widths[-1] = min(widths[-1], max(left, _LEAST))
            for row in cells:
                row[-1] = shorten(row[-1], widths[-1])
        self._widths = widths or self._widths
        flush_right = [title in self._right for title in header] or [False] * len(widths)
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
