"""A unit of the SQL store: an object per noun, over one session. It serves all units of its connection in turn."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.model import Count, Queue, QueuePage, Settings
from penstock.stores.sql.actions import Actions, ActionSql
from penstock.stores.sql.attempts import Attempts, AttemptSql
from penstock.stores.sql.claim import Claims, ClaimSql
from penstock.stores.sql.consumers import Consumers, ConsumerSql
from penstock.stores.sql.counts import Counts, CountSql
from penstock.stores.sql.exports import Exports, ExportSql
from penstock.stores.sql.figures import Figures, FigureSql
from penstock.stores.sql.keys import Keys, KeySql
from penstock.stores.sql.leases import Leases, LeaseSql
from penstock.stores.sql.ledger import Ledger, LedgerSql
from penstock.stores.sql.lines import LineSql
from penstock.stores.sql.messages import Messages, MessageSql
from penstock.stores.sql.moves import Moves, MoveSql
from penstock.stores.sql.named import Named, NamedSql
from penstock.stores.sql.queues import Queues, QueueSql
from penstock.stores.sql.receipts import Receipts, ReceiptSql
from penstock.stores.sql.scans import Scans, ScanSql
from penstock.stores.sql.send import Sends, SendSql
from penstock.stores.sql.session import Session, SessionSql
from penstock.stores.sql.shipments import Shipments, ShipmentSql
from penstock.stores.sql.sweep import Sweep, SweepSql
from penstock.stores.sql.twins import Twins, TwinSql

# All that the verbs say to a database.
TABLES = (
    SessionSql,
    QueueSql,
    SendSql,
    TwinSql,
    LineSql,
    ClaimSql,
    AttemptSql,
    ReceiptSql,
    MessageSql,
    NamedSql,
    ScanSql,
    CountSql,
    MoveSql,
    ShipmentSql,
    LeaseSql,
    LedgerSql,
    ExportSql,
    ConsumerSql,
    KeySql,
    ActionSql,
    FigureSql,
    SweepSql,
)


class SqlUnit:
    __slots__ = (
        "_counts",
        "_queues",
        "_sweep",
        "ack",
        "actions",
        "claim",
        "consumers",
        "exports",
        "figures",
        "happened",
        "keys",
        "leases",
        "ledger",
        "messages",
        "moves",
        "send",
        "sent_to",
        "session",
        "shipments",
        "stirred",
        "take_turns",
    )

    def __init__(self, session: Session) -> None:
        self.session = session
        self.stirred = session.stirred
        self.happened = session.happened
        self.sent_to = session.sent_to
        twins = Twins(session)
        self._queues = Queues(session)
        self._counts = Counts(session)
        sends = Sends(session, twins)
        receipts = Receipts(session)
        named = Named(session)
        self.moves = Moves(session, twins, self._counts, named)
        claims = Claims(session, twins, self.moves)
        # Bound once: these are called for every request, or for every unit.
        self.take_turns = session.take_turns
        self.send = sends.send
        self.claim = claims.claim
        self.ack = receipts.ack
        attempts = Attempts(session, claims)
        self.messages = Messages(session, sends, receipts, attempts, named, Scans(session))
        self.shipments = Shipments(session, claims)
        self.leases = Leases(session)
        self.ledger = Ledger(session, self._counts)
        self.exports = Exports(session, self.ledger)
        self.consumers = Consumers(session, sends, claims)
        self.keys = Keys(session)
        self.actions = Actions(session)
        self.figures = Figures(session)
        self._sweep = Sweep(
            session,
            twins=twins,
            sends=sends,
            attempts=attempts,
            messages=self.messages,
            moves=self.moves,
            shipments=self.shipments,
            leases=self.leases,
            ledger=self.ledger,
            exports=self.exports,
            consumers=self.consumers,
            actions=self.actions,
            figures=self.figures,
        )

    # Queues

    def create_queue(self, name: str, settings: Settings, now: int) -> Queue:
        return self._queues.create(name, settings, now)

    def update_queue(self, name: str, settings: Settings, now: int) -> Queue:
        return self._queues.update(name, settings, now)

    def delete_queue(self, name: str, now: int) -> Queue:
        return self._queues.delete(name, now)

    def pause_queue(self, name: str, now: int) -> Queue:
        return self._queues.pause(name, now)

    def resume_queue(self, name: str, now: int) -> Queue:
        return self._queues.resume(name)

    def find_queue(self, name: str) -> Queue | None:
        return self.session.find_queue(name)

    def list_queues(self, offset: int, limit: int) -> QueuePage:
        return self._queues.page(offset, limit)

    def page_queues(self, prefix: str, after: str, limit: int) -> list[Queue]:
        return self._queues.page_by_name(prefix, after, limit)

    def dead_letter_sources(self, queue: str, after: str, limit: int) -> list[Queue]:
        return self._queues.dead_letter_sources(queue, after, limit)

    # Messages; `send`, `claim` and `ack` are bound above

    def count(self, queue: str, now: int, limit: int) -> Count:
        return self._counts.count(queue, now, limit)

    def counts(self, queues: Sequence[Queue], now: int, limit: int) -> list[Count]:
        return self._counts.counts(queues, now, limit)

    def next_due(self, queue: str, now: int) -> int | None:
        return self._counts.next_due(queue, now)

    # Housekeeping

    def sweep(
        self, now: int, limit: int, ledger_before: int, actions_before: int = 0, ledger_bytes: int | None = None
    ) -> int:
        return self._sweep.sweep(now, limit, ledger_before, actions_before, ledger_bytes)

    def shrink(self, limit: int) -> int:
        return self.session.engine.shrink(limit)

    def prove_writable(self) -> None:
        self.session.engine.prove_writable()
