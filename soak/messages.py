"""What the checker knows of one message, of one id and of one queue: the history, sorted by what it is about.

Nothing here imports the server's code, and nothing may: what it gets wrong must not be wrong here in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from soak.history import FOREVER, OK, PERHAPS, Event

# Where an event stands in the history: the client, and its number there.
Place = tuple[str, int]


class Sent(NamedTuple):
    at: Place
    queue: str
    begin: float
    end: float
    outcome: str
    id: str | None
    # False: a twin was there, and this one was not stored. None: that was not told.
    stored: bool | None
    group: str | None
    is_delayed: bool
    # By which it may be repeated, and is stored once.
    key: str | None


class Claimed(NamedTuple):
    at: Place
    queue: str
    begin: float
    end: float
    # The last instant at which it is held for certain, unless somebody ends it.
    until: float
    id: str
    receipt: str | None
    # How often it was handed out, this time included; 0 if that was not told.
    receives: int
    # Of the attempt or the shipment by which the same claim may be repeated.
    name: str | None
    # Its place in the answer.
    position: int
    is_shipment: bool


class Touched(NamedTuple):
    """By an ack, a renewal or a release."""

    at: Place
    op: str
    queue: str
    begin: float
    end: float
    outcome: str
    # Of this message; None: that was not told.
    done: bool | None
    id: str
    receipt: str | None
    # Until when a renewal holds it for certain.
    until: float

    @property
    def is_certain(self) -> bool:
        return self.outcome == OK and self.done is not False

    @property
    def may_have_happened(self) -> bool:
        return self.is_certain or self.outcome == PERHAPS


def times_shipped(claims: Iterable[Claimed], touches: Iterable[Touched]) -> list[tuple[float, float]]:
    """When a message may have been in a shipment: from its claim until its holder was told of the end."""
    ends = [touch for touch in touches if touch.op != "renew" and touch.outcome == OK]
    return [
        (claim.begin, min((e.end for e in ends if e.at[0] == claim.at[0] and e.begin >= claim.end), default=FOREVER))
        for claim in claims
        if claim.is_shipment
    ]


class Left(NamedTuple):
    at: Place
    queue: str
    begin: float
    id: str


@dataclass
class Message:
    tag: str
    sends: list[Sent] = field(default_factory=list)
    claims: list[Claimed] = field(default_factory=list)
    touches: list[Touched] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)

    def add(self, seen: Sent | Claimed | Touched | Left) -> None:
        if isinstance(seen, Sent):
            self.sends.append(seen)
        elif isinstance(seen, Claimed):
            self.claims.append(seen)
        elif isinstance(seen, Touched):
            self.touches.append(seen)
        else:
            self.left.append(seen)

    @property
    def number(self) -> int:
        return int(self.tag.rpartition("-")[2])

    @property
    def acks(self) -> list[Touched]:
        return [touch for touch in self.touches if touch.op == "ack"]

    def times_shipped(self) -> list[tuple[float, float]]:
        return times_shipped(self.claims, self.touches)

    def may_be_finished_by(self, instant: float) -> bool:
        return any(ack.may_have_happened and ack.begin <= instant for ack in self.acks)


@dataclass
class Queue:
    """Its settings as the campaign has made it, and what happened to the queue as a whole."""

    name: str
    settings: Event = field(default_factory=dict)
    # Whether all that is left in it was looked at.
    is_seen: bool = False
    # When messages may have left it or lost their claims otherwise: by a move, a purge, `unclaim`.
    upheavals: list[tuple[float, float]] = field(default_factory=list)
    # Whether messages may have been removed without being processed.
    may_lose: bool = False
    # Whether messages may have arrived that were sent to another queue; and to which ones its own may have gone.
    may_gain: bool = False
    targets: set[str] = field(default_factory=set)
    counts: list[Event] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)

    @property
    def keeps_lines(self) -> bool:
        return bool(self.settings.get("groups") == "fifo")

    @property
    def is_ordered(self) -> bool:
        return bool(self.settings.get("ordered", False))

    @property
    def dedup(self) -> str:
        return str(self.settings.get("dedup", "off"))

    @property
    def max_receives(self) -> int:
        return int(self.settings.get("max_receives", 0))


@dataclass
class World:
    """All but the messages: small enough to be kept."""

    queues: dict[str, Queue] = field(default_factory=dict)
    # When the servers' clock was set ahead: claims may have ended then.
    leaps: list[float] = field(default_factory=list)
    # How inexactly the servers may measure time.
    slack_s: float = 0.05
    ledger_is_whole: bool = False
    moves_as_new: bool = False

    def queue(self, name: str) -> Queue:
        if name not in self.queues:
            self.queues[name] = Queue(name)
        return self.queues[name]

    def reachable(self, names: set[str]) -> list[Queue]:
        """These queues, and all to which messages may have gone from them."""
        found: set[str] = set()
        ahead = list(names)
        while ahead:
            name = ahead.pop()
            if name not in found:
                found.add(name)
                ahead.extend(self.queue(name).targets)
        return [self.queue(name) for name in found]

    def held_until(self, event: Event) -> float:
        """The last instant at which what this claim or renewal holds is held for certain, if no one ends it."""
        if "until" in event:
            until = float(event["until"])
        elif "hold_s" in event:
            until = event["begin"] + event["hold_s"] - self.slack_s
        else:
            until = 0.0
        return min([until, *(leap for leap in self.leaps if leap >= event["begin"])])

    def learn(self, event: Event) -> None:
        op = event["op"]
        if op == "queue":
            self.queue(event["queue"]).settings.update(event["settings"])
            if target := event["settings"].get("dead_letter_queue"):
                self.queue(target).may_gain = True
                self.queue(event["queue"]).targets.add(target)
        elif op in ("move", "purge", "unclaim"):
            self._learn_upheaval(event)
        elif op == "clock" and event["jump_s"] > 0:
            self.leaps.append(event["begin"])
        elif op == "precision":
            self.slack_s = event["slack_s"]
        elif op == "count":
            self.queue(event["queue"]).counts.append(event)
        elif op == "seen":
            for name in event["queues"]:
                self.queue(name).is_seen = True
            self.ledger_is_whole |= event.get("ledger", False)

    def _learn_upheaval(self, event: Event) -> None:
        if event["outcome"] not in (OK, PERHAPS):
            return
        source = self.queue(event["queue"])
        if event["op"] == "move":
            # It goes on in the background.
            source.upheavals.append((event["begin"], FOREVER))
            source.targets.add(event["target"])
            self.queue(event["target"]).may_gain = True
            self.moves_as_new |= event.get("as_new", False)
        else:
            source.upheavals.append((event["begin"], event["end"]))
            source.may_lose |= event["op"] == "purge"


def observations(
    event: Event, world: World, tried: float | None = None
) -> list[tuple[str, Sent | Claimed | Touched | Left]]:
    """What an event says of single messages, by their tags. `tried` is when a claim that is repeated was first asked
    for: it may have been made then."""
    at, op, queue = (event["client"], event["n"]), event["op"], event["queue"]
    begin, end, outcome = event["begin"], event["end"], event["outcome"]
    messages: list[Any] = event.get("messages", [])
    if op == "send":
        ids = event.get("ids") or [None] * len(messages)
        stored = event.get("stored") or [None] * len(messages)
        group, is_delayed, key = event.get("group"), bool(event.get("delay_s")), event.get("key")
        return [
            (tag, Sent(at, queue, begin, end, outcome, ids[n], stored[n], group, is_delayed, key))
            for n, tag in enumerate(messages)
        ]
    if op == "claim" and outcome == OK:
        until, name, is_shipment = world.held_until(event), event.get("name"), event.get("api") == "shipment"
        begin = begin if tried is None else tried
        return [
            (tag, Claimed(at, queue, begin, end, until, id, receipt, receives or 0, name, n, is_shipment))
            for n, (tag, id, receipt, receives) in enumerate(messages)
        ]
    if op in ("ack", "renew", "release"):
        done = event.get("done") or [None] * len(messages)
        until = world.held_until(event) if op == "renew" else 0.0
        return [
            (tag, Touched(at, op, queue, begin, end, outcome, done[n], id, receipt, until))
            for n, (tag, id, receipt) in enumerate(messages)
        ]
    if op == "left":
        return [(tag, Left(at, queue, begin, id)) for tag, id in messages]
    return []
