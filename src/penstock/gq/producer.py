"""Messages on their way in: gathered, and stored a batch at a time.

A message that was pushed into a batch has its id, but is in memory until the batch is stored: when it is full, after a
short time, by `flush` or by `close`. Its number was reserved beforehand, so a batch whose storing failed at the very
end can be stored again without storing anything twice.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from datetime import datetime
from types import TracebackType

from penstock.errors import InvalidRequest, PenstockError, StoreUnavailable, TryAgain
from penstock.gq import arguments
from penstock.gq.access import Access, consumers_of, settings_of
from penstock.gq.backoff import Backoff
from penstock.ids import make_id
from penstock.limits import Limits
from penstock.model import Draft, Numbered, Reservation
from penstock.stores.protocol import ensure_queue

# Bodies that one batch holds: as many as one claim hands out.
_BATCH_BYTES = Limits().claim_bytes

log = logging.getLogger("penstock.gq")

_RESERVED_AT_ONCE = 1_000


class Producer:
    """Made by `Client.producer`. Safe to share between threads."""

    def __init__(self, access: Access, queue: str, batch: int, linger_s: float, close_s: float) -> None:
        self._access = access
        self._queue = queue
        self._batch = batch
        self._reserve = min(batch, _RESERVED_AT_ONCE)
        self._linger_s = linger_s
        self._close_s = close_s
        self._changed = threading.Condition()
        self._pending: dict[str, Numbered] = {}
        self._bytes = 0
        self._again = False
        self._store_at = 0.0
        self._origin = ""
        self._seqs: list[int] = []
        self._reserved_at = 0.0
        self._closed = False
        self._backoff = Backoff(f"storing messages for {queue}", access.timings)
        self._thread: threading.Thread | None = None
        with access.unit() as (unit, now):
            ensure_queue(unit, queue, settings_of(queue), now)
        atexit.register(self._at_exit)

    def push(self, payload: bytes | str, deadline: float | datetime | None = None) -> str:
        """The message's id. With a batch of one it is on stable media when this returns; else it is at hand, and what
        has not been stored is tried again until it is, or `close` gives up.

        Raises StoreUnavailable, StoreBusy or StoreFull while a full batch cannot be stored: this message was not taken,
        those before it are kept.
        """
        draft = Draft(arguments.payload(payload), deadline_at=arguments.deadline(deadline))
        self._access.refuse_if_inherited()
        with self._changed:
            if self._closed:
                raise InvalidRequest("the producer is closed")
            if self._batch == 1:
                return self._send(draft)
            if self._is_full:
                self._store()
            pushed = self._take(draft)
            if self._is_full:
                try:
                    self._store()
                except TryAgain as error:
                    self._store_at = time.monotonic() + self._backoff.failed(error)
            return pushed

    def flush(self) -> None:
        """Everything pushed so far is on stable media when this returns."""
        self._access.refuse_if_inherited()
        with self._changed:
            self._store()

    def holds(self, message_id: str) -> bool:
        """Whether a message was pushed here and is not stored yet."""
        return message_id in self._pending

    def close(self) -> None:
        """Store what is left. Raises StoreUnavailable when the store does not answer for too long, and says how many
        messages it does not have; another `close` tries again."""
        self._access.refuse_if_inherited()
        until = time.monotonic() + self._close_s
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            while self._pending:
                try:
                    self._store()
                except TryAgain as error:
                    delay = self._backoff.failed(error)
                    if time.monotonic() + delay > until:
                        raise StoreUnavailable(f"{len(self._pending)} messages are not stored: {error}") from error
                    time.sleep(delay)
        atexit.unregister(self._at_exit)

    def _send(self, draft: Draft) -> str:
        with self._access.unit() as (unit, now):
            ensure_queue(unit, self._queue, settings_of(self._queue), now)
            [sent] = unit.send(self._queue, [draft], now)
        return sent.id

    # The batch

    @property
    def _is_full(self) -> bool:
        return len(self._pending) >= self._batch or self._bytes >= _BATCH_BYTES

    def _take(self, draft: Draft) -> str:
        if not self._seqs or time.monotonic() - self._reserved_at > self._access.timings.reservation_s:
            try:
                with self._access.unit() as (unit, _now):
                    self._reserved(consumers_of(unit).reserve(self._reserve))
            except TryAgain:
                # Better too early than refused.
                if not self._seqs:
                    raise
        message = Numbered(self._seqs.pop(), self._access.now(), draft)
        message_id = make_id(self._origin, message.sent_at, message.seq)
        if not self._pending:
            self._store_at = time.monotonic() + self._linger_s
            self._changed.notify_all()
            self._start_lingering()
        self._pending[message_id] = message
        self._bytes += len(draft.body)
        return message_id

    def _reserved(self, reservation: Reservation) -> None:
        self._origin = reservation.origin
        self._seqs = reservation.seqs[::-1]
        self._reserved_at = time.monotonic()

    def _store(self) -> None:
        if not self._pending:
            return
        messages = [*self._pending.values()]
        try:
            with self._access.unit() as (unit, now):
                ensure_queue(unit, self._queue, settings_of(self._queue), now)
                consumers_of(unit).push(self._queue, messages, now, self._again)
                reservation = consumers_of(unit).reserve(self._reserve)
        except BaseException:
            self._again = True
            raise
        self._again = False
        self._pending.clear()
        self._bytes = 0
        self._backoff.worked()
        self._reserved(reservation)

    def _start_lingering(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._linger, name="penstock-gq-producer", daemon=True)
            self._thread.start()

    def _linger(self) -> None:
        """Store batches that do not fill up, and those that could not be stored."""
        with self._changed:
            while not self._closed:
                if not self._pending:
                    self._changed.wait()
                elif (left := self._store_at - time.monotonic()) > 0:
                    self._changed.wait(left)
                else:
                    self._store_late()

    def _store_late(self) -> None:
        try:
            self._store()
        except TryAgain as error:
            self._store_at = time.monotonic() + self._backoff.failed(error)
        except PenstockError as error:
            # The next push or flush raises it to a caller who can act.
            self._store_at = time.monotonic() + 1.0
            log.error("%s messages for %s cannot be stored: %s", len(self._pending), self._queue, error)

    def _at_exit(self) -> None:
        if self._access.is_inherited:
            return  # the messages are the parent's
        try:
            self.close()
        except PenstockError as error:
            log.error("the program ends, and %s", error)

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()
