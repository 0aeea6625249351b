"""The queues of the load, and who sends to them and receives from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# Of the queues whose claims cannot say how long they hold.
VISIBILITY_S = 2


@dataclass(frozen=True)
class Plan:
    name: str
    # By the native API; None: the first send makes it.
    settings: dict[str, Any] | None
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    # How often it is chosen, beside the others.
    weight: int = 1
    has_groups: bool = False
    has_twins: bool = False
    # Whether sends with a key are made, and shipments claimed.
    in_bulk: bool = False
    # Whether messages are often given back, and so become dead letters.
    is_unlucky: bool = False
    # Whether one worker at a time takes the oldest: not where shares are dealt out, or between databases' servers.
    is_ordered: bool = True
    moves_to: str | None = None
    known: dict[str, Any] = field(default_factory=dict)

    def known_settings(self) -> dict[str, Any]:
        """Those that the checker must know."""
        return {"ordered": self.is_ordered, **self.known}


_ALL = ("native", "mqs", "emodb", "sqs", "sqs-query", "mqcore")
_HOLD = {"visibility_ms": VISIBILITY_S * 1000}


def all_queues(*, ordered: bool = True, with_gq: bool = False) -> list[Plan]:
    """For a SQL store. `ordered`: whether one process writes, so that an answered send is before all that follow."""
    queues = [
        Plan("plain", _HOLD, _ALL, _ALL, weight=3, is_ordered=ordered),
        Plan(
            "bulk", _HOLD, ("native", "emodb"), ("native", "emodb"), weight=12, in_bulk=True, is_ordered=ordered,
        ),
        Plan(
            "lines", {**_HOLD, "groups": "fifo"}, ("native",), ("native", "mqs", "sqs"), weight=2, has_groups=True,
            known={"groups": "fifo"},
        ),
        Plan(
            "lines.fifo", {**_HOLD, "groups": "fifo", "dedup": "window"}, ("sqs", "sqs-query", "native"),
            ("sqs", "sqs-query", "native"), has_groups=True, known={"groups": "fifo", "dedup": "window"},
        ),
        Plan("dead", _HOLD, ("native",), ("native", "sqs"), is_ordered=False),
        Plan(
            "retry", {**_HOLD, "redrive": {"max_receives": 3, "dead_letter_queue": "dead"}}, ("mqs", "native", "sqs"),
            ("native", "mqs", "emodb", "sqs"), is_unlucky=True, is_ordered=False,
            known={"max_receives": 3, "dead_letter_queue": "dead"},
        ),
        Plan(
            "once", {**_HOLD, "dedup": "send"}, ("mqs", "native"), ("native", "mqs"), has_twins=True, is_ordered=False,
            known={"dedup": "send"},
        ),
        Plan(
            "dedupq/twins", None, ("emodb",), ("emodb",), has_twins=True, is_ordered=False, known={"dedup": "claim"},
        ),
        Plan("arriving", _HOLD, ("native",), ("native", "mqs"), is_ordered=False),
        Plan("leaving", _HOLD, ("native", "emodb"), ("native",), moves_to="arriving", is_ordered=False),
    ]  # fmt: skip
    if with_gq:
        queues.append(Plan("gq", {}, ("native", "sqs"), (), is_ordered=False))
    return queues


def mqcore_queues() -> list[Plan]:
    """For MQ-Core's own store, which carries its API alone."""
    return [Plan(f"folder{number}", None, ("mqcore",), ("mqcore",)) for number in (1, 2)]
