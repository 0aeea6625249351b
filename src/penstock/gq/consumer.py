"""The loop around a callback: claim a batch, hand out one payload after the other, report the outcomes, claim again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from uuid import uuid4

from penstock.errors import InvalidRequest, QueueNotFound, TryAgain
from penstock.gq import signals
from penstock.gq.access import Access, consumers_of
from penstock.gq.backoff import Backoff, pause_ms
from penstock.gq.heartbeat import Heartbeat
from penstock.gq.membership import Membership
from penstock.limits import NEVER
from penstock.model import Delivery, Message, Outcome, Registration

log = logging.getLogger("penstock.gq")

Callback = Callable[[bytes], object]


class Consumer:
    """Made by `Client.consumer`. Processes once: after `stop` it stays stopped.

    `lost` counts the messages that it held and that were taken from it because it gave no sign of life, or took longer
    than the deadline; `on_lost` is called with the id of each, in the thread that runs the callbacks.
    """

    def __init__(
        self,
        access: Access,
        queue: str,
        batch: int,
        delivery: Delivery,
        heartbeat_s: float,
        dead_after_s: float,
        on_lost: Callable[[str], object] | None,
    ) -> None:
        self.id = str(uuid4())
        self.lost = 0
        self._access = access
        self._queue = queue
        self._batch = batch
        self._delivery = delivery
        self._on_lost = on_lost
        self._timings = access.timings
        self._membership = Membership(access, Registration(self.id, queue, delivery, round(dead_after_s * 1000)))
        self._heartbeat = Heartbeat(self._membership, heartbeat_s, access.timings)
        self._backoff = Backoff(f"consuming {queue}", access.timings)
        self._current: Message | None = None
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._done = threading.Event()

    @property
    def current(self) -> Message | None:
        """The message that the callback is working on."""
        return self._current

    def process(self, callback: Callback) -> None:
        """Hand payloads to the callback until `stop`, SIGTERM or SIGINT; signals are heeded in the main thread only.

        A callback that returns has processed its message. One that raises puts it back for a while, longer each time,
        or has failed if the deadline has passed. What is at hand and not begun when the consumer stops goes back.
        """
        if not callable(callback):
            raise InvalidRequest(f"a callback is a function, not {type(callback).__name__}")
        if self._thread is not None:
            raise InvalidRequest("this consumer processes already, or has done so: make another one")
        self._thread = threading.current_thread()
        try:
            with signals.stopping(self._stop_soon):
                if not self._stopping:
                    self._work(callback)
        finally:
            self._done.set()

    def stop(self) -> None:
        """Ask `process` to return once the current callback has. May be called from anywhere, also before `process`."""
        self._stop_soon()

    def _stop_soon(self) -> None:
        # No lock and no event: a signal may come while this very thread holds the lock inside.
        self._stopping = True

    def wait(self, seconds: float) -> bool:
        """Whether `process` has returned, at once or within the time. True where it was never called, or calls this."""
        if self._thread in (None, threading.current_thread()):
            return True
        return self._done.wait(seconds)

    # The loop

    def _work(self, callback: Callback) -> None:
        self._heartbeat.start()
        try:
            while not self._stopping:
                batch = self._keep_trying(lambda: self._membership.exchange(self._batch))
                self._tell_lost()
                if batch:
                    self._heartbeat.wake()
                    self._run(batch, callback)
                else:
                    self._wait()
        finally:
            self._heartbeat.stop()
            self._leave()

    def _run(self, batch: Sequence[Message], callback: Callback) -> None:
        generation, begun = self._membership.generation, 0
        try:
            for message in batch:
                if self._stopping or not self._is_ours(generation):
                    return
                begun += 1
                if message.ready_at < NEVER and message.ready_at <= self._access.now():
                    self._pass_over(message)
                    continue
                self._call(callback, message)
                if self._membership.is_report_due:
                    self._try(self._membership.exchange)
                self._tell_lost()
        finally:
            self._give_back(batch[begun:], generation)

    def _is_ours(self, generation: int) -> bool:
        """Whether the claims of the batch still hold. Out of touch for long, we ask before we go on."""
        if not self._membership.is_surely_alive:
            self._keep_trying(self._membership.exchange, beat=True)
        return self._membership.generation == generation and not self._stopping

    def _call(self, callback: Callback, message: Message) -> None:
        outcome: Outcome | None = None
        delay_ms = 0
        self._current = message
        try:
            callback(message.body)
            outcome = Outcome.PROCESSED
        except BaseException as error:
            now = self._access.now()
            if message.deadline_at is not None and message.deadline_at <= now:
                outcome = Outcome.FAILED
            if not isinstance(error, Exception):
                raise
            delay_ms = 0 if outcome else pause_ms(message.receives, message.deadline_at, now)
            log.warning("the callback raised on message %s", message.id, exc_info=True)
        finally:
            self._current = None
            self._membership.decide(message, outcome, delay_ms=delay_ms)

    def _pass_over(self, message: Message) -> None:
        """The deadline has ended the claim before its turn came; another consumer may have claimed it already."""
        failed = self._delivery is Delivery.AT_MOST_ONCE
        self._membership.decide(message, Outcome.FAILED if failed else None, begun=False)

    def _give_back(self, rest: Sequence[Message], generation: int) -> None:
        if self._membership.generation == generation:
            for message in rest:
                self._membership.decide(message, None, begun=False)
        else:
            self._membership.lost += [message.id for message in rest]
            self._tell_lost()

    def _tell_lost(self) -> None:
        while self._membership.lost:
            message_id = self._membership.lost.pop(0)
            self.lost += 1
            log.warning("message %s of %s is no longer this consumer's", message_id, self._queue)
            if self._on_lost is not None:
                self._on_lost(message_id)

    # Waiting

    def _wait(self) -> None:
        """Until there may be something to claim."""
        with self._access.waiting(self._queue) as woken:
            look_at = time.monotonic()
            while not self._stopping:
                woken.wait(self._timings.look_s)
                self._access.listen()
                if not woken.is_set() and time.monotonic() < look_at:
                    continue
                woken.clear()
                try:
                    with self._access.unit(write=False) as (unit, now):
                        due = consumers_of(unit).first_due(self._queue)
                except TryAgain:
                    return  # the claim that follows knows how to wait for the database
                if due is not None and due <= now:
                    return
                patience_s = self._timings.look_anyway_s if due is None else (due - now) / 1000
                look_at = time.monotonic() + min(self._timings.look_anyway_s, patience_s)

    def _keep_trying(self, action: Callable[..., list[Message]], **options: bool) -> list[Message]:
        """Until the store answers, or the consumer is to stop: then nothing."""
        while not self._stopping:
            try:
                result = action(**options)
            except (TryAgain, QueueNotFound) as error:  # a queue that is deleted at this very moment is made again
                self._nap(self._backoff.failed(error))
            else:
                self._backoff.worked()
                return result
        return []

    def _try(self, action: Callable[[], object]) -> None:
        """Once: what fails is done with the next batch."""
        try:
            action()
        except TryAgain as error:
            self._backoff.failed(error)

    def _nap(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, self._timings.look_s))

    def _leave(self) -> None:
        until = time.monotonic() + self._timings.leave_s
        while True:
            try:
                self._membership.leave()
                break
            except TryAgain as error:
                delay = self._backoff.failed(error)
                if time.monotonic() + delay > until:
                    log.error(
                        "consumer %s stops without a word to its database, and is missed soon: %s", self.id, error
                    )
                    break
                time.sleep(delay)
        self._tell_lost()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()
        self.wait(self._timings.leave_s)
