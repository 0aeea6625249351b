"""What a caller has asked for and has not been told yet, and how a unit serves many of them at once.

Sends, claims and acks are operations of their own, because those of many callers become one call of the store:
sixty-four claims of one are one claim of sixty-four, dealt out in the order of arrival. Every other verb is a task: a
plain value with its arguments, which `Work` carries to a unit.

All operations of a unit come from callers who are waiting at the same time, so their order among each other is ours to
choose: tasks first, then sends, so that a claim in the same unit already finds them.
"""

from __future__ import annotations

import logging
from asyncio import TimerHandle
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol

from penstock.broker.pace import Pace
from penstock.errors import CallerError
from penstock.limits import Limits
from penstock.model import Draft, Groups, Message, Receipt, Sent, Settings
from penstock.pending import Pending
from penstock.stores.protocol import Unit, ensure_queue, needed

log = logging.getLogger(__name__)

UNSERVED = object()


class Operation(Pending[Any]):
    """One request, and the answer to it that is still to come.

    `result` is filled inside the unit and told only after the unit has ended well.
    """

    __slots__ = ("busy_since", "given_up", "is_step", "result", "rows", "since")
    writes = True

    def __init__(self, rows: int = 1) -> None:
        super().__init__()
        # Messages that it brings.
        self.rows = rows
        # Whether it is long work that others need not wait for.
        self.is_step = False
        self.result: Any = UNSERVED
        # When it first found the store locked by another process, and since when it waits for the store, in the event
        # loop's time.
        self.busy_since = 0.0
        self.since = 0.0
        self.given_up = False

    def is_patient(self) -> bool:
        """Whether it waits for the store however long it takes."""
        return False

    def is_late(self, since: float) -> bool:
        """Whether it has waited since then or longer, and its caller should be told."""
        return self.since <= since and not self.given_up and not self.is_patient()

    def give_up(self, error: Exception) -> None:
        """Tell the caller an error, although a thread may still be at work on it: what comes of that is not told."""
        self.given_up = True
        self.reject(error)

    def fail(self, error: Exception) -> None:
        # Its traceback knows the frames it came through, and they know the operations: a cycle, which would keep
        # their messages in memory until the garbage collector comes round.
        self.result = error.with_traceback(None)

    def tell(self) -> None:
        """Hand the result over; its listener goes on in this very call."""
        if isinstance(self.result, Exception):
            self.reject(self.result)
        else:
            self.resolve(self.result)


def tell(operation: Operation) -> None:
    """A listener runs in the stack of its caller: if one fails, the others of its unit must be told all the same."""
    try:
        operation.tell()
    except Exception:
        log.exception("a listener has failed on a result")


class Send(Operation):
    """`create_as` are the settings with which a queue that does not exist comes into being."""

    __slots__ = ("create_as", "drafts", "queue")

    def __init__(self, queue: str, drafts: Sequence[Draft], create_as: Settings | None) -> None:
        super().__init__(len(drafts))
        self.create_as = create_as
        self.queue = queue
        self.drafts = drafts


class SendOnce(Send):
    """A send that is known again by its key; `digest` stands for its content."""

    __slots__ = ("digest", "key")

    def __init__(self, queue: str, drafts: Sequence[Draft], key: str, digest: bytes) -> None:
        super().__init__(queue, drafts, None)
        self.key = key
        self.digest = digest


