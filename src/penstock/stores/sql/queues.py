"""Queues and their settings."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import DeadLetterQueueNotFound, QueueExists
from penstock.model import Queue, QueuePage, Settings
from penstock.stores.sql.session import Session, queue_of


@dataclass(frozen=True, slots=True)
class QueueSql:
    last_number: str = "SELECT coalesce(max(number), 0) FROM queue"
    create: str = """
        INSERT INTO queue (number, name, created_at, visibility_ms, retention_ms, delay_ms, dedup, ledger,
                           max_receives, dead_letter_queue, backoff_first_ms, backoff_most_ms)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
    update: str = """
        UPDATE queue SET visibility_ms = ?, retention_ms = ?, delay_ms = ?, dedup = ?, ledger = ?,
                         max_receives = ?, dead_letter_queue = ?, backoff_first_ms = ?, backoff_most_ms = ?
        WHERE number = ?"""
    lower_retention: str = """
        UPDATE queue SET kept_ms = CASE WHEN kept_ms > ? THEN kept_ms ELSE ? END, lowered_through = ?
        WHERE number = ?"""
    delete: str = "UPDATE queue SET deleted_at = ?, due_at = 0 WHERE number = ?"
    end_redrives: str = "UPDATE queue SET max_receives = NULL, dead_letter_queue = NULL WHERE dead_letter_queue = ?"
    end_shipments: str = "UPDATE shipment SET due_at = 0 WHERE queue = ?"
    page: str = "SELECT {queue} FROM queue AS q WHERE q.deleted_at IS NULL ORDER BY q.number LIMIT ? OFFSET ?"
    count: str = "SELECT count(*) FROM queue WHERE deleted_at IS NULL"


class Queues:
    __slots__ = ("_session", "_sql")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.engine.statements.of(QueueSql)

    def create(self, name: str, settings: Settings, now: int) -> Queue:
        session = self._session
        session.change_queues()
        if session.find_queue(name) is not None:
            raise QueueExists(name)
        # Numbers are not left to the database, where those of a lost unit would be lost as well: this is our turn.
        number = 1 + int(session.scalar(self._sql.last_number))
        session.engine.run(self._sql.create, (number, name, now, *self._columns(settings)))
        session.arrived(number, 0)
        return session.queue(name)

    def update(self, name: str, settings: Settings) -> Queue:
        session = self._session
        session.change_queues()
        former = session.queue(name)
        if settings.retention_ms < former.settings.retention_ms:
            self._keep_what_is_there(former)
        session.engine.run(self._sql.update, (*self._columns(settings), former.number))
        session.forget_queues()
        return session.queue(name)

    def _keep_what_is_there(self, queue: Queue) -> None:
        """Before its retention is lowered."""
        retention_ms, engine = queue.settings.retention_ms, self._session.engine
        engine.run(self._sql.lower_retention, (retention_ms, retention_ms, engine.last_seq(), queue.number))

    def delete(self, name: str, now: int) -> Queue:
        session = self._session
        session.change_queues()
        deleted = session.queue(name)
        session.engine.run(self._sql.delete, (now, deleted.number))
        session.engine.run(self._sql.end_redrives, (deleted.number,))
        # Its shipments go with it, at the next sweep.
        session.engine.run(self._sql.end_shipments, (deleted.number,))
        session.forget_queues()
        session.stirred.add(name)
        return deleted

    def page(self, offset: int, limit: int) -> QueuePage:
        rows = self._session.engine.rows(self._sql.page, (limit, offset))
        return QueuePage(self._session.scalar(self._sql.count), [queue_of(row) for row in rows])

    def _columns(self, settings: Settings) -> tuple[int | None, ...]:
        max_receives = dead_letters = None
        if settings.redrive is not None:
            target = self._session.find_queue(settings.redrive.dead_letter_queue)
            if target is None:
                raise DeadLetterQueueNotFound(settings.redrive.dead_letter_queue)
            max_receives, dead_letters = settings.redrive.max_receives, target.number
        backoff = settings.backoff
        return (
            settings.visibility_ms,
            settings.retention_ms,
            settings.delay_ms,
            int(settings.dedup),
            int(settings.ledger),
            max_receives,
            dead_letters,
            None if backoff is None else backoff.first_ms,
            None if backoff is None else backoff.most_ms,
        )
