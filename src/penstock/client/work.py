"""What a worker decides, whether it runs in threads or in tasks: how much to claim, what becomes of a message when its
handler is done, how long to wait, and what to tell. It never talks to a server, and never waits itself.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import uuid4

from penstock.client import verbs
from penstock.client.errors import ClientError, ServerFailed, Unreachable
from penstock.client.requests import Moot, Request
from penstock.client.values import ClaimedMessage

log = logging.getLogger("penstock.worker")

_MOST_HELD = 10_000


class Retry(Exception):
    """For a handler to raise: the message cannot be handled now. It comes back after `delay_ms`, or after the worker's
    backoff."""

    def __init__(self, reason: str = "", *, delay_ms: int | None = None) -> None:
        super().__init__(reason)
        self.delay_ms = delay_ms


class Discard(Exception):
    """For a handler to raise: the message will never be handled. It is acked, and does not come back."""


@dataclass(slots=True)
class Worked:
    """What became of the messages that a worker claimed."""

    acked: int = 0
    """Handled, and finished."""
    discarded: int = 0
    """Finished because the handler raised `Discard`."""
    released: int = 0
    """Given back because the handler raised anything else: they come again after a delay."""
    returned: int = 0
    """Given back at once because the worker stopped, or because one of the same group before it was not finished: no
    handler had begun or, in asyncio, it was cancelled."""
    lost: int = 0
    """The claim had ended before the server was told, so they were delivered again although they may be done."""
    unfinished: int = 0
    """Neither acked nor released when the worker's time to stop was over: they come again when their claims run out."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of `work`. Raises ValueError for those that make no sense."""

    queue: str
    concurrency: int
    limit: int | None
    hold_ms: int
    wait_ms: int
    backoff_ms: int | None
    longest_backoff_ms: int
    grace_s: float
    until_empty: bool
    in_order: bool = True

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError("a worker's concurrency is 1 or more")
        if not self.concurrency <= self.most_held <= _MOST_HELD:
            raise ValueError(f"a worker's limit is between its concurrency and {_MOST_HELD:,}")
        if self.hold_ms < 100:
            raise ValueError("a worker's hold_ms is 100 or more, or it could not renew in time")
        if self.wait_ms < 0 or self.longest_backoff_ms < 0 or (self.backoff_ms or 0) < 0 or self.grace_s < 0:
            raise ValueError("wait_ms, backoff_ms, longest_backoff_ms and grace_s are not negative")

    @property
    def most_held(self) -> int:
        return self.concurrency if self.limit is None else self.limit

    @property
    def renew_every_s(self) -> float:
        """Two renewals may fail, and the third is still in time."""
        return self.hold_ms / 3000

    def wanted(self, held: int) -> int:
        """How many to claim, when so many are held. As long as every handler has something to do, only when what lies
        ahead is half used up: one large claim costs the server less than many small ones."""
        ahead = self.most_held - self.concurrency
        enough = self.concurrency + ahead // 2 + 1 if ahead else self.concurrency
        return self.most_held - held if held < enough else 0

    def delay_ms(self, message: ClaimedMessage) -> int | None:
        """None leaves it to the queue."""
        if self.backoff_ms is None:
            return None
        doublings = min(max(message.receives, 1) - 1, 40)
        return int(min(self.backoff_ms * 2**doublings, self.longest_backoff_ms))


@dataclass(frozen=True, slots=True)
class Verdict:
    """`outcome` is the field of `Worked` that it counts for."""

    outcome: str
    delay_ms: int | None = None
    error: BaseException | None = None

    @property
    def acks(self) -> bool:
        return self.outcome in ("acked", "discarded")

    def report(self, queue: str, messages: list[ClaimedMessage]) -> Request[list[bool]] | Moot[list[bool]]:
        """How the server is told."""
        return verbs.ack(queue, messages) if self.acks else verbs.release(queue, messages, self.delay_ms)


RETURNED = Verdict("returned", 0)


def new_attempt() -> str:
    """A name for a claim, which keeps it while it is tried again: messages whose answer was lost come with the next."""
    return uuid4().hex


def verdict_on(message: ClaimedMessage, error: BaseException | None, plan: Plan) -> Verdict:
    """What is to become of a message whose handler has ended, with that error or with none."""
    match error:
        case None:
            return Verdict("acked")
        case Discard():
            return Verdict("discarded", error=error)
        case Retry() if error.delay_ms is not None:
            return Verdict("released", error.delay_ms, error)
    return Verdict("released", plan.delay_ms(message), error)


@dataclass(frozen=True, slots=True)
class GroupLine:
    """The messages of a group that wait for the one in hand."""

    in_hand: str
    waiting: deque[ClaimedMessage] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class Following:
    """What one message makes of others of its group: the next is to be handled, or all are to be given back."""

    handled: list[ClaimedMessage] = field(default_factory=list)
    given_back: list[ClaimedMessage] = field(default_factory=list)


