"""Histories written by hand: who asked for what, between which instants, and what they were told."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from soak.checker import Checker, Verdict
from soak.history import History

Instants = tuple[float, float]


class Story:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._lines: dict[str, list[str]] = {}
        self.queue("q")

    def tell(
        self, op: str, at: Instants, client: str = "c", queue: str = "q", outcome: str = "ok", **words: Any
    ) -> None:
        event = {
            "client": client, "n": next(self._numbers), "op": op, "queue": queue, "begin": at[0], "end": at[1],
            "outcome": outcome, **words,
        }  # fmt: skip
        self._lines.setdefault(client, []).append(json.dumps(event, separators=(",", ":")))

    def queue(self, name: str, **settings: Any) -> None:
        self.tell("queue", (0, 0), "campaign", name, settings={"ordered": True, **settings})

    def send(self, tags: str, at: Instants, **words: Any) -> None:
        self.tell("send", at, tags.partition("-")[0], messages=tags.split(), **words)

    def claim(self, tag: str, at: Instants, client: str = "x", *, under: str | None = None, receipt: str | None = None,
              receives: int | None = None, hold_s: float = 10, **words: Any) -> None:  # fmt: skip
        messages = [[one, under or f"id-{one}", receipt, receives] for one in tag.split()]
        self.tell("claim", at, client, messages=messages, hold_s=hold_s, **words)

    def touch(self, op: str, tag: str, at: Instants, client: str = "x", *, under: str | None = None,
              receipt: str | None = None, done: bool | None = True, **words: Any) -> None:  # fmt: skip
        messages = [[one, under or f"id-{one}", receipt] for one in tag.split()]
        self.tell(op, at, client, messages=messages, done=[done] * len(messages), **words)

    def ack(self, tag: str, at: Instants, client: str = "x", **words: Any) -> None:
        self.touch("ack", tag, at, client, **words)

    def end(self, left: str = "", at: float = 1_000, queues: str = "q", **words: Any) -> None:
        self.tell("left", (at, at), "look", messages=[[tag, f"id-{tag}"] for tag in left.split()])
        self.tell("seen", (at, at), "look", "", queues=queues.split(), **words)

    def judge(self, bucket_bytes: int = 1 << 20) -> Verdict:
        folder = self._folder / "history"
        folder.mkdir()
        for client, lines in self._lines.items():
            (folder / f"{client}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        return Checker(History(folder), bucket_bytes).judge()

    def broken(self) -> set[str]:
        return set(self.judge().broken)
