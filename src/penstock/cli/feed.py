"""Many messages into one queue: collected into requests of a fitting size, and counted.

A request is stored as a whole or not at all. When one fails, what was stored before it is, and the error says which
line it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from penstock.cli.lines import Line
from penstock.cli.output import note, print_json
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import number, plural

if TYPE_CHECKING:
    from penstock.client import Client, Draft

_MESSAGES = 1_000
# A byte takes up to six in JSON, and a request 16 MiB.
_BYTES = 2 * 1024 * 1024


class BadLine(ValueError):
    """What is wrong with a line."""


class Stopped(click.ClickException):
    exit_code = NOT_ALL_DONE


class Feed:
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
        size = len(line.text)
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
