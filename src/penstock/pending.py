"""A result that is still to come, without the price of an `asyncio.Future`.

A hot request costs about twenty microseconds in all, and a future with one callback takes three of
them: its callbacks run in a later turn of the event loop. A `Pending` calls its one listener at once,
inside the call that resolves it. It knows no event loop, and it never blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# What `map` has added: for a value, and for an error.
_Step = tuple[Callable[[Any], Any], Callable[[Exception], Any] | None]


class _Unset:
    __slots__ = ()


_UNSET = _Unset()


class Pending(Generic[T]):
    """Resolved or rejected once; listened to by one.

    `on_cancel` is set by the party that can still call the work off. It returns True when nothing has
    been done and nothing will be: then the listener is never called.
    """

    __slots__ = ("_error", "_on_error", "_on_value", "_steps", "_value", "is_abandoned", "on_cancel")

    def __init__(self) -> None:
        # A value of type T, or _UNSET.
        self._value: Any = _UNSET
        self._error: Exception | None = None
        self._steps: tuple[_Step, ...] = ()
        self._on_value: Callable[[T], object] | None = None
        self._on_error: Callable[[Exception], object] | None = None
        self.on_cancel: Callable[[], bool] | None = None
        # Whether its listener has no use for the result any more.
        self.is_abandoned = False

    def resolve(self, value: T) -> None:
        steps = self._steps
        if steps:
            self._steps = ()
            for index, (transform, _) in enumerate(steps):
                try:
                    value = transform(value)
                except Exception as error:
                    self._steps = steps[index + 1 :]
                    self.reject(error)
                    return
        self._value = value
        listener = self._on_value
        self._let_go()
        if listener is not None:
            listener(value)

    def reject(self, error: Exception) -> None:
        steps, self._steps = self._steps, ()
        for index, (_, recover) in enumerate(steps):
            if recover is None:
                continue
            try:
                value = recover(error)
            except Exception as raised:
                error = raised
            else:
                self._steps = steps[index + 1 :]
                self.resolve(value)
                return
        self._error = error
        listener = self._on_error
        self._let_go()
        if listener is not None:
            listener(error)

    def _let_go(self) -> None:
        # A pending result and its listener refer to each other. Left alone, every request would be a cycle
        # for the garbage collector.
        self._on_value = self._on_error = self.on_cancel = None

    def listen(self, on_value: Callable[[T], object], on_error: Callable[[Exception], object]) -> None:
        """Call one of the two, at once if the result is already there."""
        if self._value is not _UNSET:
            on_value(self._value)
        elif self._error is not None:
            on_error(self._error)
        else:
            self._on_value = on_value
            self._on_error = on_error

    def map(self, transform: Callable[[T], R], recover: Callable[[Exception], R] | None = None) -> Pending[R]:
        """The result of `transform`, or of `recover` for an error; what they raise is passed on.

        As there is only one listener, a result that is still to come is changed in place: the same object
        is returned, with one more step before its listener is called. Use the one that is returned.
        """
        step = (transform, recover)
        if self._value is _UNSET and self._error is None:
            self._steps = (*self._steps, step) if self._steps else (step,)
            # Not a cast: that would subscript `Pending` again in every call.
            return self  # type: ignore[return-value]
        following: Pending[Any] = Pending()
        following._steps = (step,)
        self.listen(following.resolve, following.reject)
        return following

    def cancel(self) -> bool:
        """Call the work off; False when it is too late or cannot be."""
        return self.on_cancel is not None and self.on_cancel()

    def abandon(self) -> None:
        """Call the work off. What it brings all the same is of no use to anyone."""
        self.is_abandoned = True
        self.cancel()


def resolved(value: T) -> Pending[T]:
    """One that is there already, where one may be still to come."""
    pending: Pending[T] = Pending()
    pending.resolve(value)
    return pending


def rejected(error: Exception) -> Pending[Any]:
    """One that was refused before any work began."""
    pending: Pending[Any] = Pending()
    pending.reject(error)
    return pending


def chained(first: Pending[T], go_on: Callable[[T], Pending[R]]) -> Pending[R]:
    """The result of what `go_on` begins with the value of the first. Called off, it calls off what is under way; once
    it is abandoned, nothing more begins."""
    whole: Pending[R] = Pending()
    # A list, because it changes: the work that is under way.
    current: list[Pending[Any]] = [first]

    def begin(value: T) -> None:
        if whole.is_abandoned:
            return
        try:
            following = go_on(value)
        except Exception as error:
            whole.reject(error)
            return
        current[0] = following
        following.listen(whole.resolve, whole.reject)

    def call_off() -> bool:
        current[0].is_abandoned = whole.is_abandoned
        return current[0].cancel()

    whole.on_cancel = call_off
    first.listen(begin, whole.reject)
    return whole


def gather(pendings: Sequence[Pending[T]]) -> Pending[list[T]]:
    """All results in their order, once the last is there; the first error instead, if there is any."""
    gathered: Pending[list[T]] = Pending()
    results: dict[int, T] = {}
    failed: list[Exception] = []

    def take(index: int, value: T) -> None:
        results[index] = value
        if len(results) == len(pendings):
            gathered.resolve([results[number] for number in range(len(pendings))])

    def fail(error: Exception) -> None:
        if not failed:
            failed.append(error)
            gathered.reject(error)

    for index, pending in enumerate(pendings):
        pending.listen(partial(take, index), fail)
    if not pendings:
        gathered.resolve([])
    return gathered
