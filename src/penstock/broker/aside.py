"""Long reads beside the units: in a thread, while no one but bulk work asks for anything.

SQLite writes many rows in one call, during which other threads of this process run. So while one shipment is claimed
or settled, another can be read on a second core, and neither waits for the other.

What was read is put into the caller's form in the thread as well: else the loop would have more to do for a shipment
than to claim it.

Reading takes a call for each row, and hands the interpreter over with every one: where the event loop is busy, it gets
it back late each time. Then a read is a task like all others, in steps between them. It is so, too, where a thread has
failed because of the store: what to do about that is known there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from penstock.broker.commit import Commit, Units
from penstock.broker.operations import Again, Task
from penstock.broker.protocol import Form
from penstock.errors import StoreBusy, StoreCorrupt, StoreUnavailable
from penstock.pending import Pending, chained, resolved
from penstock.stores.protocol import SideStore, Store

# Reads that may wait for the thread.
_MOST: Final = 16
# Rows of one step in the thread, at whose end no one waits.
_STEP_ROWS: Final = 5_000

T = TypeVar("T")


class Aside:
    """One thread, because two that read would hand the interpreter to each other with every row. It is there from the
    first read on."""

    def __init__(self, store: Store, units: Units, commit: Commit, loop: asyncio.AbstractEventLoop) -> None:
        is_allowed = store.limits.calm_times > 1
        self._store = store if is_allowed and isinstance(store, SideStore) else None
        self._limits = replace(store.limits, page_step_rows=max(_STEP_ROWS, store.limits.page_step_rows))
        self._units = units
        self._commit = commit
        self._loop = loop
        self._waiting: SimpleQueue[tuple[SideStore, Task, Form[Any, Any], Pending[Any]]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._under_way = 0

    def read(self, task: Task, form: Form[Any, T]) -> Pending[T]:
        """Ask for a task that changes nothing, and what comes of it in this form."""
        store = self._store
        if store is None or self._under_way == _MOST or not self._units.calm.lasts():
            return self._on_the_loop(task, form)
        answer: Pending[T] = Pending()
        self._under_way += 1
        self._waiting.put((store, task, form, answer))
        if self._thread is None:
            # A daemon: a disk that hangs must not keep the process from ending.
            self._thread = threading.Thread(target=self._run, name="penstock-aside", daemon=True)
            self._thread.start()
        return answer

    def _run(self) -> None:
        while True:
            tell = self._served(*self._waiting.get())
            try:
                self._loop.call_soon_threadsafe(self._come_back, tell)
            except RuntimeError:
                return  # the loop was closed

    def _served(self, store: SideStore, task: Task, form: Form[Any, T], answer: Pending[T]) -> Callable[[], object]:
        """What is to be done on the loop."""
        if answer.is_abandoned:
            return _nothing
        try:
            result = self._apply(store, task)
            if not self._units.calm.lasts():
                return lambda: chained(resolved(result), form.in_turns).listen(answer.resolve, answer.reject)
            return partial(answer.resolve, form.at_once(result))
        except (StoreBusy, StoreUnavailable, StoreCorrupt):
            return partial(self._ask_again, task, form, answer)
        except Exception as error:
            return partial(answer.reject, error)

    def _apply(self, store: SideStore, task: Task) -> Any:
        with store.unit_beside() as unit:
            while True:
                result = task.apply(unit, self._units.now(), self._limits)
                if not isinstance(result, Again):
                    return result
                task = result.task

    def _come_back(self, tell: Callable[[], object]) -> None:
        self._under_way -= 1
        tell()

    def _ask_again(self, task: Task, form: Form[Any, T], answer: Pending[T]) -> None:
        self._on_the_loop(task, form).listen(answer.resolve, answer.reject)

    def _on_the_loop(self, task: Task, form: Form[Any, T]) -> Pending[T]:
        def formed(result: Any) -> Pending[T]:
            return resolved(form.at_once(result)) if self._units.calm.lasts() else form.in_turns(result)

        return chained(self._commit.work(task), formed)


def _nothing() -> None:
    """For one who has hung up."""
