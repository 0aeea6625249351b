"""How values are written for people."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.durations import UNITS
from penstock.terminal import printable

_BINARY_SHOWN = 32


def age(since: int, now: int) -> str:
    """Roughly, in the largest unit that fits; never negative, though two machines' clocks may differ."""
    ms = max(0, now - since)
    unit, size = next(((unit, size) for unit, size in UNITS.items() if ms >= size), ("s", 1_000))
    return "0s" if unit == "ms" else f"{ms // size}{unit}"


def instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


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
