"""What the commands print: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Collection, Sequence

import click

from penstock.cli.table import render
from penstock.cli.text import printable


def on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def print_json(value: object) -> None:
    # ASCII only: no control character of a message reaches a terminal, whatever its encoding.
    click.echo(json.dumps(value, indent=2))


def print_json_line(value: object) -> None:
    click.echo(json.dumps(value))


def print_table(
    rows: Sequence[Sequence[str]],
    header: Sequence[str] = (),
    right: Collection[str] = (),
    narrow: Collection[str] = (),
) -> None:
    """On a terminal the last column is cut to what is left of the line, and those in `narrow` to a few words."""
    width = shutil.get_terminal_size().columns if on_terminal() else None
    for line in render(rows, header, right=right, width=width, narrow=narrow):
        click.echo(line)


def note(text: str) -> None:
    click.echo(f"penstock: {printable(text)}", err=True)
