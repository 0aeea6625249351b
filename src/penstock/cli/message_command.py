"""A command of the shell that is run for each message: `penstock claim --exec`.

The body is its standard input; what else is known of the message is in its environment. Exit code 0 finishes the
message, any other gives it back. The worker of the client does the claiming, the renewing and the stopping.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.cli.output import note

if TYPE_CHECKING:
    from penstock.client import ClaimedMessage, Client, Worked

_SHELL = "/bin/sh"
# It is renewed as long as the command runs.
_HOLD_MS = 30_000
_VARIABLE = re.compile(r"[A-Za-z0-9_]+", re.ASCII)


class MessageCommand:
    def __init__(self, command: str) -> None:
        self._command = command
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    def work(
        self, client: Client, queue: str, *, jobs: int, hold_ms: int | None, wait_ms: int, until_empty: bool
    ) -> Worked:
        """Until SIGTERM or Ctrl-C, or until no message is ready. What still runs some time after that is ended."""
        log = logging.getLogger("penstock.worker")
        log.addHandler(_Notes(logging.WARNING))
        log.propagate = False
        # A worker waits for a server that is away; before the first message its address may just be wrong.
        client.peek(queue, 1)
        try:
            return client.work(
                queue,
                self._handle,
                concurrency=jobs,
                hold_ms=_HOLD_MS if hold_ms is None else hold_ms,
                wait_ms=wait_ms,
                until_empty=until_empty,
            )
        finally:
            self._end()

    def _handle(self, message: ClaimedMessage) -> None:
        from penstock.client import Retry

        # A session of its own: Ctrl-C is for this program, which waits for the command.
        process = subprocess.Popen(  # noqa: S603
            [_SHELL, "-c", self._command], stdin=subprocess.PIPE, env=_environment(message), start_new_session=True
        )
        with self._lock:
            self._running.add(process)
        try:
            process.communicate(message.body)
        finally:
            with self._lock:
                self._running.discard(process)
        if process.returncode != 0:
            reason = _how_it_ended(process.returncode)
            note(f"released {message.id}: the command {reason}")
            raise Retry(reason)

    def _end(self) -> None:
        with self._lock:
            for process in self._running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)


class _Notes(logging.Handler):
    """What the worker has to say, as this program says things."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


def _environment(message: ClaimedMessage) -> dict[str, str]:
    values = {
        "MESSAGE_ID": message.id,
        "MESSAGE_QUEUE": message.queue,
        "MESSAGE_RECEIVES": str(message.receives),
        "MESSAGE_SENT_AT": str(message.sent_at),
        "MESSAGE_CONTENT_TYPE": message.content_type or "",
        "MESSAGE_GROUP": message.group or "",
        "MESSAGE_ATTRIBUTES": json.dumps(message.attributes),
    }
    # A name that no variable can have, or a value with a zero byte, is in MESSAGE_ATTRIBUTES only.
    for name, value in message.attributes.items():
        if _VARIABLE.fullmatch(name):
            values[f"MESSAGE_ATTRIBUTE_{name}"] = value
    return {**os.environ, **{name: value for name, value in values.items() if "\0" not in value}}


def _how_it_ended(code: int) -> str:
    return f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
