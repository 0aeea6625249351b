"""The unit of the memory store: its queues, the messages on their way through them, and the sweep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, dropwhile, islice, takewhile

from msgspec.structs import replace

from penstock import limits, policy
from penstock.errors import DeadLetterQueueNotFound, QueueExists
from penstock.model import Claimed, Count, Draft, Happened, Outcome, Queue, QueuePage, Receipt, Sent, Settings
from penstock.stores.figures import FigureBook
from penstock.stores.memory import collapses
from penstock.stores.memory.actions import MemoryActions
from penstock.stores.memory.claims import ClaimTerms, claim
from penstock.stores.memory.consumers import MemoryConsumers
from penstock.stores.memory.keys import MemoryKeys
from penstock.stores.memory.leases import MemoryLeases
from penstock.stores.memory.ledger import MemoryExports, MemoryLedger
from penstock.stores.memory.messages import MemoryMessages
from penstock.stores.memory.moves import MemoryMoves
from penstock.stores.memory.session import Session
from penstock.stores.memory.shipments import MemoryShipments
from penstock.stores.memory.tables import MessageRow, QueueRow


class MemoryUnit:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._tables = session.tables
        self.stirred = session.stirred
        self.sent_to = session.sent_to

    @property
    def happened(self) -> Happened:
        return self._tables.happened

    @property
    def figures(self) -> FigureBook:
        return self._tables.figures

    @property
    def messages(self) -> MemoryMessages:
        return MemoryMessages(self._session)

    @property
    def moves(self) -> MemoryMoves:
        return MemoryMoves(self._session)

    @property
    def shipments(self) -> MemoryShipments:
        return MemoryShipments(self._session)

    @property
    def leases(self) -> MemoryLeases:
        return MemoryLeases(self._session)

    @property
    def ledger(self) -> MemoryLedger:
        return MemoryLedger(self._session)

    @property
    def exports(self) -> MemoryExports:
        return MemoryExports(self._session)

    @property
    def consumers(self) -> MemoryConsumers:
        return MemoryConsumers(self._session)

    @property
    def keys(self) -> MemoryKeys:
        return MemoryKeys(self._session)

    @property
    def actions(self) -> MemoryActions:
        return MemoryActions(self._session)

    def prove_writable(self) -> None:
        pass

    # Queues

    def create_queue(self, name: str, settings: Settings, now: int) -> Queue:
        if self.find_queue(name) is not None:
            raise QueueExists(name)
        policy.check_settings(settings)
        self._check_redrive(settings)
        queue = Queue(max(self._tables.queues, default=0) + 1, name, now, settings, now)
        self._tables.put_queue(QueueRow(queue))
        return queue

    def update_queue(self, name: str, settings: Settings, now: int) -> Queue:
        former = self._session.queue(name)
        policy.check_settings(settings, former.settings)
        self._check_redrive(settings)
        queue = replace(former, settings=settings, modified_at=now)
        row = replace(self._tables.queues[queue.number], queue=queue)
        retention_ms = former.settings.retention_ms
        if settings.retention_ms < retention_ms:
            row = replace(row, kept_ms=max(row.kept_ms, retention_ms), lowered_through=self._tables.last_seq)
        self._tables.put_queue(row)
        return queue

    def delete_queue(self, name: str, now: int) -> Queue:
        deleted = self._session.queue(name)
        for queue in self._tables.living_queues():
            redrive = queue.settings.redrive
            if redrive is not None and redrive.dead_letter_queue == name:
                ended = replace(queue, settings=replace(queue.settings, redrive=None))
                self._tables.put_queue(replace(self._tables.queues[queue.number], queue=ended))
        self._tables.put_queue(replace(self._tables.queues[deleted.number], deleted=True))
        self.stirred.add(name)
        return deleted

    def pause_queue(self, name: str, now: int) -> Queue:
        former = self._session.queue(name)
        return former if former.paused_at is not None else self._set_paused_at(former, now)

    def resume_queue(self, name: str, now: int) -> Queue:
        former = self._session.queue(name)
        if former.paused_at is None:
            return former
        self.stirred.add(name)
        return self._set_paused_at(former, None)

    def _set_paused_at(self, former: Queue, paused_at: int | None) -> Queue:
        queue = replace(former, paused_at=paused_at)
        self._tables.put_queue(replace(self._tables.queues[queue.number], queue=queue))
        return queue

    def find_queue(self, name: str) -> Queue | None:
        return self._session.find_queue(name)

    def list_queues(self, offset: int, limit: int) -> QueuePage:
        queues = self._tables.living_queues()
        return QueuePage(len(queues), queues[offset : offset + limit])

    def page_queues(self, prefix: str, after: str, limit: int) -> list[Queue]:
        queues = [queue for queue in self._tables.living_queues() if queue.name.startswith(prefix)]
        return _after(queues, after)[:limit]

    def dead_letter_sources(self, queue: str, after: str, limit: int) -> list[Queue]:
        self._session.queue(queue)
        living = [(one, one.settings.redrive) for one in self._tables.living_queues()]
        sources = [one for one, redrive in living if redrive is not None and redrive.dead_letter_queue == queue]
        return _after(sources, after)[:limit]

    def take_turns(self, queues: Iterable[str]) -> None:
        """No other unit runs at the same time."""

    def _check_redrive(self, settings: Settings) -> None:
        if settings.redrive is not None and self.find_queue(settings.redrive.dead_letter_queue) is None:
            raise DeadLetterQueueNotFound(settings.redrive.dead_letter_queue)

    # Messages on their way through

    def send(self, queue: str, drafts: Sequence[Draft], now: int) -> list[Sent]:
        found = self._session.queue(queue)
        policy.refuse_own_delay(found.settings, drafts)
        return [self._session.send(found, draft, now) for draft in drafts]

    def claim(self, queue: str, limit: int, now: int, hold_ms: int | None) -> Claimed:
        found = self._session.queue(queue)
        hold = found.settings.visibility_ms if hold_ms is None else hold_ms
        terms = ClaimTerms(now + hold if hold > 0 else 0, self._session.limits.claim_bytes)
        return claim(self._session, found, limit, now, terms)

    def ack(self, receipts: Sequence[Receipt], now: int) -> list[bool]:
        results = []
        for receipt in receipts:
            row = self._session.match(receipt, now)
            if row is not None:
                self._tables.depart(row, Outcome.PROCESSED, now)
            results.append(row is not None)
        self._session.mend_lines(now)
        return results

    def count(self, queue: str, now: int, limit: int) -> Count:
        [count] = self.counts([self._session.queue(queue)], now, limit)
        return count

    def counts(self, queues: Sequence[Queue], now: int, limit: int) -> list[Count]:
        return [self._count(queue, now, limit) for queue in queues]

    def _count(self, queue: Queue, now: int, limit: int) -> Count:
        number = queue.number
        messages, order = self._tables.messages, self._tables.order[number]
        standing = [messages[seq] for ready_at, seq in islice(order, 1) if ready_at == 0]
        in_line = dropwhile(lambda place: place[0] == limits.BEHIND, reversed(order))
        held = takewhile(lambda place: place[0] > now, in_line)
        waiting = [messages[seq] for _, seq in islice(held, limit)]
        behind = list(islice(self._tables.in_order(number, limits.BEHIND), 1))
        due = takewhile(lambda row: row.ready_at <= now, self._tables.in_order(number, ready_at=1))
        run_out = list(islice(due, limit))
        backing_off, is_complete = self._backing_off(queue, now, limit)
        claimed = sum(not row.is_delayed for row in waiting)
        return Count(
            total=len(order),
            ready=len(order) - len(waiting) - backing_off,
            delayed=len(waiting) - claimed + backing_off,
            claimed=claimed,
            exact=len(waiting) < limit and is_complete,
            oldest_sent_at=min((row.sent_at for row in (*standing, *run_out, *waiting, *behind)), default=None),
            oldest_ready_sent_at=min((row.sent_at for row in (*standing, *run_out, *behind)), default=None),
        )

    def _backing_off(self, queue: Queue, now: int, limit: int) -> tuple[int, bool]:
        """How many claims have run out whose messages have not been put off yet, and whether these are all."""
        backoff = queue.settings.backoff
        if backoff is None:
            return 0, True
        lately = self._tables.in_order(queue.number, ready_at=max(0, now - backoff.most_ms) + 1)
        run_out = (row for row in takewhile(lambda row: row.ready_at <= now, lately) if not row.is_delayed)
        looked_at = list(islice(run_out, limit))
        return sum(self._session.backs_off(queue, row, now) for row in looked_at), len(looked_at) < limit

    def next_due(self, queue: str, now: int) -> int | None:
        found = self.find_queue(queue)
        if found is None or found.paused_at is not None:
            return None
        following = next(self._tables.in_order(found.number, ready_at=now + 1), None)
        return None if following is None or following.ready_at >= limits.SHIPPED else following.ready_at

    # Housekeeping

    def shrink(self, _limit: int) -> int:
        return 0

    def sweep(
        self, now: int, limit: int, ledger_before: int, actions_before: int = 0, ledger_bytes: int | None = None
    ) -> int:
        self.consumers.reap(now)
        freed = 0
        for number, row in sorted(self._tables.queues.items()):
            if row.deleted:
                freed += self._session.purge(number, now, limit - freed, self._tables.last_seq)
                self._forget_queue(number)
        freed += collapses.go_on(self._tables, now, limit - freed)
        freed += self._sweep_expired(now, limit - freed)
        freed += self.ledger.sweep(ledger_before, limit - freed, ledger_bytes)
        freed += self.actions.sweep(actions_before, limit - freed)
        freed += self.shipments.sweep(now, limit - freed)
        freed += self.leases.sweep(now, limit - freed)
        freed += self._tables.figures.sweep(now, limit - freed)
        return freed + self.exports.sweep(now) + self.messages.sweep(now) + self.moves.sweep(now)

    def _sweep_expired(self, now: int, limit: int) -> int:
        freed = 0
        for queue in self._tables.living_queues():
            self._session.promote(queue, now)
            row = self._tables.queues[queue.number]
            ready = chain(self._session.ready(queue), self._tables.in_order(queue.number, limits.BEHIND))
            expired = (message for message in ready if self._is_over(row, message, now))
            for message in islice(expired, limit - freed):
                self._tables.depart(message, Outcome.EXPIRED, now)
                freed += 1
            self._session.mend_lines(now)
        return freed

    def _forget_queue(self, number: int) -> None:
        """Once it is empty and no shipment and no lease of it is left. The next queue counts on from the latest."""
        tables = self._tables
        is_named = number in {queue for queue, *_ in (*tables.shipments, *tables.leases)}
        if not (tables.order[number] or is_named or number == max(tables.queues)):
            self._tables.forget_queue(number)

    @staticmethod
    def _is_over(here: QueueRow, message: MessageRow, now: int) -> bool:
        """Past its retention, also past the one it was sent under where that was lowered since."""
        kept_ms = here.kept_ms if message.seq <= here.lowered_through else 0
        return message.sent_at + max(here.queue.settings.retention_ms, kept_ms) <= now


def _after(queues: Sequence[Queue], name: str) -> list[Queue]:
    return sorted((queue for queue in queues if queue.name > name), key=lambda queue: queue.name)
