"""Queues and their settings."""

from __future__ import annotations

from penstock.errors import DeadLetterQueueNotFound, QueueExists
from penstock.model import Queue, QueuePage, Settings
from penstock.stores.sql.session import QUEUE_COLUMNS, Session, queue_of


class QueueVerbs:
    session: Session

    def create_queue(self, name: str, settings: Settings, now: int) -> Queue:
        session = self.session
        session.change_queues()
        if session.find_queue(name) is not None:
            raise QueueExists(name)
        # Numbers are not left to the database, where those of a lost unit would be lost as well: this is our turn.
        number = 1 + int(session.scalar("SELECT coalesce(max(number), 0) FROM queue"))
        session.engine.run(
            """INSERT INTO queue (number, name, created_at, visibility_ms, retention_ms, delay_ms, dedup, ledger,
                                  max_receives, dead_letter_queue, backoff_first_ms, backoff_most_ms)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (number, name, now, *self._columns(settings)),
        )
        session.arrived(number, 0)
        return session.queue(name)

    def update_queue(self, name: str, settings: Settings) -> Queue:
        session = self.session
        session.change_queues()
        former = session.queue(name)
        number = former.number
        if settings.retention_ms < former.settings.retention_ms:
            self._keep_what_is_there(former)
        session.engine.run(
            """UPDATE queue SET visibility_ms = ?, retention_ms = ?, delay_ms = ?, dedup = ?, ledger = ?,
                                max_receives = ?, dead_letter_queue = ?, backoff_first_ms = ?, backoff_most_ms = ?
               WHERE number = ?""",
            (*self._columns(settings), number),
        )
        session.forget_queues()
        return session.queue(name)

    def _keep_what_is_there(self, queue: Queue) -> None:
        """Before its retention is lowered."""
        retention_ms = queue.settings.retention_ms
        self.session.engine.run(
            """UPDATE queue SET kept_ms = CASE WHEN kept_ms > ? THEN kept_ms ELSE ? END, lowered_through = ?
               WHERE number = ?""",
            (retention_ms, retention_ms, self.session.engine.last_seq(), queue.number),
        )

    def delete_queue(self, name: str, now: int) -> Queue:
        session = self.session
        session.change_queues()
        deleted = session.queue(name)
        session.engine.run("UPDATE queue SET deleted_at = ?, due_at = 0 WHERE number = ?", (now, deleted.number))
        session.engine.run(
            "UPDATE queue SET max_receives = NULL, dead_letter_queue = NULL WHERE dead_letter_queue = ?",
            (deleted.number,),
        )
        # Its shipments go with it, at the next sweep.
        session.engine.run("UPDATE shipment SET due_at = 0 WHERE queue = ?", (deleted.number,))
        session.forget_queues()
        session.stirred.add(name)
        return deleted

    def find_queue(self, name: str) -> Queue | None:
        return self.session.find_queue(name)

    def list_queues(self, offset: int, limit: int) -> QueuePage:
        rows = self.session.engine.rows(
            f"""SELECT {QUEUE_COLUMNS} FROM queue AS q WHERE q.deleted_at IS NULL
                ORDER BY q.number LIMIT ? OFFSET ?""",
            (limit, offset),
        )
        total = self.session.scalar("SELECT count(*) FROM queue WHERE deleted_at IS NULL")
        return QueuePage(total, [queue_of(row) for row in rows])

    def _columns(self, settings: Settings) -> tuple[int | None, ...]:
        max_receives = dead_letters = None
        if settings.redrive is not None:
            target = self.session.find_queue(settings.redrive.dead_letter_queue)
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
