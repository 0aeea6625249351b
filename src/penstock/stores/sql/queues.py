"""Queues and their settings."""

from __future__ import annotations

from dataclasses import dataclass

from penstock import policy
from penstock.errors import DeadLetterQueueNotFound, QueueExists
from penstock.model import Queue, QueuePage, Settings
from penstock.stores.sql.session import Session, attributes_text, queue_of

# Characters that no name has, and that come before and after all others. No database is asked for the first.
_BEFORE_ALL = "\0"
_PAST_ALL = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class QueueSql:
    last_number: str = "SELECT coalesce(max(number), 0) FROM queue"
    create: str = """
        INSERT INTO queue (number, name, created_at, visibility_ms, retention_ms, delay_ms, dedup, ledger,
                           max_receives, dead_letter_queue, backoff_first_ms, backoff_most_ms,
                           dedup_window_ms, dedup_scope, labels, grouped, modified_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
    update: str = """
        UPDATE queue SET visibility_ms = ?, retention_ms = ?, delay_ms = ?, dedup = ?, ledger = ?,
                         max_receives = ?, dead_letter_queue = ?, backoff_first_ms = ?, backoff_most_ms = ?,
                         dedup_window_ms = ?, dedup_scope = ?, labels = ?, modified_at = ?
        WHERE number = ?"""
    pause: str = "UPDATE queue SET paused_at = ? WHERE number = ?"
    lower_retention: str = """
        UPDATE queue SET kept_ms = CASE WHEN kept_ms > ? THEN kept_ms ELSE ? END, lowered_through = ?
        WHERE number = ?"""
    delete: str = "UPDATE queue SET deleted_at = ?, due_at = 0 WHERE number = ?"
    end_redrives: str = "UPDATE queue SET max_receives = NULL, dead_letter_queue = NULL WHERE dead_letter_queue = ?"
    end_shipments: str = "UPDATE shipment SET due_at = 0 WHERE queue = ?"
    end_leases: str = "UPDATE lease SET until = 0 WHERE queue = ?"
    page: str = "SELECT {queue} FROM queue AS q WHERE q.deleted_at IS NULL ORDER BY q.number LIMIT ? OFFSET ?"
    count: str = "SELECT count(*) FROM queue WHERE deleted_at IS NULL"
    by_name: str = """
        SELECT {queue} FROM {queue_by_name}
        WHERE q.deleted_at IS NULL AND {queue_name} >= ? AND {queue_name} > ? AND {queue_name} < ?
        ORDER BY {queue_name} LIMIT ?"""
    sources: str = """
        SELECT {queue} FROM queue AS q
        WHERE q.dead_letter_queue = ? AND q.deleted_at IS NULL AND {queue_name} > ? ORDER BY {queue_name} LIMIT ?"""


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
        policy.check_settings(settings)
        session.engine.run(self._sql.create, (number, name, now, *self._columns(settings), int(settings.groups), now))
        session.arrived(number, 0)
        return session.queue(name)

    def update(self, name: str, settings: Settings, now: int) -> Queue:
        session = self._session
        session.change_queues()
        former = session.queue(name)
        policy.check_settings(settings, former.settings)
        if settings.retention_ms < former.settings.retention_ms:
            self._keep_what_is_there(former)
        session.engine.run(self._sql.update, (*self._columns(settings), now, former.number))
        session.forget_queues()
        return session.queue(name)

    def _keep_what_is_there(self, queue: Queue) -> None:
        """Before its retention is lowered."""
        retention_ms, engine = queue.settings.retention_ms, self._session.engine
        engine.run(self._sql.lower_retention, (retention_ms, retention_ms, engine.last_seq(), queue.number))

    def pause(self, name: str, now: int) -> Queue:
        session = self._session
        session.change_queues()
        former = session.queue(name)
        return former if former.paused_at is not None else self._set_paused_at(former, now)

    def resume(self, name: str) -> Queue:
        session = self._session
        session.change_queues()
        former = session.queue(name)
        if former.paused_at is None:
            return former
        session.stirred.add(name)
        return self._set_paused_at(former, None)

    def _set_paused_at(self, queue: Queue, paused_at: int | None) -> Queue:
        session = self._session
        session.engine.run(self._sql.pause, (paused_at, queue.number))
        session.forget_queues()
        return session.queue(queue.name)

    def delete(self, name: str, now: int) -> Queue:
        session = self._session
        session.change_queues()
        deleted = session.queue(name)
        session.engine.run(self._sql.delete, (now, deleted.number))
        session.engine.run(self._sql.end_redrives, (deleted.number,))
        # Its shipments and leases go with it, at the next sweep.
        session.engine.run(self._sql.end_shipments, (deleted.number,))
        session.engine.run(self._sql.end_leases, (deleted.number,))
        session.forget_queues()
        session.stirred.add(name)
        return deleted

    def page(self, offset: int, limit: int) -> QueuePage:
        rows = self._session.engine.rows(self._sql.page, (limit, offset))
        return QueuePage(self._session.scalar(self._sql.count), [queue_of(row) for row in rows])

    def page_by_name(self, prefix: str, after: str, limit: int) -> list[Queue]:
        if _BEFORE_ALL in prefix:
            return []
        rows = self._session.engine.rows(self._sql.by_name, (prefix, _nameable(after), prefix + _PAST_ALL, limit))
        return [queue_of(row) for row in rows]

    def dead_letter_sources(self, queue: str, after: str, limit: int) -> list[Queue]:
        number = self._session.queue(queue).number
        rows = self._session.engine.rows(self._sql.sources, (number, _nameable(after), limit))
        return [queue_of(row) for row in rows]

    def _columns(self, settings: Settings) -> tuple[int | str | None, ...]:
        """All but those that are fixed."""
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
            settings.dedup_window_ms,
            int(settings.dedup_scope),
            attributes_text(settings.labels),
        )


def _nameable(after: str) -> str:
    """The same names come after this one."""
    return after.partition(_BEFORE_ALL)[0]
