"""A result that is still to come, without the price of an `asyncio.Future`.

A hot request costs about twenty microseconds in all, and a future with one callback takes three of
them: it goes through the event loop once more before anybody is told. A `Pending` calls its one
listener at once, in the stack of whoever resolves it. It knows no event loop, and it never blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")


class _Unset:
    __slots__ = ()


_UNSET = _Unset()


class Pending(Generic[T]):
    """Resolved or rejected once; listened to by one.

    `on_cancel` is set by whoever can still call the work off. It returns True when nothing has been
    done and nothing will be: then the listener is never called.
    """

    __slots__ = ("_error", "_on_error", "_on_value", "_value", "on_cancel")

    def __init__(self) -> None:
        self._value: T | _Unset = _UNSET
        self._error: Exception | None = None
        self._on_value: Callable[[T], object] | None = None
        self._on_error: Callable[[Exception], object] | None = None
        self.on_cancel: Callable[[], bool] | None = None

    def resolve(self, value: T) -> None:
        self._value = value
        listener = self._on_value
        self._let_go()
        if listener is not None:
            listener(value)

    def reject(self, error: Exception) -> None:
        self._error = error
        listener = self._on_error
        self._let_go()
        if listener is not None:
            listener(error)

    def _let_go(self) -> None:
        # Those who wait and those they wait for know each other. Left alone, every request would be a
        # cycle for the garbage collector.
        self._on_value = self._on_error = self.on_cancel = None

    def listen(self, on_value: Callable[[T], object], on_error: Callable[[Exception], object]) -> None:
        """Call one of the two, at once if the result is already there."""
        if self._value is not _UNSET:
            on_value(cast(T, self._value))
        elif self._error is not None:
            on_error(self._error)
        else:
            self._on_value = on_value
            self._on_error = on_error

    def then(self, transform: Callable[[T], R], recover: Callable[[Exception], R] | None = None) -> Pending[R]:
        """The result of `transform`, or of `recover` for an error; what they raise is passed on."""
        following = _Following(transform, recover)
        following.on_cancel = self.cancel
        self.listen(following.take, following.take_error)
        return following

    def cancel(self) -> bool:
        """Call the work off; False when it is too late or cannot be."""
        return self.on_cancel is not None and self.on_cancel()


class _Following(Pending[R], Generic[T, R]):
    """What a `then` makes of a result."""

    __slots__ = ("_recover", "_transform")

    def __init__(self, transform: Callable[[T], R], recover: Callable[[Exception], R] | None) -> None:
        super().__init__()
        self._transform = transform
        self._recover = recover

    def take(self, value: T) -> None:
        try:
            result = self._transform(value)
        except Exception as error:
            self.reject(error)
        else:
            self.resolve(result)

    def take_error(self, error: Exception) -> None:
        if self._recover is None:
            self.reject(error)
            return
        try:
            result = self._recover(error)
        except Exception as raised:
            self.reject(raised)
        else:
            self.resolve(result)
