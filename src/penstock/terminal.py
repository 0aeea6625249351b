"""What people see of a program besides its results: how far a job is, as a bar on a terminal or as lines in a log, and
text that cannot steer a terminal. Never on standard output.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import Protocol, TextIO

_LINE_EVERY_S = 5.0
_DRAW_EVERY_S = 0.1
_BAR_WIDTH = 24


def printable(text: str) -> str:
    """The text on one line, with everything escaped that could steer a terminal."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


class Progress(Protocol):
    """`total` is what is known of it so far; it may grow, and may be None. What begins takes a while and cannot be
    counted."""

    def say(self, text: str) -> None: ...

    def begin(self, doing: str) -> None: ...

    def show(self, doing: str, done: int, total: int | None = None) -> None: ...

    def end(self) -> None: ...


class Quiet:
    def say(self, text: str) -> None:
        pass

    def begin(self, doing: str) -> None:
        pass

    def show(self, doing: str, done: int, total: int | None = None) -> None:
        pass

    def end(self) -> None:
        pass


class Lines:
    """For a log: at most one line every few seconds, and what is said at once."""

    def __init__(self, stream: TextIO | None = None, every_s: float = _LINE_EVERY_S) -> None:
        self._stream = stream
        self._every_s = every_s
        self._said_at = time.monotonic()
        self._latest: str | None = None

    def say(self, text: str) -> None:
        self._write(text)

    def begin(self, doing: str) -> None:
        """Not in a log: it is worth a look, and not a line."""

    def show(self, doing: str, done: int, total: int | None = None) -> None:
        self._latest = _measured(doing, done, total)
        if time.monotonic() - self._said_at >= self._every_s:
            self.end()

    def end(self) -> None:
        if self._latest is not None:
            self._write(self._latest)
            self._latest = None

    def _write(self, text: str) -> None:
        self._said_at = time.monotonic()
        _write(self._stream or sys.stderr, f"penstock: {printable(text)}\n")


class Bar:
    """For a terminal: one line that is drawn again and again."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._drawn_at = 0.0
        self._width = 0
        self._latest: str | None = None

    def say(self, text: str) -> None:
        self._clear()
        _write(self._stream, f"penstock: {printable(text)}\n")

    def begin(self, doing: str) -> None:
        self._clear()
        if doing:
            _write(self._stream, f"{printable(doing)} …")
            self._width = len(doing) + 2

    def show(self, doing: str, done: int, total: int | None = None) -> None:
        part = min(1.0, done / total) if total else 0.0
        filled = round(part * _BAR_WIDTH)
        bar = f"[{'#' * filled}{'-' * (_BAR_WIDTH - filled)}] " if total else ""
        self._latest = f"{bar}{_measured(doing, done, total)}"
        if time.monotonic() - self._drawn_at >= _DRAW_EVERY_S:
            self._draw()

    def end(self) -> None:
        if self._latest is not None:
            self._draw()
            _write(self._stream, "\n")
            self._latest, self._width = None, 0
        self._clear()

    def _draw(self) -> None:
        text = printable(self._latest or "")
        _write(self._stream, f"\r{text:<{self._width}}")
        self._width = len(text)
        self._drawn_at = time.monotonic()

    def _clear(self) -> None:
        if self._width:
            _write(self._stream, f"\r{'':<{self._width}}\r")
            self._width = 0


def fitting(stream: TextIO | None = None) -> Progress:
    """A bar on a terminal, else lines."""
    stream = stream or sys.stderr
    return Bar(stream) if stream is not None and stream.isatty() else Lines(stream)


def write_at_once(text: str) -> None:
    """A line on standard error from where nothing else may be done, such as the handler of a signal."""
    with suppress(OSError):
        os.write(2, f"\npenstock: {printable(text)}\n".encode())


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()


def _measured(doing: str, done: int, total: int | None) -> str:
    return f"{doing}: {done:,}" if total is None else f"{doing}: {done:,} of {total:,}"
