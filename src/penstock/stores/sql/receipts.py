"""What the holder of a receipt may do: ack, renew, release, locate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock import ids, limits, policy
from penstock.model import Outcome, Receipt
from penstock.stores.sql.lines import has_lines
from penstock.stores.sql.runs import at_once
from penstock.stores.sql.session import Session
from penstock.stores.sql.statements import ByRuns, by_runs

# The sequence number, queue, queue's name and latest claim of a message that a receipt stands for, and the instant at
# which it no longer does. A plain tuple: an ack of a thousand messages makes a thousand of them.
Match = tuple[int, int, str, int, int]

# Before all instants.
_EVER = -1

_MATCH = "SELECT seq, queue, sent_at, claim, ready_at FROM message WHERE {which} AND ready_at <> ? ORDER BY seq"
_RENEW = """
        UPDATE message SET ready_at = ?, claim = abs(claim), receives = CASE receives WHEN 0 THEN 1 ELSE receives END
        WHERE {among:seq}"""
_CAN_BE_RELEASED = "{among:seq} AND receives > 0 AND (claim >= 0 OR ready_at <= ?)"


@dataclass(frozen=True, slots=True)
class ReceiptSql:
    match: ByRuns = by_runs(_MATCH)
    match_locked: ByRuns = by_runs(f"{_MATCH} {{lock}}")
    renew: str = f"{_RENEW} AND (ready_at < ? OR ready_at = {limits.BEHIND})"
    renew_or_shorten: str = _RENEW
    receives: str = "SELECT seq, receives FROM message WHERE {among:seq}"
    release: str = f"UPDATE message SET ready_at = ?, claim = abs(claim) WHERE {_CAN_BE_RELEASED}"
    release_with_delay: str = f"UPDATE message SET ready_at = ?, claim = {{put_off}} WHERE {_CAN_BE_RELEASED}"


class Receipts:
    __slots__ = ("_session", "_sql")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.engine.statements.of(ReceiptSql)

    def ack(self, receipts: Sequence[Receipt], now: int) -> list[bool]:
        session = self._session
        matched = self._match(receipts, now, lock=session.engine.finish_claimed is None)
        by_queue: dict[int, dict[int, int]] = {}
        results = []
        for match in matched:
            is_new = False  # each message once, however often it is named
            if match is not None:
                seq, queue, _, claim, _ = match
                claims = by_queue.get(queue)
                if claims is None:
                    claims = by_queue[queue] = {}
                is_new = seq not in claims
                claims[seq] = claim
            results.append(is_new)
        for queue, claims in by_queue.items():
            finished = session.finish_claimed(queue, claims, Outcome.PROCESSED, now)
            if len(finished) < len(claims):
                for index, match in enumerate(matched):
                    if match is not None and match[1] == queue and match[0] not in finished:
                        results[index] = False
        return results

    def renew(self, receipts: Sequence[Receipt], now: int, until: int, shorten: bool = False) -> list[bool]:
        session, engine = self._session, self._session.engine
        matched = self._match(receipts, now, lock=True)
        found = [match for match in matched if match is not None]
        seqs = engine.listed(seq for seq, *_ in found)
        if shorten:
            engine.run(self._sql.renew_or_shorten, (until, seqs))
            session.stirred.update(name for _, _, name, *_ in found)
        else:
            engine.run(self._sql.renew, (until, seqs, until))
        if shorten or until <= now:
            session.look_everywhere()
        return [match is not None for match in matched]

    def release(self, receipts: Sequence[Receipt], now: int, delay_ms: int | None = None) -> list[bool]:
        session, engine = self._session, self._session.engine
        matched = self._match(receipts, now, lock=True)
        found = [match for match in matched if match is not None]
        session.look_everywhere()
        delays = {delay_ms: [seq for seq, *_ in found]} if delay_ms is not None else self._backoffs(found)
        for delay, seqs in delays.items():
            if delay > 0:
                engine.run(self._sql.release_with_delay, (now + delay, engine.listed(seqs), now))
            else:
                engine.run(self._sql.release, (0, engine.listed(seqs), now))
        self._stand_in_line(found, now)
        session.stirred.update(name for _, _, name, *_ in found)
        return [match is not None for match in matched]

    def _stand_in_line(self, found: Sequence[Match], now: int) -> None:
        by_queue: dict[int, list[int]] = {}
        for seq, queue, *_ in found:
            by_queue.setdefault(queue, []).append(seq)
        for number, seqs in sorted(by_queue.items()):
            lined = self._session.with_lines(number)
            if lined is not None:
                self._session.stand_in_line(lined, seqs, now)

    def _backoffs(self, found: Sequence[Match]) -> dict[int, list[int]]:
        """The messages to release, by how long the backoff of its queue delays each."""
        session, engine = self._session, self._session.engine
        settings = {name: session.queue(name).settings for name in {name for _, _, name, *_ in found}}
        backing_off = [seq for seq, _, name, *_ in found if settings[name].backoff is not None]
        receives: dict[int, int] = {}
        if backing_off:
            receives = dict(engine.rows(self._sql.receives, (engine.listed(backing_off),)))
        delays: dict[int, list[int]] = {}
        for seq, _, name, *_ in found:
            delay = policy.backoff_ms(settings[name], receives.get(seq, 0))
            delays.setdefault(delay, []).append(seq)
        return delays

    def locate(self, receipts: Sequence[Receipt]) -> list[str | None]:
        located: list[str | None] = []
        for match in self._match(receipts, _EVER, lock=False):
            name = None
            if match is not None:
                _, _, name, _, _ = match
            located.append(name)
        return located

    def _match(self, receipts: Sequence[Receipt], now: int, lock: bool) -> list[Match | None]:
        if lock and self._session.engine.shared:
            # Before their messages, as others do.
            self._session.take_turns({receipt.queue for receipt in receipts if receipt.queue is not None})
        seqs = {seq for receipt in receipts if (seq := ids.seq_of(receipt.id)) is not None}
        found = self._by_id(sorted(seqs), lock) if seqs else {}
        matched: list[Match | None] = []
        for receipt in receipts:
            match = found.get(receipt.id) or found.get(receipt.id.lower())
            if match is not None:
                _, _, name, latest, until = match
                queue, claim = receipt.queue, receipt.claim
                if (queue is not None and queue != name) or (claim is not None and (claim != latest or until <= now)):
                    match = None
            matched.append(match)
        return matched

    def _by_id(self, seqs: Sequence[int], lock: bool) -> dict[str, Match]:
        """Those of these messages that a receipt can stand for: not in a shipment, nor in a queue that was deleted."""
        session, engine = self._session, self._session.engine
        statement, which = at_once(engine, self._sql.match_locked if lock else self._sql.match, seqs)
        found: dict[str, Match] = {}
        # Messages that are acked together mostly come from one queue, and were sent together.
        number, name, begun_at, beginning = -1, None, -1, ""
        until, lasts = limits.BEHIND, True
        for seq, queue, sent_at, claim, ready_at in engine.rows(statement, (*which, limits.SHIPPED)):
            if queue != number:
                number, name = queue, session.queue_name(queue)
                # In a line, a claim stands for its message only while it lasts.
                lasts = name is None or not has_lines(session.queue(name))
                until = limits.BEHIND
            if name is None:
                continue
            if not lasts:
                until = 0 if claim < 0 or ready_at == limits.BEHIND else ready_at
            if sent_at != begun_at:
                begun_at, beginning = sent_at, ids.before_seq(session.origin, sent_at)
            found[beginning + "%012x" % seq] = (seq, queue, name, abs(claim), until)  # noqa: UP031 - see `ids`
        return found
