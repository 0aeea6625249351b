"""The one place where the core reads the wall clock. Inside, an instant is whole milliseconds since the epoch."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]


def system_clock() -> int:
    return time.time_ns() // 1_000_000
