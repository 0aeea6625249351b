"""What all verbs of a unit share: queue look-ups, sequence numbers, tallies, and how a message finishes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from penstock import ids
from penstock.errors import QueueNotFound
from penstock.model import Dedup, LedgerMode, Message, Outcome, Queue, Redrive, Settings
from penstock.stores.sql.engine import Engine, Row

# A list of numbers as one parameter: the statement's text stays the same, so it is prepared once.
LISTED = "(SELECT value FROM json_each(?))"

QUEUE_COLUMNS = """
    q.number, q.name, q.created_at, q.visibility_ms, q.retention_ms, q.delay_ms, q.dedup, q.ledger,
    q.max_receives, (SELECT name FROM queue AS d WHERE d.number = q.dead_letter_queue)"""

MESSAGE_COLUMNS = """
    seq, body, content_type, attributes, sent_at, ready_at, receives, claim, deadline_at"""
BODY = 1

encode_attributes = msgspec.json.Encoder().encode
decode_attributes = msgspec.json.Decoder(dict[str, str]).decode


def listed(numbers: Iterable[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"


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
        ),
    )


class Cache:
    """What units may hand on to each other, as long as nobody else has changed the store in between."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.seq: int | None = None

    def clear(self) -> None:
        self.queues.clear()
        self.seq = None


class Session:
    """One unit's state. The cache must hold nothing that is not true inside this transaction."""

    def __init__(self, engine: Engine, origin: str, cache: Cache) -> None:
        self.engine = engine
        self.origin = origin
        self.stirred: set[str] = set()
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

    def forget_queues(self) -> None:
        """After settings have changed: the next look-up reads them again."""
        self._cache.queues.clear()

    def last_seq(self) -> int:
        if self._cache.seq is None:
            self._cache.seq = int(self.scalar("SELECT arrived FROM tally WHERE queue = 0"))
        return self._cache.seq

    def next_seqs(self, count: int) -> range:
        """Sequence numbers nobody has had; they are given back if the unit is lost."""
        last = self.last_seq()
        self._cache.seq = last + count
        self.arrived(0, count)
        return range(last + 1, last + 1 + count)

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
        self.engine.many(
            "UPDATE tally SET arrived = arrived + ?, departed = departed + ? WHERE queue = ?",
            [(arrived, departed, queue) for queue, (arrived, departed) in self._tallies.items()],
        )

    def promote(self, queue: int, now: int, limit: int) -> int:
        """Delays and claims that have run out: ready again, in their old place. Returns how many."""
        due = self.engine.rows(
            """SELECT seq FROM message WHERE queue = ? AND ready_at > 0 AND ready_at <= ?
               ORDER BY ready_at LIMIT ?""",
            (queue, now, limit),
        )
        if due:
            self.engine.run(f"UPDATE message SET ready_at = 0 WHERE seq IN {LISTED}", (listed(seq for (seq,) in due),))
        return len(due)

    def record(self, seqs: Sequence[int], outcome: Outcome, now: int) -> None:
        """The ledger rows of messages that leave the queue they are in, as that queue wants them kept."""
        self.engine.run(
            f"""INSERT INTO ledger (queue, seq, sent_at, first_claimed_at, last_claimed_at, finished_at,
                                    receives, outcome, size, body_hash, content_type, body)
                SELECT m.queue, m.seq, m.sent_at, m.first_claimed_at, m.last_claimed_at, ?,
                       m.receives, ?, length(m.body), m.body_hash, m.content_type,
                       CASE q.ledger WHEN {LedgerMode.BODIES:d} THEN m.body END
                FROM message AS m JOIN queue AS q ON q.number = m.queue
                WHERE m.seq IN {LISTED} AND q.ledger <> {LedgerMode.OFF:d} ORDER BY m.seq""",
            (now, int(outcome), listed(seqs)),
        )

    def finish(self, queue: int, seqs: Sequence[int], outcome: Outcome, now: int) -> None:
        """Messages of one queue leave it for good, and the ledger says how."""
        if seqs:
            self.record(seqs, outcome, now)
            self.engine.run(f"DELETE FROM message WHERE seq IN {LISTED}", (listed(seqs),))
            self.departed(queue, len(seqs))

    def message(self, queue: str, row: Row) -> Message:
        seq, body, content_type, attributes, sent_at, ready_at, receives, claim, deadline_at = row
        return Message(
            ids.make_id(self.origin, sent_at, seq),
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
        )

    def scalar(self, sql: str, params: Sequence[object] = ()) -> Any:
        return self.engine.rows(sql, params)[0][0]
