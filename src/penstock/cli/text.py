"""How values are written for people."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.durations import UNITS, parse_duration
from penstock.terminal import printable

_BINARY_SHOWN = 32


def age(since: int, now: int) -> str:
    """Roughly, in the largest unit that fits; never negative, though two machines' clocks may differ."""
    ms = max(0, now - since)
    unit, size = next(((unit, size) for unit, size in UNITS.items() if ms >= size), ("s", 1_000))
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
