"""What all verbs of a unit share: queue look-ups, tallies, and how messages become ready, wait, and finish.

One file because every change of a message's state passes through it: tallies, ledger and lines stay in step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock import ids, policy
from penstock.errors import QueueNotFound
from penstock.limits import Limits
from penstock.model import (
    Backoff,
    Dedup,
    DedupScope,
    Groups,
    Happened,
    LedgerMode,
    Message,
    Outcome,
    Queue,
    Redrive,
    Settings,
)
from penstock.stores.figures import PLACES, SENT, place_of
from penstock.stores.sql.engine import Engine, FinishClaimed, Later, Row
from penstock.stores.sql.hints import Hints
from penstock.stores.sql.lines import GroupLines, group_text, has_lines
from penstock.stores.sql.runs import at_once
from penstock.stores.sql.statements import ByRuns, by_runs, column_of_message

# Of a row of `{message}` or `{measured}`; what other statements read of messages begins with `seq` as well.
seq_in = column_of_message("seq")
body_in = column_of_message("body")
sent_at_in = column_of_message("sent_at")
receives_in = column_of_message("receives")
deadline_in = column_of_message("deadline_at")

attributes_in = column_of_message("attributes")
group_in = column_of_message("grp")

encode_attributes = msgspec.json.Encoder().encode
decode_attributes = msgspec.json.Decoder(dict[str, str]).decode
_NO_ATTRIBUTES = frozenset((None,))


@dataclass(frozen=True, slots=True)
class SessionSql:
    find_queue: str = "SELECT {queue} FROM queue AS q WHERE q.name = ? AND q.deleted_at IS NULL"
    queue_name: str = "SELECT name FROM queue WHERE number = ? AND deleted_at IS NULL"
    lock_queue: str = "SELECT number FROM queue WHERE number = ? {lock}"
    # Messages whose delay or claim has run out.
    due: str = """
        SELECT seq FROM {walk} WHERE queue = ? AND ready_at > ? AND ready_at <= ?
        ORDER BY ready_at LIMIT ? {lock_free}"""
    # The same in a queue with a backoff.
    due_with_claims: str = """
        SELECT seq, ready_at, receives, {is_claimed} FROM {walk} WHERE queue = ? AND ready_at > ? AND ready_at <= ?
        ORDER BY ready_at LIMIT ? {lock_free}"""
    back_off: str = "UPDATE message SET ready_at = ready_at + ?, claim = {put_off} WHERE {among:seq}"
    lock_ready: str = "SELECT seq FROM message WHERE {among:seq} AND ready_at = 0 ORDER BY seq {lock}"
    make_ready: str = "UPDATE message SET ready_at = 0 WHERE {among:seq}"
    put_off: str = "UPDATE message SET ready_at = ?, claim = {put_off} WHERE {among:seq}"
    record: ByRuns = by_runs("{into_ledger} FROM message AS m {as_the_queue_wants} AND {which} ORDER BY m.seq")
    delete: ByRuns = by_runs("DELETE FROM message WHERE {which}")


def size_of(rows: Sequence[Row]) -> int:
    """Of rows of `{message}`: their bodies and attributes."""
    size = sum([len(body_in(row)) for row in rows])
    attributes = [attributes_in(row) for row in rows]
    if not _NO_ATTRIBUTES.issuperset(attributes):
        size += sum([len(text if text.isascii() else text.encode()) for text in attributes if text is not None])
    return size


def attributes_of(row: Row) -> dict[str, str] | None:
    """Of a row of `{message}`."""
    text = attributes_in(row)
    return None if text is None else decode_attributes(text)


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
        groups,
        dedup_window_ms,
        dedup_scope,
        labels,
        modified_at,
        paused_at,
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
            groups=Groups(groups),
            dedup_window_ms=dedup_window_ms,
            dedup_scope=DedupScope(dedup_scope),
            labels={} if labels is None else decode_attributes(labels),
        ),
        modified_at,
        paused_at,
    )


class Cache:
    """What the units of a connection hand on to each other, as long as the store has not been changed elsewhere."""

    __slots__ = ("names", "queues", "version")

    def __init__(self) -> None:
        self.version = -1
        self.queues: dict[str, Queue] = {}
        # By number, of those that are not deleted.
        self.names: dict[int, str] = {}

    def keep_only(self, version: int) -> None:
        """Say which version of the store a unit sees: what was true of another one is forgotten."""
        if version != self.version:
            self.version = version
            self.clear()

    def clear(self) -> None:
        self.queues.clear()
        self.names.clear()


class Session:
    """The state of the unit that a connection is in. The cache must hold nothing that is not true inside its
    transaction."""

    __slots__ = (
        "_cache",
        "_locked",
        "_sql",
        "_tallies",
        "engine",
        "happened",
        "hints",
        "limits",
        "lines",
        "origin",
        "sent_to",
        "stirred",
    )

    def __init__(self, engine: Engine, origin: str, cache: Cache, limits: Limits, hints: Hints | None = None) -> None:
        self.engine = engine
        self.origin = origin
        self.limits = limits
        self.hints = hints
        self._cache = cache
        self._sql = engine.statements.of(SessionSql)
        self.lines = GroupLines(engine)
        # Queues that this unit has locked.
        self._locked: set[int] = set()
        self.stirred: set[str] = set()
        self.sent_to: set[str] = set()
        self._tallies: dict[int, list[int]] = {}
        self.happened: Happened = {}

    def begin(self) -> None:
        """A new unit, which has done nothing yet."""
        self.stirred.clear()
        self.sent_to.clear()
        self._tallies.clear()
        self._locked.clear()
        self.happened.clear()

    def flush(self) -> None:
        """Write what was gathered in memory: once a unit, however many messages it carried."""
        self.engine.add_to_tallies(self._tallies, stirring=bool(self.stirred or self.sent_to))

    # Queues

    def find_queue(self, name: str) -> Queue | None:
        found = self._cache.queues.get(name)
        if found is None:
            rows = self.engine.rows(self._sql.find_queue, (name,))
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
            rows = self.engine.rows(self._sql.queue_name, (number,))
            if not rows:
                return None
            [(names[number],)] = rows
        return names[number]

    def change_queues(self) -> None:
        """Called before queues or their settings change: one unit does so at a time, and all others notice."""
        self.engine.change_queues()
        self._cache.clear()

    def forget_queues(self) -> None:
        """Called after they have changed: the next look-up reads them again."""
        self._cache.clear()

    def lock_queue(self, queue: int) -> None:
        """From here to the end of the unit, no other unit is at this point with the same queue."""
        if self.engine.shared and queue not in self._locked:
            self.engine.rows(self._sql.lock_queue, (queue,))
            self.engine.forget_seqs()
            self._locked.add(queue)

    def take_turns(self, queues: Iterable[str]) -> None:
        """Lock those that have lines, in one order, and with them those that take their dead letters."""
        if not self.engine.shared:
            return
        numbers: set[int] = set()
        for queue in map(self.find_queue, queues):
            redrive = None if queue is None else queue.settings.redrive
            dead_letters = None if redrive is None else self.find_queue(redrive.dead_letter_queue)
            numbers.update(one.number for one in (queue, dead_letters) if one is not None and has_lines(one))
        for number in sorted(numbers):
            self.lock_queue(number)

    def with_lines(self, number: int) -> Queue | None:
        """The queue of this number, if it has lines and was not deleted. From here on it is locked."""
        name = self.queue_name(number)
        queue = None if name is None else self.find_queue(name)
        if queue is None or not has_lines(queue):
            return None
        self.lock_queue(number)
        return queue

    # Tallies

    def sent(self, queue: int, number: int) -> None:
        self.arrived(queue, number)
        self.count(queue, SENT, number)

    def arrived(self, queue: int, number: int) -> None:
        self._tallies.setdefault(queue, [0, 0])[0] += number

    def departed(self, queue: int, number: int, outcome: Outcome) -> None:
        if number:
            self._tallies.setdefault(queue, [0, 0])[1] += number
            self.count(queue, place_of(outcome), number)

    def count(self, queue: int, place: int, number: int) -> None:
        """See `stores.figures`."""
        counts = self.happened.get(queue)
        if counts is None:
            counts = self.happened[queue] = [0] * PLACES
        counts[place] += number

    def fresh_tally(self, queue: int) -> tuple[int, int]:
        """What this unit has added to a queue's tally but not yet written."""
        arrived, departed = self._tallies.get(queue, (0, 0))
        return arrived, departed

    # How messages become ready, wait, and finish

    def look_for_due(self, queue: Queue, now: int, limit: int, since: int = 0) -> Later:
        """Delays and claims that have run out, for `promote`."""
        look = self._sql.due if queue.settings.backoff is None else self._sql.due_with_claims
        return self.engine.look_for_due(look, queue.number, since, now, limit)

    def promote(self, queue: Queue, due: Sequence[Row], now: int) -> None:
        """Those whose time has run out are ready again, in their old place, or put off where the queue has a
        backoff."""
        ready = [seq for (seq,) in due] if queue.settings.backoff is None else self._begin_backoff(queue, due, now)
        if ready:
            self.make_ready(queue.number, ready, now)

    def _begin_backoff(self, queue: Queue, due: Iterable[Row], now: int) -> list[int]:
        """Of messages whose time has run out, those that are ready; the backoff of the others begins where their claim
        has ended."""
        ready: list[int] = []
        waits: dict[int, list[int]] = {}
        for seq, ready_at, receives, is_claimed in due:
            wait = policy.backoff_ms(queue.settings, receives) if is_claimed else 0
            if ready_at + wait > now:
                waits.setdefault(wait, []).append(seq)
            else:
                ready.append(seq)
        for wait, seqs in sorted(waits.items()):
            self.engine.later(self._sql.back_off, (wait, self.engine.listed(seqs)))
        return ready

    def lock_ready(self, seqs: Sequence[int]) -> list[int]:
        """Those of these messages that are still ready; no other unit can change them before this one ends."""
        engine = self.engine
        if not engine.shared or not seqs:
            return list(seqs)
        return [seq for (seq,) in engine.rows(self._sql.lock_ready, (engine.listed(seqs),))]

    def look_everywhere(self) -> None:
        """Messages have become ready again, wherever in their queue they are."""
        if self.hints is not None:
            self.hints.forget()

    def make_ready(self, queue: int, seqs: Sequence[int], now: int) -> None:
        """Messages of one queue."""
        self.look_everywhere()
        self.engine.later(self._sql.make_ready, (self.engine.listed(seqs),))
        lined = self.with_lines(queue)
        if lined is not None:
            self.stand_in_line(lined, seqs, now)

    # Lines

    def stand_in_line(self, queue: Queue, seqs: Sequence[int], now: int) -> None:
        """Messages that have become ready again take their places."""
        if seqs:
            groups = self.lines.groups_of(seqs)
            self.lines.return_behind(seqs)
            self.lift(queue, groups, now)

    def lift(self, queue: Queue, groups: Iterable[bytes], now: int) -> None:
        """After what may have freed the first places of these lines. The queue is locked."""
        if self.lines.lift(queue, groups, now):
            self.stirred.add(queue.name)

    def put_off(self, seqs: Sequence[int], until: int) -> None:
        """End the claims on these messages, and delay them."""
        self.look_everywhere()
        self.engine.later(self._sql.put_off, (until, self.engine.listed(seqs)))

    def record(self, seqs: Sequence[int], outcome: Outcome, now: int) -> None:
        """The ledger rows of messages that leave the queue they are in, as that queue wants them kept. The numbers
        ascend."""
        if seqs:
            self.engine.enter_ledger()
            statement, which = at_once(self.engine, self._sql.record, seqs)
            self.engine.later(statement, (now, int(outcome), *which))

    def delete(self, seqs: Sequence[int]) -> None:
        """The numbers ascend."""
        if seqs:
            statement, which = at_once(self.engine, self._sql.delete, seqs)
            self.engine.later(statement, which)

    def finish(self, queue: int, seqs: Sequence[int], outcome: Outcome, now: int) -> None:
        """Messages of one queue that this unit has locked leave it for good, and the ledger says how."""
        if seqs:
            ascending = sorted(seqs)
            lined = self.with_lines(queue)
            groups = [] if lined is None else self.lines.groups_of(ascending)
            self.record(ascending, outcome, now)
            self.delete(ascending)
            self.departed(queue, len(seqs), outcome)
            if lined is not None:
                self.lift(lined, groups, now)

    def finish_claimed(self, queue: int, claims: Mapping[int, int], outcome: Outcome, now: int) -> Set[int]:
        """The same for messages whose latest claims were these when they were read. They need not be locked where the
        engine itself can `finish_claimed`. Returns those that have left."""
        if self.engine.finish_claimed is None or not claims:
            self.finish(queue, list(claims), outcome, now)
            return claims.keys()
        lined = self.with_lines(queue)
        groups = [] if lined is None else self.lines.groups_of(sorted(claims))
        finishing = self.begin_to_finish(self.engine.finish_claimed, queue, claims, outcome, now)
        left = self.finished(queue, finishing, outcome)
        if lined is not None:
            self.lift(lined, groups, now)
        return left

    def begin_to_finish(
        self, finish: FinishClaimed, queue: int, claims: Mapping[int, int], outcome: Outcome, now: int
    ) -> Later:
        """For `finished`."""
        self.engine.enter_ledger()
        return finish(queue, claims, int(outcome), now)

    def finished(self, queue: int, finishing: Later, outcome: Outcome) -> Set[int]:
        """Those that have left the queue."""
        seqs = {seq for (seq,) in finishing.rows()}
        self.departed(queue, len(seqs), outcome)
        return seqs

    # Rows

    def messages(self, queue: str, rows: Iterable[Row]) -> list[Message]:
        """Of rows of `{message}`."""
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
                group_text(group),
                first_claimed_at,
            )
            for (
                seq,
                body,
                content_type,
                attributes,
                sent_at,
                ready_at,
                receives,
                claim,
                deadline_at,
                came_from,
                group,
                first_claimed_at,
            ) in rows
        ]

    def scalar(self, sql: str, params: Sequence[object] = ()) -> Any:
        [(value,)] = self.engine.rows(sql, params)
        return value
