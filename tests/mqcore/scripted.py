"""A life in small units, told to a book as it happens: run under strace, which makes one of its calls fail or kills it.

A line is written before a delete is asked for and after anything was answered.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from penstock.errors import PenstockError
from penstock.model import Draft, Receipt, Settings
from tests.mqcore.disk import open_root

NOW = 1_700_000_000_000


def main(root: Path, book: Path) -> None:
    writing = os.open(book, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(*words: str) -> None:
        os.write(writing, " ".join(words).encode() + b"\n")

    store = open_root(root, sync_threads=1)
    with suppress(PenstockError), store.unit() as unit:
        unit.create_queue("q", Settings(), NOW)
    for turn in range(3):
        now = NOW + turn * 10_000
        bodies = [b"%d %d " % (turn, number) * 100 for number in range(2)]
        with suppress(PenstockError):
            with store.unit() as unit:
                sent = unit.send("q", [Draft(body) for body in bodies], now)
            for one, body in zip(sent, bodies, strict=True):
                note("sent", one.id, body.hex())
        with suppress(PenstockError):
            with store.unit() as unit:
                messages = unit.claim("q", 2, now, 10_000).messages
            for message in messages[:1]:
                note("acking", message.id)
                with store.unit() as unit:
                    unit.ack([Receipt(message.id, queue="q")], now)
                note("acked", message.id)
        with suppress(PenstockError), store.unit() as unit:
            unit.sweep(now + 9_999, 100, 0)
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
