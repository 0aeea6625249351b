"""Numbered lines of files or of standard input, and where a reader stands when one of them is bad."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import click

from penstock import limits

_CHUNK = 64 * 1024
_LONGEST = 2 * limits.BODY_BYTES
_STDIN = "-"


@dataclass(frozen=True, slots=True)
class Line:
    """`text` is without its line feed; `last_for_now` says that whoever writes the next one has not done so yet."""

    text: bytes
    number: int
    source: str
    last_for_now: bool

    @property
    def place(self) -> str:
        return f"line {self.number:,} of {self.source}"


def lines_of(paths: Sequence[str]) -> Iterator[Line]:
    """The lines of all files in turn; of standard input without any, or for '-'. Raises UsageError."""
    for path in paths or [_STDIN]:
        if path == _STDIN:
            if sys.stdin is None:
                raise click.UsageError("there is no standard input to read")
            yield from _lines(sys.stdin.buffer, "standard input")
            continue
        try:
            with open(path, "rb") as file:
                yield from _lines(file, path)
        except OSError as error:
            raise click.UsageError(f"file {path} cannot be read: {error.strerror or error}") from error


def _lines(file: BinaryIO, source: str) -> Iterator[Line]:
    number, rest = 0, b""
    # Not by lines: a pipe may pause within one, and what came before it is to be sent meanwhile.
    while chunk := file.read1(_CHUNK):  # type: ignore[attr-defined]
        *whole, rest = (rest + chunk).split(b"\n")
        pauses = not _has_more(file)
        for index, text in enumerate(whole, 1):
            number += 1
            yield Line(text, number, source, pauses and index == len(whole))
        if len(rest) > _LONGEST:
            # No server takes it. To read on until a line feed comes would only fill the memory.
            break
    if rest:
        yield Line(rest, number + 1, source, True)


def _has_more(file: BinaryIO) -> bool:
    """Whether reading would not wait. What cannot be asked, such as a test's input, is never waited for."""
    try:
        return bool(select.select([file], [], [], 0)[0])
    except (OSError, ValueError):
        return True
