"""A worker in threads: claims messages, hands them to a handler, renews them, and acks or releases each by itself.

The calling thread claims. `concurrency` threads run the handler and report what it did, and one more renews.
Nothing is acked that the handler has not finished, and nothing is lost that it has not: whatever ends the worker, even
a kill, the rest comes back when its claim runs out.
"""

from __future__ import annotations

import inspect
import queue
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from penstock.client.errors import ClientError
from penstock.client.patience import ONCE, Pauses
from penstock.client.values import ClaimedMessage
from penstock.client.work import (
    RETURNED,
    Book,
    Following,
    Plan,
    Reachability,
    Verdict,
    Worked,
    log,
    new_attempt,
    verdict_on,
)

if TYPE_CHECKING:
    from penstock.client.client import Client

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# How often an event of the caller's is looked at.
_LOOK_S = 0.1


class Worker:
    def __init__(
        self, client: Client, plan: Plan, handle: Callable[[ClaimedMessage], object], stop: threading.Event | None
    ) -> None:
        if inspect.iscoroutinefunction(handle):
            raise TypeError("the handler is a coroutine function, which AsyncClient.work runs")
        # A worker tries by itself, and for as long as it takes: one that waits in a call could not stop.
        self._client = client.with_patience(ONCE)
        self._patience = client.patience
        self._plan = plan
        self._handle = handle
        self._stop = stop
        self._stop_asked = False
        self._failure: BaseException | None = None
        self._book = Book(plan.queue, plan.in_order)
        # Guards the book.
        self._lock = threading.Lock()
        # Held while a renewal is under way: one that overtook a release would hold the message again.
        self._renewing = threading.Lock()
        self._server = Reachability()
        self._todo: queue.SimpleQueue[ClaimedMessage | None] = queue.SimpleQueue()
        # Wakes the calling thread. A signal may put here whatever that thread is in the middle of; an Event may not be
        # set then.
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._over = threading.Event()

    def run(self, *, signals: bool) -> Worked:
        plan = self._plan
        handlers = [self._thread(self._handle_all) for _ in range(plan.concurrency)]
        renewer = self._thread(self._renew_all)
        for thread in (*handlers, renewer):
            thread.start()
        log.info("working on %s, %d at a time", plan.queue, plan.concurrency)
        try:
            with StopSignals(self.ask_to_stop, enabled=signals):
                try:
                    self._claim_all()
                except ClientError as error:
                    self._fail(error)
                self._finish()
        finally:
            self._over.set()
            for _ in handlers:
                self._todo.put(None)
        with self._lock:
            self._book.close()
            idle = not self._book.held
        for thread in (*handlers, renewer) if idle else ():
            thread.join(timeout=1)
        if self._failure is not None:
            raise self._failure
        return replace(self._book.worked)

    def ask_to_stop(self) -> None:
        self._stop_asked = True
        self._news.put(None)

    def _thread(self, target: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                target()
            except BaseException as error:
                # Without this thread the others would go on renewing what is not handled.
                self._fail(error)

        return threading.Thread(target=run, name=f"penstock-{self._plan.queue}", daemon=True)

    # The calling thread

    def _claim_all(self) -> None:
        plan, pauses, attempt = self._plan, Pauses(self._patience), new_attempt()
        while not self._is_stopping():
            self._forget_news()
            wanted = plan.wanted(len(self._book.held))
            if not wanted:
                self._wait(plan.renew_every_s)
                continue
            try:
                messages = self._client.claim(plan.queue, wanted, plan.hold_ms, plan.wait_ms, attempt)
            except ClientError as error:
                self._server.failed(error)
                self._wait(pauses.after(error), only_stop=True)
                continue
            self._server.answered()
            pauses, attempt = Pauses(self._patience), new_attempt()
            if plan.until_empty and not messages and not self._book.held:
                return
            with self._lock:
                handled = self._book.take(messages)
            for message in handled:
                self._todo.put(message)

    def _finish(self) -> None:
        """Gives back what no handler has begun with, and waits for the rest."""
        end = time.monotonic() + self._plan.grace_s
        log.info("stopping work on %s", self._plan.queue)
        with self._lock:
            unbegun = self._book.lines.end()
        with suppress(queue.Empty):
            while (message := self._todo.get_nowait()) is not None:
                unbegun.append(message)
        if unbegun:
            # Not here: a server that is away must not take longer than the rest may take.
            self._thread(lambda: self._report(unbegun, RETURNED)).start()
        while self._book.held and (left := end - time.monotonic()) > 0:
            with suppress(queue.Empty):
                self._news.get(timeout=left)

    def _is_stopping(self) -> bool:
        return self._stop_asked or self._failure is not None or (self._stop is not None and self._stop.is_set())

    def _wait(self, seconds: float, *, only_stop: bool = False) -> None:
        """Until the time is over, the worker is to stop or, unless `only_stop`, a message is reported."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._is_stopping():
            try:
                self._news.get(timeout=left if self._stop is None else min(left, _LOOK_S))
            except queue.Empty:
                continue
            if not only_stop:
                return

    def _forget_news(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._news.get_nowait()

    # The threads of handlers

    def _handle_all(self) -> None:
        while (message := self._todo.get()) is not None:
            if self._book.is_lost(message):
                # Another worker has it already.
                verdict = RETURNED
            else:
                verdict = verdict_on(message, self._error_of(message), self._plan)
            self._report([message], verdict)

    def _error_of(self, message: ClaimedMessage) -> BaseException | None:
        try:
            result = self._handle(message)
            if inspect.isawaitable(result):
                raise TypeError("the handler returned something to be awaited, which AsyncClient.work does")
        except Exception as error:
            return error
        except BaseException as error:
            # sys.exit() in a handler: that ends the program, not just one of its threads.
            self._fail(error)
            return error
        return None

    def _report(self, messages: list[ClaimedMessage], verdict: Verdict) -> None:
        """Tries until the server has answered, or there is no time left to try. What follows of their groups is handled
        next, or given back as well."""
        pauses, following = Pauses(self._patience), Following()
        with self._lock:
            self._book.begin_report(messages)
        if not verdict.acks:
            with self._renewing:
                pass
        while messages:
            try:
                done = self._client._ask(verdict.report(self._plan.queue, messages))
                self._server.answered()
                with self._lock:
                    following = self._book.reported(messages, verdict, done)
                break
            except ClientError as error:
                if self._gives_up(error, pauses):
                    with self._lock:
                        self._book.unreported(messages, verdict)
                    break
        for message in following.handled:
            self._todo.put(message)
        if following.given_back:
            self._report(following.given_back, RETURNED)
        self._news.put(None)

    def _gives_up(self, error: ClientError, pauses: Pauses) -> bool:
        try:
            self._server.failed(error)
        except ClientError:
            self._fail(error)
            return True
        return self._over.wait(pauses.after(error))

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._news.put(None)

    # The thread that renews

    def _renew_all(self) -> None:
        plan, pauses = self._plan, Pauses(self._patience)
        pause_s = plan.renew_every_s
        while not self._over.wait(pause_s):
            pause_s = plan.renew_every_s
            try:
                with self._renewing:
                    with self._lock:
                        receipts = self._book.renewable()
                    done = self._client.renew(plan.queue, receipts, plan.hold_ms)
                with self._lock:
                    self._book.renewed(receipts, done)
                pauses = Pauses(self._patience)
            except ClientError as error:
                if self._gives_up(error, pauses):
                    return
                pause_s = 0


class StopSignals:
    """While it is entered in the main thread, the first SIGTERM or SIGINT calls `ask`. The second does what it would
    have done without."""

    def __init__(self, ask: Callable[[], None], *, enabled: bool) -> None:
        self._ask = ask
        self._enabled = enabled and threading.current_thread() is threading.main_thread()
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if self._enabled:
            for number in STOP_SIGNALS:
                self._previous[number] = signal.signal(number, self._come)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _come(self, _number: int, _frame: FrameType | None) -> None:
        self._restore()
        self._ask()

    def _restore(self) -> None:
        while self._previous:
            number, handler = self._previous.popitem()
            # None: it was set by something other than Python, which cannot set it again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
