"""Operations are served in a unit of the store, many at once. This may run in a thread, and tells no caller anything.

Like operations on one queue become one call of the store: sixty-four claims of one are one claim of sixty-four,
dealt out in the order of arrival. All operations of a unit come from callers who are waiting at the same time, so
their order among each other is ours to choose: tasks first, then sends, so that a claim in the same unit already finds
them.
"""

from __future__ import annotations

import logging

from penstock.broker.operations import UNSERVED, Ack, Claim, Operation, Send, SendOnce, Work
from penstock.clock import Clock
from penstock.errors import CallerError, PenstockError, StoreBusy, StoreFull, StoreUnavailable
from penstock.limits import Limits
from penstock.model import Message, Sent
from penstock.stores.ensuring import ensure_queue
from penstock.stores.protocol import Store, Unit, needed

log = logging.getLogger(__name__)

_READINGS = 5
_JUMP_MS = 1_000


class Units:
    def __init__(self, store: Store, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits

    def serve(self, operations: list[Operation]) -> set[str]:
        """Serve all in one unit; where that fails, each in one of its own, so that a request fails alone.

        Returns the queues in which messages have become ready by other means than a send.
        """
        again: list[list[Operation]] = []
        try:
            return self._serve_in_one(operations)
        except StoreBusy as error:
            _fail(operations, error)
            # Those that only read need not wait until the other process has written.
            looking = [operation for operation in operations if not operation.writes]
            if 0 < len(looking) < len(operations):
                again = [looking]
        except StoreUnavailable as error:
            _fail(operations, error)
        except Exception as error:
            if len(operations) == 1:
                _fail(operations, error)
            else:
                again = [[operation] for operation in operations]
        # Not in a handler: there, an error would remember the one before it, and all of its frames.
        for group in again:
            for operation in group:
                operation.result = UNSERVED
        return set().union(*map(self.serve, again))

    def _serve_in_one(self, operations: list[Operation]) -> set[str]:
        if not self._store.has_room():
            full = StoreFull("the device of the store is nearly full; claims and acks go on")
            _fail([operation for operation in operations if isinstance(operation, Send)], full)
            operations = [operation for operation in operations if operation.result is UNSERVED]
        writes = any(operation.writes for operation in operations)
        with self._store.unit(writes) as unit:
            _serve(unit, operations, self.now(), self._limits)
        return unit.stirred

    def now(self) -> int:
        """The time that all servers on this store agree on. Should our clock be set between two readings of it, a
        message would look as much older as it was set forward: then we read again."""
        for _ in range(_READINGS):
            own = self._clock()
            now = own + self._store.ahead_ms
            if 0 <= self._clock() - own < _JUMP_MS:
                break
        return now


def _fail(operations: list[Operation], error: Exception) -> None:
    if not isinstance(error, PenstockError):
        log.error("an operation failed", exc_info=error)
    for operation in operations:
        operation.fail(error)


def _serve(unit: Unit, operations: list[Operation], now: int, limits: Limits) -> None:
    """Apply operations to a unit and leave each one's result in it.

    A `CallerError` is the result of the one operation that caused it. Operations left unserved want another unit.
    """
    sends: dict[str, list[Send]] = {}
    claims: dict[tuple[str, int | None], list[Claim]] = {}
    acks: list[Ack] = []
    for operation in operations:
        if isinstance(operation, Send):
            sends.setdefault(operation.queue, []).append(operation)
        elif isinstance(operation, Claim):
            claims.setdefault((operation.queue, operation.hold_ms), []).append(operation)
        elif isinstance(operation, Ack):
            acks.append(operation)
        elif isinstance(operation, Work):
            _serve_work(unit, operation, now, limits)
    # In one order everywhere: two servers that take turns at the same queues must not wait for each other.
    for queue, group in sorted(sends.items()):
        _serve_sends(unit, queue, group, now)
    if acks:
        _serve_acks(unit, acks, now)
    for (queue, hold_ms), waiting in sorted(claims.items(), key=lambda item: item[0][0]):
        _serve_claims(unit, queue, hold_ms, waiting, now, limits)


def _serve_work(unit: Unit, operation: Work, now: int, limits: Limits) -> None:
    try:
        operation.result = operation.task.apply(unit, now, limits)
    except CallerError as error:
        operation.fail(error)


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
        for send in group:
            send.fail(error)
        return
    start = 0
    for send in group:
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


def _serve_claims(unit: Unit, queue: str, hold_ms: int | None, group: list[Claim], now: int, limits: Limits) -> None:
    wanted = 0
    asked = []
    for claim in group:
        if wanted and wanted + claim.limit > limits.claim_rows:
            break  # the others want another unit
        wanted += claim.limit
        asked.append(claim)
    try:
        claimed = unit.claim(queue, wanted, now, hold_ms)
    except CallerError as error:
        for claim in group:
            claim.fail(error)
        return
    messages: list[Message] = claimed.messages
    start = 0
    for claim in asked:
        share = messages[start : start + claim.limit]
        start += len(share)
        if share or not claimed.more:
            claim.result = share
    if any(claim.wait_until and claim.result == [] for claim in asked):
        due = unit.next_due(queue, now)
        for claim in asked:
            claim.due = due
