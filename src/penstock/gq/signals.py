"""SIGTERM and SIGINT ask a consumer to stop; a second one does what it would have done without us."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Python lets only the main thread set handlers; in others nothing happens."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            # One that was not set from Python cannot be set again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def handle(_number: int, _frame: FrameType | None) -> None:
        # So that a callback that never returns can still be ended.
        restore()
        stop()

    for number in _SIGNALS:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
