"""What callers may pass, checked before anything is done."""

from __future__ import annotations

import math

# Three hundred years: an instant that far away still has a name of a sane length.
_LONGEST_S = 10_000_000_000


def seconds(name: str, value: object) -> float:
    """Raises TypeError and ValueError."""
    # A bool is an int to Python, but no caller means one second by True.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is a number of seconds, not {type(value).__name__}")
    if math.isnan(value) or not 0 <= value <= _LONGEST_S:
        raise ValueError(f"{name} is between 0 and {_LONGEST_S} seconds, not {value}")
    return value


def optional_seconds(name: str, value: object) -> float | None:
    return None if value is None else seconds(name, value)


def optional_count(name: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is an int or None, not {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} is at least 1, not {value}")
    return value


def payload(value: object) -> memoryview:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"a payload is bytes, not {type(value).__name__}")
    whole = memoryview(value)
    return whole.cast("B") if whole.c_contiguous else memoryview(whole.tobytes())


def mode(name: str, value: object) -> int:
    """Of a file: its owner has to be able to read and write it."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is an int, not {type(value).__name__}")
    if not 0 <= value <= 0o777 or value & 0o600 != 0o600:
        raise ValueError(f"{name} is between 0o600 and 0o777 and lets the owner read and write, not {value:#o}")
    return value
