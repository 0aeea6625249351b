"""Waiting for something that another thread or process is about to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 60, every_s: float = 0.01, what: str = "it") -> None:
    """Look again and again whether it has happened; the time is only there to end a test that fails."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        threading.Event().wait(every_s)
