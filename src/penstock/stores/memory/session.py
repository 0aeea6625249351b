"""What the nouns of one unit share: the tables, the limits, and the few steps that more than one of them takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice, takewhile

from msgspec.structs import replace

from penstock import ids, limits, policy
from penstock.errors import QueueNotFound
from penstock.limits import Limits
from penstock.model import Dedup, Draft, Groups, Message, MessageState, Outcome, Queue, Receipt, Sent
from penstock.stores.figures import SENT, count
from penstock.stores.memory import collapses
from penstock.stores.memory.tables import MessageRow, SeenRow, Tables
from penstock.stores.move_step import Candidate


class Session:
    """One unit's state."""

    __slots__ = ("limits", "sent_to", "stirred", "tables")

    def __init__(self, tables: Tables, limits: Limits) -> None:
        self.tables = tables
        self.limits = limits
        self.stirred: set[str] = set()
        self.sent_to: set[str] = set()

    # Queues

    def find_queue(self, name: str) -> Queue | None:
        number = self.tables.numbers.get(name)
        return None if number is None else self.tables.queues[number].queue

    def queue(self, name: str) -> Queue:
        queue = self.find_queue(name)
        if queue is None:
            raise QueueNotFound(name)
        return queue

    # Messages

    def id_of(self, row: MessageRow) -> str:
        return ids.make_id(self.tables.origin, row.sent_at, row.seq)

    def message(self, queue: Queue, row: MessageRow) -> Message:
        return Message(
            id=self.id_of(row),
            seq=row.seq,
            queue=queue.name,
            body=row.draft.body,
            content_type=row.draft.content_type,
            attributes=row.draft.attributes or None,
            sent_at=row.sent_at,
            ready_at=row.ready_at,
            receives=row.receives,
            claim=row.claim,
            deadline_at=row.draft.deadline_at,
            came_from=row.came_from,
            group=row.draft.group,
            first_claimed_at=row.first_claimed_at,
        )

    def match(self, receipt: Receipt, now: int | None = None) -> MessageRow | None:
        """Without an instant, a claim need not last any more."""
        row = self.tables.messages.get(ids.seq_of(receipt.id) or 0)
        if row is None or row.ready_at == limits.SHIPPED or self.id_of(row) != receipt.id.lower():
            return None
        here = self.tables.queues[row.queue]
        fits = receipt.claim in (None, row.claim) and receipt.queue in (None, here.queue.name)
        if now is not None and receipt.claim is not None and here.queue.settings.groups is Groups.FIFO:
            fits = fits and now < row.ready_at != limits.BEHIND and not row.put_off
        return row if fits and not here.deleted else None

    def named(self, queue: Queue, message_id: str) -> MessageRow | None:
        """A message of a queue by its id, in any state."""
        row = self.tables.messages.get(ids.seq_of(message_id) or 0)
        fits = row is not None and row.queue == queue.number and self.id_of(row) == message_id.lower()
        return row if fits else None

    @staticmethod
    def state(queue: Queue, row: MessageRow, now: int) -> MessageState:
        return policy.state(queue.settings, now, row.ready_at, row.receives, not row.is_delayed)

    def candidate(self, queue: Queue, row: MessageRow, now: int) -> Candidate:
        return Candidate(
            row.seq,
            row.ready_at,
            self.state(queue, row, now),
            row.sent_at,
            row.receives,
            row.draft.content_type,
            row.came_from,
            row.last_claimed_at,
        )

    def within(self, seqs: Sequence[int], budget: int) -> Iterator[MessageRow]:
        """Messages in the order of `peek`, until their bodies and attributes come to `budget`; at least one."""
        for row in sorted((self.tables.messages[seq] for seq in seqs), key=lambda row: (row.ready_at, row.seq)):
            if budget <= 0:
                break
            budget -= row.size
            yield row

    def ready(self, queue: Queue) -> Iterator[MessageRow]:
        return takewhile(lambda row: row.ready_at == 0, self.tables.in_order(queue.number))

    def ready_or_behind(self, queue: Queue, after: int = 0) -> Iterator[MessageRow]:
        """By age, those that are ready, and those that would be if none of their group were before them."""
        rows = self.tables.in_order
        ready = takewhile(lambda row: row.ready_at == 0, rows(queue.number, 0, after))
        return merge(ready, rows(queue.number, limits.BEHIND, after), key=lambda row: row.seq)

    # Arrivals

    def send(self, queue: Queue, draft: Draft, now: int, numbered: tuple[int, int] | None = None) -> Sent:
        """`numbered` is the sequence number the message has already, and when it was sent."""
        tables, settings = self.tables, queue.settings
        self.sent_to.add(queue.name)
        hashed = ids.body_hash(draft.body)
        key = policy.dedup_key(settings, draft, hashed)
        if settings.dedup is Dedup.SEND:
            twin = self.twin(queue, key, now)
            if twin is not None:
                return Sent(self.id_of(twin), False)
        window_key = policy.window_key(settings, draft, hashed) if settings.dedup is Dedup.WINDOW else None
        if window_key is not None:
            seen = tables.seen.get((queue.number, window_key))
            if seen is not None and seen.until > now and not seen.forgotten:
                return Sent(ids.make_id(tables.origin, seen.sent_at, seen.seq), False)
        if numbered is None:
            tables.last_seq += 1
        seq, sent_at = numbered or (tables.last_seq, now)
        if window_key is not None:
            tables.put_seen((queue.number, window_key), SeenRow(seq, sent_at, now + settings.dedup_window_ms))
        ready_at = policy.ready_at(settings, draft.delay_ms, now)
        if draft.group is not None and (queue.number, draft.group) in tables.lines:
            ready_at = limits.BEHIND
        row = MessageRow(seq, queue.number, sent_at, draft, hashed, key, ready_at)
        tables.arrive(row)
        count(tables.happened, queue.number, SENT, 1)
        self.mend_lines(now)
        return Sent(self.id_of(row), True)

    def twin(self, queue: Queue, key: bytes | None, now: int) -> MessageRow | None:
        if key is None:
            return None
        for row in self.tables.with_key(queue.number, key):
            if collapses.is_doomed(self.tables, row):
                continue
            if not policy.is_expired(queue.settings, now, row.sent_at):
                return row
            self.tables.put_message(replace(row, dedup_key=None))
        return None

    def carry_over(self, row: MessageRow, there: Queue, outcome: Outcome, now: int, as_new: bool = False) -> None:
        """A message leaves its queue for another, where it has never been received. The caller mends lines, once all
        that go together have gone."""
        tables = self.tables
        key = row.dedup_key
        is_twin = False
        if row.queue != there.number:
            key = policy.dedup_key_on_arrival(there.settings, key, row.body_hash)
            is_twin = there.settings.dedup is not Dedup.CLAIM and self.twin(there, key, now) is not None
        tables.depart(row, outcome, now)
        if not is_twin:
            self.stirred.add(there.name)
            ready_at = row.ready_at if row.waits(now) else 0
            if as_new:
                tables.last_seq += 1
                ready_at = policy.ready_at(there.settings, None, now)
                row = replace(row, seq=tables.last_seq, sent_at=now, claim=0, came_from=None)
            if policy.waits_in_line(there.settings, row.draft.group):
                ready_at = limits.BEHIND
            arriving = replace(
                row,
                queue=there.number,
                dedup_key=key,
                ready_at=ready_at,
                receives=0,
                first_claimed_at=None,
                last_claimed_at=None,
                put_off=False,
                came_from=self._origin(row, there, outcome),
            )
            tables.arrive(collapses.spared(tables, arriving))

    def _origin(self, row: MessageRow, there: Queue, outcome: Outcome) -> str | None:
        """Where a message that arrives in a queue has come from as a dead letter."""
        if outcome is Outcome.DEAD_LETTERED and row.queue != there.number:
            return self.tables.queues[row.queue].queue.name
        return None if row.came_from == there.name else row.came_from

    # Lines

    def mend_lines(self, now: int) -> None:
        """Of each line that was changed, only the first message may be ready, and it does not wait behind another."""
        tables = self.tables
        for line, touched in sorted(tables.touched.items()):
            # Where others have come before it, the one that was the first has not been changed itself.
            near = tables.lines.get(line, [])[: len(touched) + 1]
            if near:
                self._mend_first(line, tables.messages[near[0]], now)
            for seq in touched.union(near).difference(near[:1]):
                row = tables.messages.get(seq)
                if row is not None and row.ready_at == 0 and (row.queue, row.draft.group) == line:
                    tables.put_message(replace(row, ready_at=limits.BEHIND))
        tables.touched.clear()

    def _mend_first(self, line: tuple[int, str], row: MessageRow, now: int) -> None:
        if row.ready_at == limits.BEHIND:
            here = self.tables.queues[line[0]].queue
            ready_at = policy.line_ready_at(here.settings, now, row.sent_at, row.receives)
            self.tables.put_message(replace(row, ready_at=ready_at))
            self.stirred.add(here.name)

    # Ends of claims and delays

    def promote(self, queue: Queue, now: int) -> None:
        """Delays and claims that have run out: ready again, in their old place."""
        due = takewhile(lambda row: row.ready_at <= now, self.tables.in_order(queue.number, ready_at=1))
        for row in due:
            backs_off = self.backs_off(queue, row, now)
            self._set_ready_at(row, row.ready_at + self._backoff(queue, row) if backs_off else 0)
        self.mend_lines(now)

    def backs_off(self, queue: Queue, row: MessageRow, now: int) -> bool:
        """Whether the claim on a message has run out so lately that its backoff lasts."""
        return 0 < row.ready_at <= now < row.ready_at + self._backoff(queue, row)

    @staticmethod
    def _backoff(queue: Queue, row: MessageRow) -> int:
        return 0 if row.is_delayed else policy.backoff_ms(queue.settings, row.receives)

    def make_ready(self, row: MessageRow, ready_at: int = 0) -> None:
        self._set_ready_at(row, ready_at)
        self.stirred.add(self.tables.queues[row.queue].queue.name)

    def _set_ready_at(self, row: MessageRow, ready_at: int) -> None:
        claim = max(row.claim, 1) if ready_at > 0 else row.claim
        self.tables.put_message(replace(row, ready_at=ready_at, claim=claim, put_off=row.put_off or ready_at > 0))

    # Departures

    def purge(self, number: int, now: int, limit: int, through: int) -> int:
        """The same as the verb, of a queue by its number."""
        doomed = list(islice((row for row in self.tables.in_order(number) if row.seq <= through), limit))
        for row in doomed:
            self.tables.depart(row, Outcome.PURGED, now)
        self.mend_lines(now)
        return len(doomed)
