"""Messages taken in hand one by one, in the memory store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from penstock import limits, policy
from penstock.errors import SendConflict
from penstock.model import (
    Claimed,
    Dealing,
    Draft,
    Found,
    Message,
    Outcome,
    PeekAfter,
    Purged,
    Queue,
    Receipt,
    Scan,
    Selection,
    SentOnce,
)
from penstock.stores import scan_step
from penstock.stores.dealing import deal
from penstock.stores.memory.claims import ClaimTerms, claim
from penstock.stores.memory.session import Session
from penstock.stores.memory.tables import AttemptRow, MessageRow, SendingRow
from penstock.stores.move_step import Candidate


class MemoryMessages:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._tables = session.tables

    def send_once(self, queue: str, key: str, digest: bytes, drafts: Sequence[Draft], now: int) -> SentOnce:
        found = self._session.queue(queue)
        policy.refuse_own_delay(found.settings, drafts)
        place = found.number, key
        known = self._tables.sendings.get(place)
        if known is not None and known.sent_at >= now - self._session.limits.idempotency_ms:
            if known.digest != digest:
                raise SendConflict(key)
            return SentOnce(known.count, known.stored, repeated=True)
        stored = sum(self._session.send(found, draft, now).stored for draft in drafts)
        row = SendingRow(digest, len(drafts), stored, now)
        self._tables.replace("sendings", {**self._tables.sendings, place: row})
        if stored:
            self._session.stirred.add(queue)
        return SentOnce(len(drafts), stored)

    def claim_once(self, queue: str, attempt: str, limit: int, now: int, hold_ms: int | None) -> Claimed:
        found = self._session.queue(queue)
        hold = found.settings.visibility_ms if hold_ms is None else hold_ms
        place = found.number, attempt
        known = self._tables.attempts.get(place)
        if known is not None and hold > 0 and known.claimed_at > now - self._session.limits.attempt_ms:
            rows = [self._tables.messages.get(seq) for seq, _ in known.held]
            held = [row for row in rows if row is not None and row.queue == found.number and row.is_held(now)]
            if known.held == tuple((row.seq, row.claim) for row in held if row.ready_at < limits.SHIPPED):
                again = [replace(row, ready_at=now + hold) for row in held]
                for row in again:
                    self._tables.put_message(row)
                if any(row.ready_at > now + hold for row in held):
                    self._session.stirred.add(queue)
                self._session.mend_lines(now)
                return Claimed([self._session.message(found, row) for row in again])
        terms = ClaimTerms(now + hold if hold > 0 else 0, self._session.limits.claim_bytes)
        claimed = claim(self._session, found, limit, now, terms)
        attempts = {key: row for key, row in self._tables.attempts.items() if key != place}
        if claimed.messages:
            attempts[place] = AttemptRow(tuple((one.seq, one.claim) for one in claimed.messages), now)
        self._tables.replace("attempts", attempts)
        return claimed

    def renew(self, receipts: Sequence[Receipt], now: int, until: int, shorten: bool = False) -> list[bool]:
        matched = [self._session.match(receipt, now) for receipt in receipts]
        for row in matched:
            if row is not None and (shorten or row.ready_at < until or row.ready_at == limits.BEHIND):
                self._tables.put_message(replace(row, ready_at=until, receives=max(row.receives, 1), put_off=False))
                if shorten:
                    self._session.stirred.add(self._tables.queues[row.queue].queue.name)
        self._session.mend_lines(now)
        return [row is not None for row in matched]

    def release(self, receipts: Sequence[Receipt], now: int, delay_ms: int | None = None) -> list[bool]:
        matched = [self._session.match(receipt, now) for receipt in receipts]
        for row in matched:
            if row is not None and row.receives > 0 and (row.ready_at <= now or not row.put_off):
                settings = self._tables.queues[row.queue].queue.settings
                delay = policy.backoff_ms(settings, row.receives) if delay_ms is None else delay_ms
                self._session.make_ready(row, now + delay if delay > 0 else 0)
        self._session.mend_lines(now)
        return [row is not None for row in matched]

    def release_all(self, queue: str, now: int, limit: int) -> int:
        number = self._session.queue(queue).number
        waiting = self._tables.in_order(number, ready_at=now + 1)
        claimed = list(islice((row for row in waiting if not row.is_delayed and row.ready_at < limits.SHIPPED), limit))
        for row in claimed:
            self._session.make_ready(row)
        self._session.mend_lines(now)
        return len(claimed)

    def locate(self, receipts: Sequence[Receipt]) -> list[str | None]:
        matched = [self._session.match(receipt) for receipt in receipts]
        return [None if row is None else self._tables.queues[row.queue].queue.name for row in matched]

    def peek(self, queue: str, limit: int, after: PeekAfter | None = None) -> list[Message]:
        found = self._session.queue(queue)
        start = after or PeekAfter(0, 0)
        messages: list[Message] = []
        room = self._session.limits.page_bytes
        for row in islice(self._tables.in_order(found.number, start.ready_at, start.seq), limit):
            messages.append(self._session.message(found, row))
            room -= row.size
            if room <= 0:
                break
        return messages

    # By what they are, and by their ids

    def scan(
        self, queue: str, selection: Selection, now: int, limit: int, rows: int, after: PeekAfter | None = None
    ) -> Scan:
        here, start = self._session.queue(queue), after or PeekAfter(0, 0)
        budget = self._session.limits.move_bytes
        return scan_step.scan(self, here, selection, now, limit, rows, start, budget)

    def look(self, queue: Queue, after: PeekAfter, now: int, limit: int) -> Sequence[Candidate]:
        rows = self._tables.in_order(queue.number, after.ready_at, after.seq)
        return [self._session.candidate(queue, row, now) for row in islice(rows, limit)]

    def read(self, queue: Queue, seqs: Sequence[int], budget: int) -> Mapping[int, Message]:
        return {row.seq: self._session.message(queue, row) for row in self._session.within(seqs, budget)}

    def find(self, queue: str, message_id: str, now: int, lock: bool = False) -> Found | None:
        here = self._session.queue(queue)
        row = self._session.named(here, message_id)
        if row is None:
            return None
        message, state = self._session.message(here, row), self._session.state(here, row, now)
        return Found(message, state, row.last_claimed_at, row.ready_at == limits.SHIPPED)

    def delete(self, queue: str, message_ids: Sequence[str], now: int) -> list[Dealing]:
        here = self._session.queue(queue)

        def depart(rows: Sequence[MessageRow]) -> set[int]:
            for row in rows:
                self._tables.depart(row, Outcome.PURGED, now)
            self._session.mend_lines(now)
            return {row.seq for row in rows}

        return deal([self._session.named(here, one) for one in message_ids], depart)

    def purge(self, queue: str, now: int, limit: int, through: int) -> int:
        number = self._session.queue(queue).number
        for place, seen in list(self._tables.seen.items()):
            if place[0] == number and seen.seq <= through:
                self._tables.put_seen(place, replace(seen, forgotten=True))
        return self._session.purge(number, now, limit, through)

    def purge_older(
        self, queue: str, now: int, limit: int, through: int, sent_before: int, after: PeekAfter | None = None
    ) -> Purged:
        start = after or PeekAfter(0, 0)
        number = self._session.queue(queue).number
        rows = list(islice(self._tables.in_order(number, start.ready_at, start.seq), limit))
        old = [row for row in rows if row.seq <= through and row.sent_at < sent_before]
        for row in old:
            self._tables.depart(row, Outcome.PURGED, now)
        self._session.mend_lines(now)
        return Purged(len(old), PeekAfter(rows[-1].ready_at, rows[-1].seq) if rows and len(rows) == limit else None)

    def last_seq(self) -> int:
        return self._tables.last_seq

    def sweep(self, now: int) -> int:
        """Forget sends with a key, claims with an attempt and dedup keys that are no longer remembered."""
        tables = self._tables
        attempts = tables.attempts
        lately = {key: row for key, row in attempts.items() if row.claimed_at > now - self._session.limits.attempt_ms}
        if len(lately) < len(attempts):
            tables.replace("attempts", lately)
        old = [place for place, seen in tables.seen.items() if seen.until <= now]
        for place in old:
            tables.put_seen(place, None)
        sendings = tables.sendings
        since = now - self._session.limits.idempotency_ms
        kept = {place: row for place, row in sendings.items() if row.sent_at >= since}
        if len(kept) < len(sendings):
            self._tables.replace("sendings", kept)
        return len(sendings) - len(kept) + len(attempts) - len(lately) + len(old)
