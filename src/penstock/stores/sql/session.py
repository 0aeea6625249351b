"""What all verbs of a unit share: queue look-ups, sequence numbers, tallies, and how a message finishes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import msgspec

from penstock import ids, policy
from penstock.errors import QueueNotFound
from penstock.limits import Limits
from penstock.model import Backoff, Dedup, LedgerMode, Message, Outcome, Queue, Redrive, Settings
from penstock.stores.sql.engine import Engine, Row
from penstock.stores.sql.hints import Hints

QUEUE_COLUMNS = """
    q.number, q.name, q.created_at, q.visibility_ms, q.retention_ms, q.delay_ms, q.dedup, q.ledger,
    q.max_receives, (SELECT name FROM queue AS d WHERE d.number = q.dead_letter_queue),
    q.backoff_first_ms, q.backoff_most_ms"""

# `claim` is negative once that claim was released with a delay. It is 0 for a message that was renewed before anybody
# received it.
MESSAGE_COLUMNS = """
    seq, body, content_type, attributes, sent_at, ready_at, receives, abs(claim) AS claim, deadline_at,
    came_from"""
# A claim of 0 has no negative: it counts as the first.
PUT_OFF = "CASE claim WHEN 0 THEN -1 ELSE -abs(claim) END"
IS_DELAYED = "(receives = 0 OR claim < 0)"
IS_CLAIMED = "receives > 0 AND claim >= 0"

_INTO_LEDGER = f"""
    INSERT INTO ledger (queue, seq, sent_at, first_claimed_at, last_claimed_at, finished_at,
                        receives, outcome, size, body_hash, content_type, body)
    SELECT m.queue, m.seq, m.sent_at, m.first_claimed_at, m.last_claimed_at, ?,
           m.receives, ?, length(m.body), m.body_hash, m.content_type,
           CASE q.ledger WHEN {LedgerMode.BODIES:d} THEN m.body END"""
_AS_THE_QUEUE_WANTS = f"JOIN queue AS q ON q.number = m.queue WHERE q.ledger <> {LedgerMode.OFF:d}"

encode_attributes = msgspec.json.Encoder().encode
decode_attributes = msgspec.json.Decoder(dict[str, str]).decode


def attributes_text(attributes: dict[str, str] | None) -> str | None:
    return encode_attributes(attributes).decode() if attributes else None


def queue_of(row: Row) -> Queue:
    (
        number,
        name,
        created_at,
        visibility_ms,
        retention_ms,
        delay_ms,
        dedup,
        ledger,
        max_receives,
        dead_letters,
        backoff_first_ms,
        backoff_most_ms,
    ) = row
    return Queue(
        number,
        name,
        created_at,
        Settings(
            visibility_ms=visibility_ms,
            retention_ms=retention_ms,
            delay_ms=delay_ms,
            dedup=Dedup(dedup),
            redrive=None if dead_letters is None else Redrive(max_receives, dead_letters),
            ledger=LedgerMode(ledger),
            backoff=None if backoff_first_ms is None else Backoff(backoff_first_ms, backoff_most_ms),
        ),
    )


class Cache:
    """What units may hand on to each other, as long as nobody else has changed the store in between."""

    def __init__(self) -> None:
        self.version = -1
        self.queues: dict[str, Queue] = {}
        # By number, of those that are not deleted.
        self.names: dict[int, str] = {}

    def is_of(self, version: int) -> None:
        """Say which version of the store a unit sees: what was true of another one is forgotten."""
        if version != self.version:
            self.version = version
            self.clear()

    def clear(self) -> None:
        self.queues.clear()
        self.names.clear()


class Session:
    """One unit's state. The cache must hold nothing that is not true inside this transaction."""

    def __init__(
        self, engine: Engine, origin: str, cache: Cache, hints: Hints | None = None, limits: Limits = Limits()
    ) -> None:
        self.engine = engine
        self.origin = origin
        self.hints = hints
        self.limits = limits
        self.stirred: set[str] = set()
        self.sent_to: set[str] = set()
        self._cache = cache
        self._tallies: dict[int, list[int]] = {}

    def find_queue(self, name: str) -> Queue | None:
        found = self._cache.queues.get(name)
        if found is None:
            rows = self.engine.rows(
                f"SELECT {QUEUE_COLUMNS} FROM queue AS q WHERE q.name = ? AND q.deleted_at IS NULL", (name,)
            )
            if not rows:
                return None
            found = self._cache.queues[name] = queue_of(rows[0])
        return found

    def queue(self, name: str) -> Queue:
        found = self.find_queue(name)
        if found is None:
            raise QueueNotFound(name)
        return found

    def queue_name(self, number: int) -> str | None:
        """None for a queue that was deleted."""
        names = self._cache.names
        if number not in names:
            rows = self.engine.rows("SELECT name FROM queue WHERE number = ? AND deleted_at IS NULL", (number,))
            if not rows:
                return None
            [(names[number],)] = rows
        return names[number]

    def change_queues(self) -> None:
        """Called before queues or their settings change: one unit does so at a time, and all others notice."""
        if self.engine.shared:
            self.engine.run("UPDATE store SET version = version + 1")
        self._cache.clear()

    def forget_queues(self) -> None:
        """Called after they have changed: the next look-up reads them again."""
        self._cache.clear()

    def take_turn(self, queue: int) -> None:
        """From here to the end of the unit nobody else is at this point with the same queue."""
        if self.engine.shared:
            self.engine.rows(f"SELECT number FROM queue WHERE number = ? {self.engine.lock}", (queue,))

    def arrived(self, queue: int, count: int) -> None:
        self._tallies.setdefault(queue, [0, 0])[0] += count

    def departed(self, queue: int, count: int) -> None:
        self._tallies.setdefault(queue, [0, 0])[1] += count

    def fresh_tally(self, queue: int) -> tuple[int, int]:
        """What this unit has added to a queue's tally but not yet written."""
        arrived, departed = self._tallies.get(queue, (0, 0))
        return arrived, departed

    def flush(self) -> None:
        """Write what was gathered in memory: once a unit, however many messages it carried."""
        self.engine.add_to_tallies(self._tallies, stirring=bool(self.stirred or self.sent_to))

    def promote(self, queue: Queue, now: int, limit: int, since: int = 0) -> int:
        """Delays and claims that have run out: ready again, in their old place, or put off where the queue has a
        backoff. Returns how many."""
        columns = "seq" if queue.settings.backoff is None else f"seq, ready_at, receives, {IS_CLAIMED}"
        due = self.engine.rows(
            f"""SELECT {columns} FROM {self.engine.walk} WHERE queue = ? AND ready_at > ? AND ready_at <= ?
                ORDER BY ready_at LIMIT ? {self.engine.lock_free}""",
            (queue.number, since, now, limit),
        )
        seqs = [row[0] for row in due]
        if due and queue.settings.backoff is not None:
            seqs = self._begin_backoff(queue, due, now)
        if seqs:
            self.make_ready(seqs)
        return len(due)

    def _begin_backoff(self, queue: Queue, due: Iterable[Row], now: int) -> list[int]:
        """Of messages whose time has run out, those that are ready; the backoff of the others begins where their claim
        has ended."""
        ready: list[int] = []
        waits: dict[int, list[int]] = {}
        for seq, ready_at, receives, claimed in due:
            wait = policy.backoff_ms(queue.settings, receives) if claimed else 0
            if ready_at + wait > now:
                waits.setdefault(wait, []).append(seq)
            else:
                ready.append(seq)
        for wait, seqs in sorted(waits.items()):
            self.engine.run(
                f"UPDATE message SET ready_at = ready_at + ?, claim = {PUT_OFF} WHERE {self.engine.among('seq')}",
                (wait, self.engine.listed(seqs)),
            )
        return ready

    def lock_ready(self, seqs: Sequence[int]) -> list[int]:
        """Those of these messages that are still ready; nobody else can change them before this unit ends."""
        engine = self.engine
        if not engine.shared or not seqs:
            return list(seqs)
        rows = engine.rows(
            f"SELECT seq FROM message WHERE {engine.among('seq')} AND ready_at = 0 ORDER BY seq {engine.lock}",
            (engine.listed(seqs),),
        )
        return [seq for (seq,) in rows]

    def look_everywhere(self) -> None:
        """Messages have become ready again, wherever in their queue they are."""
        if self.hints is not None:
            self.hints.forget()

    def make_ready(self, seqs: Sequence[int]) -> None:
        engine = self.engine
        self.look_everywhere()
        engine.run(f"UPDATE message SET ready_at = 0 WHERE {engine.among('seq')}", (engine.listed(seqs),))

    def put_off(self, seqs: Sequence[int], until: int) -> None:
        """End the claims on these messages, and delay them."""
        engine = self.engine
        self.look_everywhere()
        engine.run(
            f"UPDATE message SET ready_at = ?, claim = {PUT_OFF} WHERE {engine.among('seq')}",
            (until, engine.listed(seqs)),
        )

    def record(self, seqs: Sequence[int], outcome: Outcome, now: int) -> None:
        """The ledger rows of messages that leave the queue they are in, as that queue wants them kept."""
        self.record_where(self.engine.among("seq"), (self.engine.listed(seqs),), outcome, now)

    def record_where(self, where: str, params: Sequence[object], outcome: Outcome, now: int) -> None:
        self.engine.enter_ledger()
        self.engine.run(
            f"{_INTO_LEDGER} FROM message AS m {_AS_THE_QUEUE_WANTS} AND {where} ORDER BY m.seq",
            (now, int(outcome), *params),
        )

    def finish(self, queue: int, seqs: Sequence[int], outcome: Outcome, now: int) -> None:
        """Messages of one queue that this unit has locked leave it for good, and the ledger says how."""
        if seqs:
            self.record(seqs, outcome, now)
            self.engine.run(f"DELETE FROM message WHERE {self.engine.among('seq')}", (self.engine.listed(seqs),))
            self.departed(queue, len(seqs))

    def finish_claimed(self, queue: int, claims: Mapping[int, int], outcome: Outcome, now: int) -> Set[int]:
        """The same for messages whose latest claims were these when they were read; they need not be locked where the
        engine `deletes_into`. Returns those that have left."""
        if not claims or not self.engine.deletes_into:
            self.finish(queue, list(claims), outcome, now)
            return claims.keys()
        self.engine.enter_ledger()
        rows = self.engine.rows(
            f"""WITH gone AS (
                    DELETE FROM message AS m USING unnest(?::bigint[], ?::bigint[]) AS latest (seq, claim)
                    WHERE m.seq = latest.seq AND abs(m.claim) = latest.claim AND m.queue + 0 = ? RETURNING m.*),
                recorded AS ({_INTO_LEDGER} FROM gone AS m {_AS_THE_QUEUE_WANTS} ORDER BY m.seq)
                SELECT seq FROM gone""",
            (list(claims), list(claims.values()), queue, now, int(outcome)),
        )
        self.departed(queue, len(rows))
        return {seq for (seq,) in rows}

    def messages(self, queue: str, rows: Iterable[Row]) -> list[Message]:
        origin, make_id = self.origin, ids.make_id
        return [
            Message(
                make_id(origin, sent_at, seq),
                seq,
                queue,
                body,
                content_type,
                None if attributes is None else decode_attributes(attributes),
                sent_at,
                ready_at,
                receives,
                claim,
                deadline_at,
                came_from,
            )
            for seq, body, content_type, attributes, sent_at, ready_at, receives, claim, deadline_at, came_from in rows
        ]

    def scalar(self, sql: str, params: Sequence[object] = ()) -> Any:
        return self.engine.rows(sql, params)[0][0]
