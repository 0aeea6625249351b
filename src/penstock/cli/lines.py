"""Lines of files or of standard input: read with their numbers, and sent as messages in few requests.

A request is stored as a whole or not at all. When one fails, what was stored before it is, and the error says which
line it was.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import click

from penstock import limits
from penstock.cli.output import note, print_json
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import number, plural

if TYPE_CHECKING:
    from penstock.client import Client, Draft

_MESSAGES = 1_000
# A byte takes up to six in JSON, and a request 16 MiB.
_BYTES = 2 * 1024 * 1024
_CHUNK = 64 * 1024
_LONGEST = 2 * limits.BODY_BYTES
_STDIN = "-"


@dataclass(frozen=True, slots=True)
class Line:
    """`text` is without its line feed; `last_for_now` says that the next one has not been written yet."""

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


class BadLine(ValueError):
    """What is wrong with a line."""


class Stopped(click.ClickException):
    exit_code = NOT_ALL_DONE


class LineSender:
    def __init__(self, client: Client, queue: str, read: Callable[[bytes], Draft | None]) -> None:
        """`read` makes a message of a line, or None of one to leave out. It raises BadLine."""
        self._client, self._queue, self._read = client, queue, read
        self._drafts: list[Draft] = []
        self._size = 0
        self._first: Line | None = None
        self.sent = 0
        self.stored = 0

    def send_all(self, lines: Iterable[Line]) -> None:
        for line in lines:
            try:
                draft = self._read(line.text)
            except BadLine as error:
                self._send()
                raise Stopped(f"{line.place}: {error}; {self._so_far()}") from error
            if draft is not None:
                self._add(line, draft)
            if line.last_for_now:
                self._send()
        self._send()

    def _add(self, line: Line, draft: Draft) -> None:
        size = len(line.text) + sum(len(key) + len(value) for key, value in (draft.attributes or {}).items())
        if len(self._drafts) >= _MESSAGES or (self._drafts and self._size + size > _BYTES):
            self._send()
        if self._first is None:
            self._first = line
        self._drafts.append(draft)
        self._size += size

    def _send(self) -> None:
        from penstock.client import ClientError

        if self._first is None:
            return
        drafts, first = self._drafts, self._first
        self._drafts, self._size, self._first = [], 0, None
        try:
            sent = self._client.send_many(self._queue, drafts)
        except ClientError as error:
            several = f", with {plural(len(drafts) - 1, 'message')} behind it," if len(drafts) > 1 else ""
            known = "may not be stored" if getattr(error, "sent", False) else "was not stored"
            note(f"the message of {first.place}{several} {known}; {self._so_far()}")
            raise
        self.sent += len(sent)
        self.stored += sum(one.stored for one in sent)

    def _so_far(self) -> str:
        return f"{plural(self.sent, 'message')} before it {'was' if self.sent == 1 else 'were'} sent"

    def report(self, as_json: bool) -> None:
        if as_json:
            print_json({"sent": self.sent, "stored": self.stored})
            return
        twins = self.sent - self.stored
        click.echo(f"sent {plural(self.sent, 'message')}" + (f", {number(twins)} of them twins" if twins else ""))