class Claim(Operation):
    """`wait_until` is in the event loop's time; `attempt` is the name by which it may be repeated; `due` is when the
    queue has its next message, if that is known; `lookers` is how many waiting claims look for a message together with
    this one, if it looks again."""

    __slots__ = ("attempt", "due", "has_waited", "hold_ms", "limit", "lookers", "queue", "timer", "wait_until")

    def __init__(
        self, queue: str, limit: int, hold_ms: int | None, wait_until: float, attempt: str | None = None
    ) -> None:
        super().__init__()
        self.attempt = attempt
        self.queue = queue
        self.limit = limit
        self.hold_ms = hold_ms
        self.wait_until = wait_until
        self.due: int | None = None
        self.timer: TimerHandle | None = None
        self.has_waited = False
        self.lookers = 0

    def stop_waiting(self) -> bool:
        """Its caller has gone before it was known whether it has to wait: it takes what is there, or nothing."""
        self.wait_until = 0.0
        return False

    def is_patient(self) -> bool:
        """A claim that waits for a message can wait for the store as well."""
        return self.has_waited and self.wait_until > 0.0

    def give_up(self, error: Exception) -> None:
        if self.timer is not None:
            self.timer.cancel()
        super().give_up(error)

    def tell(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        super().tell()


class Ack(Operation):
    __slots__ = ("receipts",)

    def __init__(self, receipts: Sequence[Receipt]) -> None:
        super().__init__(len(receipts))
        self.receipts = receipts


class Task(Protocol):
    """A verb and its arguments: a value that changes nothing by itself and may be applied again in another unit.

    `writes` says whether it changes the store. What `apply` returns is told to the caller, but for `Again`. The limits
    say how much it may do in one unit: see `pace.py`. One with a true `is_bulk` belongs to bulk work: see `Calm`.
    """

    writes: ClassVar[bool]

    def apply(self, unit: Unit, now: int, limits: Limits) -> Any: ...


class Again:
    """What a task returns that has more to do than one unit should: the task for the next unit.

    It counts only when the unit has ended well. A unit that is lost is begun again with the task it had.
    """

    __slots__ = ("task",)

    def __init__(self, task: Task) -> None:
        self.task = task


class Work(Operation):
    """A task on its way. Housekeeping is `patient`: no caller waits for it, and begun again before its end it would
    only keep another thread busy."""

    __slots__ = ("patient", "task", "writes")

    def __init__(self, task: Task, patient: bool = False) -> None:
        super().__init__()
        self.task = task
        self.writes = task.writes
        self.patient = patient
        self.is_step = patient

    def is_patient(self) -> bool:
        return self.patient


def serve(unit: Unit, operations: list[Operation], now: int, limits: Limits, pace: Pace) -> None:
    """Apply operations to a unit and leave each one's result in it.

    A `CallerError` is the result of the one operation that caused it. Operations left unserved want another unit.
    """
    sends: dict[str, list[Send]] = {}
    waiting: list[Claim] = []
    acks: list[Ack] = []
    works: list[Work] = []
    for operation in operations:
        if isinstance(operation, Send):
            sends.setdefault(operation.queue, []).append(operation)
        elif isinstance(operation, Claim):
            waiting.append(operation)
        elif isinstance(operation, Ack):
            acks.append(operation)
        elif isinstance(operation, Work):
            works.append(operation)
    claims = _grouped(waiting, limits.claim_rows)
    # In one order everywhere: two servers that take turns at the same queues must not wait for each other.
    unit.take_turns(_Turns(sends, claims, acks))
    if works:
        _serve_works(unit, works, now, pace)
    for queue, group in sorted(sends.items()):
        _serve_sends(unit, queue, group, now)
    if acks:
        _serve_acks(unit, acks, now)
    for (queue, hold_ms), asked in sorted(claims.items(), key=lambda item: item[0][0]):
        _serve_claims(unit, queue, hold_ms, asked, now)


def _grouped(claims: list[Claim], rows: int) -> dict[tuple[str, int | None], list[Claim]]:
    """Those that may be one claim of the store, and take so many rows in all, in the order of their arrival: the others
    want another unit."""
    groups: dict[tuple[str, int | None], list[Claim]] = {}
    wanted = 0
    for claim in claims:
        if wanted and wanted + claim.limit > rows:
            break
        wanted += claim.limit
        groups.setdefault((claim.queue, claim.hold_ms), []).append(claim)
    return groups


class _Turns:
    """The queues that operations name, for a store that wants to know."""

    def __init__(
        self, sends: dict[str, list[Send]], claims: dict[tuple[str, int | None], list[Claim]], acks: list[Ack]
    ) -> None:
        self._sends = sends
        self._claims = claims
        self._acks = acks

    def __iter__(self) -> Iterator[str]:
        named = {receipt.queue for ack in self._acks for receipt in ack.receipts if receipt.queue is not None}
        return iter(named.union(self._sends, (queue for queue, _ in self._claims)))


def _serve_works(unit: Unit, works: list[Work], now: int, pace: Pace) -> None:
    """All of those that were always quick, and of the others as many as there is time for, at least one. A step has
    less time than a request."""
    began = ended = pace.stopwatch()
    for work in works:
        kind = work.task.__class__.__name__
        if ended - began >= (pace.step_s if work.is_step else pace.unit_s) and pace.is_slow(kind):
            continue
        try:
            work.result = work.task.apply(unit, now, pace.limits(kind))
        except CallerError as error:
            work.fail(error)
        begun, ended = ended, pace.stopwatch()
        pace.note(kind, ended - begun)


def _serve_sends(unit: Unit, queue: str, group: list[Send], now: int) -> None:
    together: list[Send] = []
    for send in group:
        if isinstance(send, SendOnce):
            _serve_send_once(unit, send, now)
        else:
            together.append(send)
    if together:
        _serve_sends_together(unit, queue, together, now)


def _serve_sends_together(unit: Unit, queue: str, group: list[Send], now: int) -> None:
    drafts = [draft for send in group for draft in send.drafts]
    try:
        settings = next((send.create_as for send in group if send.create_as is not None), None)
        if settings is not None:
            ensure_queue(unit, queue, settings, now)
        sent: list[Sent] = unit.send(queue, drafts, now)
    except CallerError as error:
        if len(group) == 1:
            group[0].fail(error)
        else:
            for send in group:
                _serve_sends_together(unit, queue, [send], now)
        return
    deal_out(sent, group)


def deal_out(sent: list[Sent], sends: list[Send]) -> None:
    """The results of sends that were one call of the store."""
    start = 0
    for send in sends:
        end = start + len(send.drafts)
        send.result = sent[start:end]
        start = end


def _serve_send_once(unit: Unit, send: SendOnce, now: int) -> None:
    try:
        send.result = needed(unit.messages, "messages").send_once(send.queue, send.key, send.digest, send.drafts, now)
    except CallerError as error:
        send.fail(error)


def _serve_acks(unit: Unit, acks: list[Ack], now: int) -> None:
    receipts = [receipt for ack in acks for receipt in ack.receipts]
    finished = unit.ack(receipts, now)
    start = 0
    for ack in acks:
        end = start + len(ack.receipts)
        ack.result = finished[start:end]
        start = end


def _serve_claims(unit: Unit, queue: str, hold_ms: int | None, asked: list[Claim], now: int) -> None:
    wanted = sum([claim.limit for claim in asked])
    try:
        if _are_one(unit, queue, asked):
            _claim_together(unit, queue, hold_ms, asked, wanted, now)
        else:
            for claim in asked:
                _claim_alone(unit, claim, now)
    except CallerError as error:
        for claim in asked:
            claim.fail(error)
        return
    if any(claim.wait_until and claim.result == [] for claim in asked):
        due = unit.next_due(queue, now)
        for claim in asked:
            claim.due = due


def _are_one(unit: Unit, queue: str, claims: list[Claim]) -> bool:
    """Whether claims may be one claim of the store. Not where messages have groups: those of one group that it took
    together would go to several callers."""
    for claim in claims:
        if claim.attempt is not None:
            return False
    if len(claims) == 1:
        return True
    found = unit.find_queue(queue)
    return found is None or found.settings.groups is Groups.OFF


def _claim_together(unit: Unit, queue: str, hold_ms: int | None, claims: list[Claim], wanted: int, now: int) -> None:
    claimed = unit.claim(queue, wanted, now, hold_ms)
    messages: list[Message] = claimed.messages
    start = 0
    for claim in claims:
        share = messages[start : start + claim.limit]
        start += len(share)
        if share or not claimed.more:
            claim.result = share


def _claim_alone(unit: Unit, claim: Claim, now: int) -> None:
    if claim.attempt is None:
        claimed = unit.claim(claim.queue, claim.limit, now, claim.hold_ms)
    else:
        messages = needed(unit.messages, "messages")
        claimed = messages.claim_once(claim.queue, claim.attempt, claim.limit, now, claim.hold_ms)
    if claimed.messages or not claimed.more:
        claim.result = claimed.messages