class GroupLines:
    """Sees to it that a worker handles the messages of a group one after another, and none after one that was not
    finished: that one comes again, and before the others."""

    def __init__(self) -> None:
        self._lines: dict[str, GroupLine] = {}

    def enter(self, messages: Iterable[ClaimedMessage]) -> list[ClaimedMessage]:
        """Those that are to be handled now."""
        now = []
        for message in messages:
            line = None if message.group is None else self._lines.get(message.group)
            if line is not None:
                line.waiting.append(message)
                continue
            now.append(message)
            if message.group is not None:
                self._lines[message.group] = GroupLine(message.receipt)
        return now

    def leave(self, message: ClaimedMessage, finished: bool) -> Following:
        """What follows the one in hand."""
        group = message.group
        line = None if group is None else self._lines.get(group)
        if group is None or line is None or line.in_hand != message.receipt:
            return Following()
        if not finished or not line.waiting:
            del self._lines[group]
            return Following(given_back=list(line.waiting))
        following = line.waiting.popleft()
        self._lines[group] = GroupLine(following.receipt, line.waiting)
        return Following([following])

    def end(self) -> list[ClaimedMessage]:
        """All that wait: nothing follows any more."""
        waiting = [message for line in self._lines.values() for message in line.waiting]
        self._lines.clear()
        return waiting


@dataclass
class Book:
    """The messages that a worker holds, and what became of the others."""

    queue: str
    in_order: bool = True
    worked: Worked = field(default_factory=Worked)
    held: dict[str, ClaimedMessage] = field(default_factory=dict)
    lines: GroupLines = field(default_factory=GroupLines)
    _reporting: set[str] = field(default_factory=set)
    _lost: set[str] = field(default_factory=set)

    def take(self, messages: list[ClaimedMessage]) -> list[ClaimedMessage]:
        """Those of them that are to be handled now."""
        self.held.update((message.receipt, message) for message in messages)
        return self.lines.enter(messages) if self.in_order else messages

    def renewable(self) -> list[str]:
        return [receipt for receipt in self.held if receipt not in self._reporting and receipt not in self._lost]

    def renewed(self, receipts: list[str], done: list[bool]) -> None:
        for receipt, held in zip(receipts, done, strict=True):
            # For one that is being reported just now, the answer to that tells.
            if not held and receipt in self.held and receipt not in self._reporting:
                self._lost.add(receipt)
                log.warning("lost the claim on message %s of %s: it is delivered again", self._id(receipt), self.queue)

    def is_lost(self, message: ClaimedMessage) -> bool:
        return message.receipt in self._lost

    def begin_report(self, messages: Iterable[ClaimedMessage]) -> None:
        self._reporting.update(message.receipt for message in messages)

    def reported(self, messages: list[ClaimedMessage], verdict: Verdict, done: list[bool]) -> Following:
        following = Following()
        for message, was_held in zip(messages, done, strict=True):
            self._leave(message, verdict.outcome if was_held else "lost")
            follows = self.lines.leave(message, verdict.acks and was_held)
            following.handled.extend(follows.handled)
            following.given_back.extend(follows.given_back)
            if was_held:
                _tell(message, verdict)
                continue
            log.warning(
                "message %s of %s was %s too late: its claim had ended, and it is delivered again",
                *(message.id, self.queue, "handled" if verdict.acks else verdict.outcome),
            )
        return following

    def unreported(self, messages: list[ClaimedMessage], verdict: Verdict) -> None:
        for message in messages:
            self._leave(message, "unfinished")
            log.warning(
                "message %s of %s could not be %s: it is delivered again when its claim runs out",
                *(message.id, self.queue, verdict.outcome),
            )

    def close(self) -> None:
        """What is still held now is not waited for."""
        self.worked.unfinished += len(self.held)
        for message in self.held.values():
            log.warning("did not wait for message %s of %s any longer", message.id, self.queue)
        log.info("stopped working on %s: %s", self.queue, self.worked)

    def _leave(self, message: ClaimedMessage, outcome: str) -> None:
        self.held.pop(message.receipt, None)
        self._reporting.discard(message.receipt)
        self._lost.discard(message.receipt)
        setattr(self.worked, outcome, getattr(self.worked, outcome) + 1)

    def _id(self, receipt: str) -> str:
        return self.held[receipt].id


def _tell(message: ClaimedMessage, verdict: Verdict) -> None:
    name = f"message {message.id} of {message.queue}"
    if verdict.outcome == "released":
        after = "" if verdict.delay_ms is None else f" for {verdict.delay_ms} ms"
        # A Retry is said on purpose; anything else is news.
        if isinstance(verdict.error, Retry):
            log.info("released %s%s: %s", name, after, verdict.error)
        else:
            log.warning("released %s%s: its handler failed", name, after, exc_info=verdict.error)
    elif verdict.outcome == "discarded":
        log.warning("discarded %s: %s", name, verdict.error)
    else:
        log.debug("%s %s", verdict.outcome, name)


class Reachability:
    """Whether the server answers: said when that changes, and not with every request."""

    def __init__(self) -> None:
        self._away = False

    def answered(self) -> None:
        if self._away:
            self._away = False
            log.info("the server answers again")

    def failed(self, error: ClientError) -> None:
        """Raises the error again, if trying again cannot help."""
        if not isinstance(error, Unreachable | ServerFailed):
            raise error
        if not self._away:
            self._away = True
            log.warning("%s; trying until the server answers", error)
