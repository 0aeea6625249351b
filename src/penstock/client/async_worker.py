"""A worker in tasks of an event loop: what `worker` is in threads, and promises the same.

The task that called it claims; `concurrency` tasks run the handler and report what it did, and one more renews.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
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
from penstock.client.worker import STOP_SIGNALS

if TYPE_CHECKING:
    from penstock.client.async_client import AsyncClient

_LAST_MOMENT_S = 1.0


class AsyncWorker:
    def __init__(
        self, client: AsyncClient, plan: Plan, handle: Callable[[ClaimedMessage], Any], stop: asyncio.Event | None
    ) -> None:
        # A worker tries by itself, and for as long as it takes: one that waits in a call could not stop.
        self._client = client.with_patience(ONCE)
        self._patience = client.patience
        self._plan = plan
        self._handle = handle
        self._stop = stop
        self._stop_asked = False
        self._failure: BaseException | None = None
        self._book = Book(plan.queue, plan.in_order)
        # Held while a renewal is under way: one that overtook a release would hold the message again.
        self._renewing = asyncio.Lock()
        self._server = Reachability()
        self._todo: deque[ClaimedMessage] = deque()
        self._given = asyncio.Event()
        self._news = asyncio.Event()
        self._over = asyncio.Event()
        self._handlers: list[asyncio.Task[None]] = []
        # Those that are past the handler.
        self._reporting: set[asyncio.Task[Any]] = set()

    async def run(self, *, signals: bool) -> Worked:
        plan = self._plan
        self._handlers = [self._task(self._handle_all) for _ in range(plan.concurrency)]
        others = [self._task(self._renew_all), self._task(self._watch_stop)]
        log.info("working on %s, %d at a time", plan.queue, plan.concurrency)
        try:
            with LoopSignals(self.ask_to_stop, enabled=signals):
                try:
                    await self._claim_all()
                except ClientError as error:
                    self._fail(error)
                await self._finish()
        finally:
            # Also where the caller was cancelled.
            self._over.set()
            await self._end_handlers()
            await _cancelled(others)
            self._book.close()
        if self._failure is not None:
            raise self._failure
        return replace(self._book.worked)

    def ask_to_stop(self) -> None:
        self._stop_asked = True
        self._news.set()

    def _task(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        async def run() -> None:
            try:
                await work()
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                # Without this task the others would go on renewing what is not handled.
                self._fail(error)

        return asyncio.create_task(run(), name=f"penstock-{self._plan.queue}")

    async def _watch_stop(self) -> None:
        if self._stop is not None:
            await self._stop.wait()
            self.ask_to_stop()

    # The calling task

    async def _claim_all(self) -> None:
        plan, pauses, attempt = self._plan, Pauses(self._patience), new_attempt()
        while not self._is_stopping():
            self._news.clear()
            wanted = plan.wanted(len(self._book.held))
            if not wanted:
                await self._news.wait()
                continue
            try:
                messages = await self._client.claim(plan.queue, wanted, plan.hold_ms, plan.wait_ms, attempt)
            except ClientError as error:
                self._server.failed(error)
                await self._pause(pauses.after(error))
                continue
            self._server.answered()
            pauses, attempt = Pauses(self._patience), new_attempt()
            if plan.until_empty and not messages and not self._book.held:
                return
            self._hand_out(self._book.take(messages))

    def _hand_out(self, messages: list[ClaimedMessage]) -> None:
        self._todo.extend(messages)
        self._given.set()

    async def _finish(self) -> None:
        """Gives back what no handler has begun with, and waits for the rest."""
        log.info("stopping work on %s", self._plan.queue)
        unbegun = [*self._todo, *self._book.lines.end()]
        self._todo.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._plan.grace_s):
                await self._report(unbegun, RETURNED)
                while self._book.held:
                    self._news.clear()
                    await self._news.wait()

    async def _end_handlers(self) -> None:
        """Cancels the handlers and gives back at once what they were at. An ack on its way has a moment to arrive."""
        await _cancelled([task for task in self._handlers if task not in self._reporting])
        await self._report([self._book.held[receipt] for receipt in self._book.renewable()], RETURNED)
        if self._reporting:
            await asyncio.wait(self._reporting, timeout=_LAST_MOMENT_S)
        await _cancelled(self._handlers)

    def _is_stopping(self) -> bool:
        return self._stop_asked or self._failure is not None

    async def _pause(self, seconds: float) -> None:
        """Until the time is over or the worker is to stop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._is_stopping():
                    self._news.clear()
                    await self._news.wait()

    # The tasks of handlers

    async def _handle_all(self) -> None:
        while True:
            while not self._todo:
                self._given.clear()
                await self._given.wait()
            message = self._todo.popleft()
            if self._book.is_lost(message):
                # Another worker has it already.
                verdict = RETURNED
            else:
                verdict = verdict_on(message, await self._error_of(message), self._plan)
            if task := asyncio.current_task():
                self._reporting.add(task)
                await self._report([message], verdict)
                self._reporting.discard(task)

    async def _error_of(self, message: ClaimedMessage) -> BaseException | None:
        try:
            result = self._handle(message)
            if inspect.isawaitable(result):
                await result
        except asyncio.CancelledError as error:
            if self._over.is_set():
                raise
            return error
        except Exception as error:
            return error
        except BaseException as error:
            # sys.exit() in a handler: that ends the program, not just one of its tasks.
            self._fail(error)
            return error
        return None

    async def _report(self, messages: list[ClaimedMessage], verdict: Verdict) -> None:
        """Tries until the server has answered, or there is no time left to try. What follows of their groups is handled
        next, or given back as well."""
        pauses, following = Pauses(self._patience), Following()
        self._book.begin_report(messages)
        if not verdict.acks:
            async with self._renewing:
                pass
        while messages:
            try:
                done = await self._client._ask(verdict.report(self._plan.queue, messages))
                self._server.answered()
                following = self._book.reported(messages, verdict, done)
                break
            except ClientError as error:
                if await self._gives_up(error, pauses):
                    self._book.unreported(messages, verdict)
                    break
        self._hand_out(following.handled)
        if following.given_back:
            await self._report(following.given_back, RETURNED)
        self._news.set()

    async def _gives_up(self, error: ClientError, pauses: Pauses) -> bool:
        try:
            self._server.failed(error)
        except ClientError:
            self._fail(error)
            return True
        return await self._is_over_after(pauses.after(error))

    async def _is_over_after(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
        return self._over.is_set()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._news.set()

    # The task that renews

    async def _renew_all(self) -> None:
        plan, pauses = self._plan, Pauses(self._patience)
        pause_s = plan.renew_every_s
        while not await self._is_over_after(pause_s):
            pause_s = plan.renew_every_s
            try:
                async with self._renewing:
                    receipts = self._book.renewable()
                    done = await self._client.renew(plan.queue, receipts, plan.hold_ms)
                self._book.renewed(receipts, done)
                pauses = Pauses(self._patience)
            except ClientError as error:
                if await self._gives_up(error, pauses):
                    return
                pause_s = 0


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class LoopSignals:
    """While it is entered in the main thread, the first SIGTERM or SIGINT calls `ask`. The second does what it would
    have done without."""

    def __init__(self, ask: Callable[[], None], *, enabled: bool) -> None:
        self._ask = ask
        self._enabled = enabled and threading.current_thread() is threading.main_thread()
        self._loop = asyncio.get_running_loop()
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> LoopSignals:
        if self._enabled:
            for number in STOP_SIGNALS:
                self._previous[number] = signal.getsignal(number)
                self._loop.add_signal_handler(number, self._come)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _come(self) -> None:
        self._restore()
        self._ask()

    def _restore(self) -> None:
        while self._previous:
            number, handler = self._previous.popitem()
            self._loop.remove_signal_handler(number)
            # None: it was set by something other than Python, which cannot set it again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
