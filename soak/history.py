"""What clients saw: one file of JSON lines for each client, in the order of its requests.

A line is one request, with the instants between which it was on its way (`begin` and `end`, of the machine's monotonic
clock, so that those of all processes can be compared) and its `outcome`:

- `ok`: it was done, and the client was told so;
- `refused`: it was not done, and the client was told so (4xx);
- `perhaps`: no answer, or one that promises nothing (503).

A client that may be killed writes each line twice, with the same number: before the request as `perhaps`, and after it
as it went. A line whose successor is missing stands.

| op | what it says |
|---|---|
| `queue` | a queue that the campaign has made, with those `settings` that the checker must know |
| `send` | `messages`: tags; `ids` and `stored` of each if they were told; `group`, `delay_s`, `key` |
| `claim` | `messages`: lists of tag, id, receipt, receives; `hold_s`, or `until`: the instant to which it is certain |
| | `name`: of the attempt or the shipment, by which it may be repeated |
| `ack` | `messages`: lists of tag, id, receipt; `done` of each: true, false, or null if that was not told |
| `renew`, `release` | the same, with `hold_s` or `delay_s` |
| `move` | `queue`, `target`, `as_new`, and whether `claimed` messages are taken along |
| `unclaim`, `purge` | every claim of the `queue` is ended, or every message of it removed |
| `left` | `messages` that are there at the end: lists of tag and id |
| `count` | `total`, `arrived` and `departed` of a queue at the end |
| `ledger` | `rows` at the end: lists of number, queue, id, outcome, receives |
| `seen` | the end: all that is left in `queues` was looked at; with `ledger`, so was the whole ledger |
| `precision` | `slack_s`: how inexactly the servers measure time |
| `clock` | the servers' clock was set by `jump_s` between `begin` and `end` |
| `fault` | what was done to the servers, for the reader |
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]

OK, PERHAPS, REFUSED = "ok", "perhaps", "refused"
FOREVER = float("inf")

now = time.monotonic

_FILLER = re.compile(r"(\S+) (\d+) ([0-9a-f]*)")


def body_of(tag: str, size: int = 20) -> str:
    """A body that no one else sends: its tag, which is `producer-number`, and a filler that follows from it."""
    return f"{tag} {size} {_filler(tag, size)}"


def tag_of(body: str) -> str:
    """The tag of a body; of one that is not as it was sent, a tag that no one has sent."""
    found = _FILLER.fullmatch(body.strip('"'))
    if found is None or found[3] != _filler(found[1], int(found[2])):
        return f"damaged:{hashlib.sha256(body.encode()).hexdigest()[:16]}:{body[:40]}"
    return found[1]


def _filler(tag: str, size: int) -> str:
    digest = hashlib.sha256(tag.encode()).hexdigest()
    return (digest * (size // len(digest) + 1))[:size]


def producer_of(tag: str) -> str:
    return tag.rpartition("-")[0]


class Recorder:
    """One client's file. A client is one thread; it may be any process."""

    def __init__(self, folder: Path, client: str, *, may_be_killed: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.client = client
        self._may_be_killed = may_be_killed
        self._numbers = itertools.count(1)
        path = folder / f"{client}.jsonl"
        if path.exists():
            raise FileExistsError(f"there is a client {client} in this history already")
        # Unbuffered where the process may be killed: a line is one write.
        self._file = path.open("ab", buffering=0 if may_be_killed else 65536)

    def begin(self, op: str, queue: str, **words: Any) -> Event:
        """A request that is about to be made."""
        event = {"client": self.client, "n": next(self._numbers), "op": op, "queue": queue, "begin": now(), **words}
        if self._may_be_killed:
            self._write({**event, "end": None, "outcome": PERHAPS})
        return event

    def end(self, event: Event, outcome: str, **words: Any) -> Event:
        event.update(words)
        event["outcome"] = outcome
        event["end"] = now()
        self._write(event)
        return event

    def note(self, op: str, queue: str = "", **words: Any) -> Event:
        """What takes no time, or has happened already."""
        return self.end(self.begin(op, queue, **words), OK)

    def write(self, event: Event) -> None:
        """A whole event, whose instants the caller knows."""
        self._write({"client": self.client, "n": next(self._numbers), "outcome": OK, **event})

    def _write(self, event: Event) -> None:
        self._file.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class History:
    """All clients of a round."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._open: dict[str, Recorder] = {}

    def recorder(self, client: str) -> Recorder:
        """The same for the same client, as long as the history is open."""
        with self._lock:
            if client not in self._open:
                self._open[client] = Recorder(self.folder, client)
            return self._open[client]

    def note(self, op: str, queue: str = "", **words: Any) -> None:
        """By the campaign itself: a queue that was made, a clock that was set, a fault. From one thread."""
        self.recorder("campaign").note(op, queue, **words)

    def close(self) -> None:
        with self._lock:
            for recorder in self._open.values():
                recorder.close()
            self._open.clear()

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.folder.glob("*.jsonl"))

    def events(self, *, without: tuple[str, ...] = ()) -> Iterator[Event]:
        """Client by client, each in the order of its requests, without those of some kinds. What has no end is
        `perhaps`, and ends never."""
        with self._lock:
            for recorder in self._open.values():
                recorder.flush()
        marks = [f'"op":"{op}"'.encode() for op in without]
        paths = sorted(self.folder.glob("*.jsonl"))
        return itertools.chain.from_iterable(_read(path, marks) for path in paths)


def _read(path: Path, without: list[bytes]) -> Iterator[Event]:
    before: Event | None = None
    with path.open("rb") as lines:
        for line in lines:
            if any(mark in line[:200] for mark in without):
                continue
            try:
                event = json.loads(line)
            except ValueError:
                if line.endswith(b"\n"):
                    raise
                break  # the client was killed while it wrote
            if before is not None and before["n"] != event["n"]:
                yield before
            before = event
            if event["end"] is None:
                event["end"] = FOREVER
    if before is not None:
        yield before


def process_name(kind: str) -> str:
    """A name for the client that this process is."""
    return f"{kind}{os.getpid()}"
