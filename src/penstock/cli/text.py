"""How values are written for people, and durations read from them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal

from penstock import limits
from penstock.terminal import printable

# Largest first: the order in which a duration is written.
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[dhms]))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])", re.ASCII)
_FOREVER = "forever"
_BINARY_SHOWN = 32


def parse_duration(text: str) -> int:
    """Milliseconds of `30s`, `1h30m`, `500ms` or `forever`. Raises ValueError."""
    text = text.strip().lower()
    if text == _FOREVER:
        return limits.DURATION_MS
    if text == "0":
        return 0
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration; write it like 500ms, 30s, 5m, 2h, 1d or 1h30m")
    return int(sum(Decimal(number) * _UNITS[unit] for number, unit in _PART.findall(text)))


def duration(ms: int) -> str:
    """Exactly, as `parse_duration` reads it."""
    if ms == limits.DURATION_MS:
        return _FOREVER
    parts = []
    for unit, size in _UNITS.items():
        whole, ms = divmod(ms, size)
        if whole:
            parts.append(f"{whole}{unit}")
    return "".join(parts) or "0s"


def age(since: int, now: int) -> str:
    """Roughly, in the largest unit that fits; never negative, though two machines' clocks may differ."""
    ms = max(0, now - since)
    unit, size = next(((unit, size) for unit, size in _UNITS.items() if ms >= size), ("s", 1_000))
    return "0s" if unit == "ms" else f"{ms // size}{unit}"


def instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def parse_instant(text: str, now: int) -> int:
    """Milliseconds since the epoch of a day or an instant in UTC, or of a duration before now. Raises ValueError."""
    try:
        return max(0, now - parse_duration(text))
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{text!r} is not an instant; write it like 2026-05-01, 2026-05-01T12:30, or 2h for two hours ago"
        ) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def number(count: int) -> str:
    return f"{count:,}"


def plural(count: int, noun: str) -> str:
    return f"{number(count)} {noun}" if count == 1 else f"{number(count)} {noun}s"


def body(data: bytes) -> str:
    try:
        return printable(data.decode())
    except UnicodeDecodeError:
        more = "…" if len(data) > _BINARY_SHOWN else ""
        return f"({plural(len(data), 'byte')}) {data[:_BINARY_SHOWN].hex(' ')}{more}"
