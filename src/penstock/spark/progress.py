"""How far a stream is behind: what the progress of a query tells of the queues it reads.

PySpark has no metrics for sources that are written in Python. What it does carry into the progress of a query is what a
source calls its latest offset; so that is where a stream says how much is left in its queues.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Backlog:
    """`messages` are ready and in no batch yet. `oldest_ms` is how long ago the oldest of them was sent, by the clock
    of the driver; 0 without one."""

    messages: int = 0
    oldest_ms: int = 0
    queues: Mapping[str, Backlog] = field(default_factory=dict)

    @classmethod
    def of(cls, queues: Mapping[str, Backlog]) -> Backlog:
        """Of these queues together."""
        messages = sum(one.messages for one in queues.values())
        return cls(messages, max((one.oldest_ms for one in queues.values()), default=0), dict(sorted(queues.items())))

    def told(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"backlog": self._figures(), "queues": {name: one._figures() for name, one in self.queues.items()}}

    def _figures(self) -> dict[str, int]:
        return {"messages": self.messages, "oldest_ms": self.oldest_ms}


def backlog(progress: Any) -> Backlog | None:
    """Of all the queues that a query reads, from its progress (`query.lastProgress`, or that of a listener's event);
    None where it tells nothing."""
    queues: dict[str, Backlog] = {}
    for told in _told(progress):
        for name, one in told["queues"].items():
            queues[name] = Backlog(one["messages"], one["oldest_ms"])
    return Backlog.of(queues) if queues else None


def _told(progress: Any) -> Iterator[dict[str, Any]]:
    for source in progress.sources if progress is not None else ():
        try:
            told = json.loads(source.latestOffset or "null")
        except ValueError:
            continue
        # Of a source in Python, Spark does not say which it is.
        if isinstance(told, dict) and told.keys() == {"backlog", "queues"}:
            yield told
