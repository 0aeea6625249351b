"""How messages are sent: plainly, once per idempotency key, and under numbers that were given out before.

Two words are kept apart here. *Deduplication* is a setting of a queue: a message whose dedup key is in the queue
already (`_send_unless_twin`), or was sent lately (`_send_unless_seen`), is not stored. *Idempotency* is a wish of the
sender: a call that may have succeeded is repeated with the same key, and nothing is stored twice (`send_once`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

from penstock import limits, policy
from penstock.errors import SendConflict
from penstock.ids import KEY_BYTES, body_hash, make_id, make_ids
from penstock.model import Dedup, Draft, Groups, Numbered, Queue, Reservation, Sent, SentOnce
from penstock.stores.sql.engine import ARRIVING, Alike, Row
from penstock.stores.sql.lines import group_bytes, has_lines
from penstock.stores.sql.session import Session, attributes_text, seq_in
from penstock.stores.sql.twins import Twins


@dataclass(frozen=True, slots=True)
class SendSql:
    remember: str = """
        INSERT INTO sending (queue, send_key, digest, messages, stored, sent_at)
        VALUES (?, ?, ?, ?, ?, ?) {unless_there}"""
    correct: str = "UPDATE sending SET stored = ? WHERE queue = ? AND send_key = ?"
    recall: str = "SELECT digest, messages, stored, sent_at FROM sending WHERE queue = ? AND send_key = ? {lock}"
    forget: str = "DELETE FROM sending WHERE queue = ? AND send_key = ?"
    old: str = "SELECT id FROM sending WHERE sent_at < ? ORDER BY sent_at LIMIT ?"
    forget_old: str = "DELETE FROM sending WHERE {among:id}"
    see: str = "INSERT INTO seen (queue, dedup_key, seq, sent_at, until) VALUES (?, ?, ?, ?, ?) {unless_there}"
    see_again: str = "UPDATE seen SET seq = ?, sent_at = ?, until = ? WHERE queue = ? AND dedup_key = ?"
    # What a purge has forgotten is not known any longer.
    seen: str = """
        SELECT seq, sent_at,
               CASE WHEN seq > (SELECT forgotten_through FROM queue WHERE number = ?) THEN until ELSE 0 END
        FROM seen WHERE queue = ? AND dedup_key = ? {lock}"""
    forget_seen: str = "UPDATE queue SET forgotten_through = ? WHERE number = ? AND forgotten_through < ?"
    unseen: str = "SELECT id FROM seen WHERE until <= ? ORDER BY until LIMIT ?"
    forget_unseen: str = "DELETE FROM seen WHERE {among:id}"
    # Of reserved numbers, those whose messages are in the store or were.
    known: str = "SELECT seq FROM message WHERE {among:seq} UNION SELECT seq FROM ledger WHERE {among:seq}"


# Of a row of `ARRIVING`.
_READY_AT = ARRIVING.index("ready_at")
_GROUP = ARRIVING.index("grp")
# From this column on, messages of a kind may differ.
_KEY = ARRIVING.index("dedup_key")
# So many drafts are worth a look whether they are of a kind.
_MANY = 32
# A sequence number, and when the message was sent.
Number = tuple[int, int]


def stores_plainly(queue: Queue) -> bool:
    """Whether a message is stored in a queue without a look at what is there."""
    settings = queue.settings
    return settings.groups is Groups.OFF and (settings.dedup is Dedup.OFF or settings.dedup is Dedup.CLAIM)


def arriving(
    queue: Queue, seqs: Iterable[int], instants: Iterable[int], drafts: Sequence[Draft], now: int
) -> list[Row]:
    """Rows of `ARRIVING`, in a queue that takes twins."""
    number, settings = queue.number, queue.settings
    # Most drafts ask for nothing special, and most queues for no delay: what holds for the whole queue is worked out
    # once.
    ready_at = policy.ready_at(settings, None, now) if settings.delay_ms else 0
    keyed = settings.dedup is not Dedup.OFF and policy.keeps_keys(settings)
    hashes = [body_hash(draft.body) for draft in drafts]
    return [
        (
            seq,
            number,
            ready_at if draft.delay_ms is None else policy.ready_at(settings, draft.delay_ms, now),
            sent_at,
            draft.deadline_at,
            draft.content_type,
            attributes_text(draft.attributes) if draft.attributes else None,
            group_bytes(draft.group) if draft.group is not None else None,
            policy.dedup_key(settings, draft, hashed) if keyed else None,
            hashed,
            draft.body,
        )
        for seq, sent_at, draft, hashed in zip(seqs, instants, drafts, hashes, strict=True)
    ]


def alike(
    queue: Queue, seqs: Sequence[int], instants: Sequence[int], drafts: Sequence[Draft], now: int
) -> Alike | None:
    """The same, where they are many and of a kind: most of what is sent in bulk is."""
    count = len(drafts)
    if count < _MANY or instants.count(instants[0]) < count or list(seqs) != list(range(seqs[0], seqs[0] + count)):
        return None
    head = drafts[0]
    content_type, delay_ms, deadline_at = head.content_type, head.delay_ms, head.deadline_at
    attributes, group = head.attributes, head.group
    for draft in drafts:
        if draft.content_type != content_type or draft.delay_ms != delay_ms or draft.deadline_at != deadline_at:
            return None
        if draft.attributes != attributes or draft.group != group:
            return None
    [row] = arriving(queue, seqs[:1], instants[:1], drafts[:1], now)
    bodies = [draft.body for draft in drafts]
    hashes = [body_hash(body) for body in bodies]
    keys: list[bytes] | None = None
    if row[_KEY] is not None:
        named = [policy.dedup_key(queue.settings, draft, hashed) for draft, hashed in zip(drafts, hashes, strict=True)]
        keys = [key for key in named if key is not None and len(key) == KEY_BYTES]
        if len(keys) < count:
            return None
    return Alike(seqs[0], row[1:_KEY], keys, hashes, bodies)


class Sends:
    __slots__ = ("_session", "_sql", "_twins")

    def __init__(self, session: Session, twins: Twins) -> None:
        self._session = session
        self._twins = twins
        self._sql = session.engine.statements.of(SendSql)

    def send(self, queue: str, drafts: Sequence[Draft], now: int) -> list[Sent]:
        session = self._session
        found = session.queue(queue)
        if not stores_plainly(found):
            return self._send_with_a_look(found, drafts, None, now)
        seqs = self._store_plainly(found, drafts, now)
        return [Sent(made, True) for made in make_ids(session.origin, now, seqs)]

    def _store_plainly(self, queue: Queue, drafts: Sequence[Draft], now: int) -> Sequence[int]:
        """Under the next numbers, which are returned."""
        seqs = self._session.engine.next_seqs(len(drafts))
        self._store_drafts(queue, seqs, [now] * len(drafts), drafts, now)
        return seqs

    def _store_drafts(
        self, queue: Queue, seqs: Sequence[int], instants: Sequence[int], drafts: Sequence[Draft], now: int
    ) -> None:
        insert_alike = self._session.engine.insert_alike
        same = None if insert_alike is None else alike(queue, seqs, instants, drafts, now)
        if insert_alike is None or same is None:
            self._store(queue, arriving(queue, seqs, instants, drafts, now))
        else:
            insert_alike(same)
            self._note_sent(queue, len(drafts))

    def _store(self, queue: Queue, rows: Sequence[Row]) -> None:
        """Rows of `ARRIVING`, none of which is a twin, or waits in line."""
        self._session.engine.insert_messages(rows)
        self._note_sent(queue, len(rows))

    def _note_sent(self, queue: Queue, count: int) -> None:
        self._session.sent(queue.number, count)
        self._session.sent_to.add(queue.name)

    # Where it depends on what is in the queue, or was, whether and how messages are stored

    def _send_with_a_look(
        self, queue: Queue, drafts: Sequence[Draft], numbers: Sequence[Number] | None, now: int
    ) -> list[Sent]:
        """`numbers` are those that they have already."""
        session, dedup = self._session, queue.settings.dedup
        policy.refuse_own_delay(queue.settings, drafts)
        # For windows it is the row of the key that others wait for.
        if dedup is Dedup.SEND or has_lines(queue):
            session.lock_queue(queue.number)
        session.sent_to.add(queue.name)
        given: Iterable[Number | None] = repeat(None, len(drafts)) if numbers is None else numbers
        sent: list[Sent] = []
        rows: list[Row] = []
        for draft, number in zip(drafts, given, strict=True):
            twin = None
            if dedup is Dedup.SEND:
                # Each may be the twin of the one before, which has to be there to be found.
                self._store_in_line(queue, rows, now)
                rows = []
                twin = self._twins.find_of(queue, draft, now)
            if twin is not None:
                sent.append(Sent(twin, False))
                continue
            (seq, sent_at), is_new = self._first_seen(queue, draft, number, now)
            if is_new:
                rows += arriving(queue, (seq,), (sent_at,), (draft,), now)
            sent.append(Sent(make_id(session.origin, sent_at, seq), is_new))
        self._store_in_line(queue, rows, now)
        return sent

    def _first_seen(self, queue: Queue, draft: Draft, number: Number | None, now: int) -> tuple[Number, bool]:
        """The number of a message, and that it is new. In a queue with a window, the number of the first one with its
        key, and whether this is the one: then it is known from now on."""
        engine, sql = self._session.engine, self._sql
        if queue.settings.dedup is not Dedup.WINDOW:
            return number or (self._next_seq(), now), True
        place = queue.number, policy.window_key(queue.settings, draft, body_hash(draft.body))
        until = now + queue.settings.dedup_window_ms
        own = number
        while True:
            known = engine.rows(sql.seen, (queue.number, *place))
            for seq, sent_at, known_until in known:
                if known_until > now:
                    return (seq, sent_at), False
            own = own or (self._next_seq(), now)
            if known:
                engine.run(sql.see_again, (*own, until, *place))
                return own, True
            if engine.add(sql.see, (*place, *own, until)):
                return own, True
            # Another server has just been faster.

    def _next_seq(self) -> int:
        return self._session.engine.next_seqs(1)[0]

    def _store_in_line(self, queue: Queue, rows: Sequence[Row], now: int) -> None:
        """Of each group, the first message keeps its `ready_at` if none is there, and the others stand behind. One
        whose number was given out before may come before those that are there."""
        session, lines = self._session, self._session.lines
        groups = sorted({row[_GROUP] for row in rows if row[_GROUP] is not None}) if has_lines(queue) else []
        if not groups:
            if rows:
                self._store(queue, rows)
            return
        firsts = lines.firsts(queue, groups)
        begun = set(firsts)
        overtaken: dict[bytes, int] = {}
        placed: list[Row] = []
        for row in sorted(rows, key=seq_in):
            group = row[_GROUP]
            if group in begun:
                row = (*row[:_READY_AT], limits.BEHIND, *row[_READY_AT + 1 :])
                if group in firsts and seq_in(row) < seq_in(firsts[group]):
                    overtaken[group] = seq_in(firsts[group])
            elif group is not None:
                begun.add(group)
            placed.append(row)
        self._store(queue, placed)
        if overtaken:
            lines.return_behind(sorted(overtaken.values()))
            session.lift(queue, sorted(overtaken), now)

    def forget_seen(self, queue: Queue, through: int) -> None:
        """Of messages up to this one, which may well be gone. The queue may ask again later, where it does not now."""
        self._session.engine.run(self._sql.forget_seen, (through, queue.number, through))

    # Once per idempotency key

    def send_once(self, queue: str, key: str, digest: bytes, drafts: Sequence[Draft], now: int) -> SentOnce:
        session = self._session
        found = session.queue(queue)
        policy.refuse_own_delay(found.settings, drafts)
        place = found.number, key.encode()
        # First the key, so that another server that has the same one waits here before it stores anything.
        while not session.engine.add(self._sql.remember, (*place, digest, len(drafts), len(drafts), now)):
            known = self._remembered(found, key, digest, now)
            if known is not None:
                return known
        if stores_plainly(found):
            # Without ids, which no one asks for: they would take a tenth of the time.
            stored = len(self._store_plainly(found, drafts, now))
        else:
            stored = sum(sent.stored for sent in self._send_with_a_look(found, drafts, None, now))
        if stored < len(drafts):
            session.engine.run(self._sql.correct, (stored, *place))
        if stored:
            session.stirred.add(queue)
        return SentOnce(len(drafts), stored)

    def _remembered(self, queue: Queue, key: str, digest: bytes, now: int) -> SentOnce | None:
        """None for one that is so old that it is no longer remembered; its row is then gone."""
        engine = self._session.engine
        place = queue.number, key.encode()
        for known, messages, stored, sent_at in engine.rows(self._sql.recall, place):
            if sent_at < now - self._session.limits.idempotency_ms:
                engine.run(self._sql.forget, place)
                return None
            if bytes(known) != digest:
                raise SendConflict(key)
            return SentOnce(messages, stored, repeated=True)
        return None

    def sweep(self, now: int, limit: int) -> int:
        """Forget keys that are old."""
        engine = self._session.engine
        old = engine.rows(self._sql.old, (now - self._session.limits.idempotency_ms, max(0, limit)))
        if old:
            engine.run(self._sql.forget_old, (engine.listed(number for (number,) in old),))
        unseen = engine.rows(self._sql.unseen, (now, max(0, limit - len(old))))
        if unseen:
            engine.run(self._sql.forget_unseen, (engine.listed(number for (number,) in unseen),))
        return len(old) + len(unseen)

    # Under numbers that were given out before, so that ids are known before their messages are stored

    def reserve(self, count: int) -> Reservation:
        return Reservation(self._session.origin, list(self._session.engine.next_seqs(count)))

    def push(self, queue: str, messages: Sequence[Numbered], now: int, again: bool = False) -> None:
        session = self._session
        found = session.queue(queue)
        if again:
            known = self._known([message.seq for message in messages])
            messages = [message for message in messages if message.seq not in known]
        if not messages:
            return
        drafts = [message.draft for message in messages]
        if not stores_plainly(found):
            numbers = [(message.seq, message.sent_at) for message in messages]
            self._send_with_a_look(found, drafts, numbers, now)
            return
        seqs = [message.seq for message in messages]
        instants = [message.sent_at for message in messages]
        self._store_drafts(found, seqs, instants, drafts, now)

    def _known(self, seqs: Sequence[int]) -> set[int]:
        engine = self._session.engine
        listed = engine.listed(seqs)
        return {seq for (seq,) in engine.rows(self._sql.known, (listed, listed))}
