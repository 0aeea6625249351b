"""Durations and instants as people write them: `30s`, `1h30m`, `5 min`, `forever`, `2026-05-01T12:30`, `never`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal

from penstock import limits

# Largest first: the order in which a duration is written.
UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_SIZES = {**UNITS, "min": UNITS["m"]}
_NUMBER, _UNIT = r"\d+(?:\.\d+)?", r"min|ms|[dhms]"
_DURATION = re.compile(rf"{_NUMBER} ?(?:{_UNIT})(?: ?{_NUMBER} ?(?:{_UNIT}))*", re.ASCII)
_PART = re.compile(rf"({_NUMBER}) ?({_UNIT})", re.ASCII)
_FOREVER = "forever"
_NEVER = "never"
# The last of the year 9999.
LATEST_INSTANT = 253_402_300_799_999


def parse_duration(text: str) -> int:
    """Milliseconds of `30s`, `1h30m`, `5 min`, `500ms` or `forever`. Raises ValueError."""
    text = text.strip().lower()
    if text == _FOREVER:
        return limits.DURATION_MS
    if text == "0":
        return 0
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration; write it like 500ms, 30s, 5m, 2h, 1d or 1h30m")
    return int(sum(Decimal(number) * _SIZES[unit] for number, unit in _PART.findall(text)))


def duration_within(text: str, least: int, most: int) -> int:
    """The same, from `least` to `most` milliseconds. Raises ValueError."""
    ms = parse_duration(text)
    if not least <= ms <= most:
        raise ValueError(f"{text} is not between {duration(least)} and {_readable(most)}")
    return ms


def duration(ms: int) -> str:
    """Exactly, as `parse_duration` reads it."""
    if ms == limits.DURATION_MS:
        return _FOREVER
    parts = []
    for unit, size in UNITS.items():
        whole, ms = divmod(ms, size)
        if whole:
            parts.append(f"{whole}{unit}")
    return "".join(parts) or "0s"


def _readable(ms: int) -> str:
    return f"{duration(ms)} ({ms // UNITS['d']:,} days)" if ms == limits.DURATION_MS else duration(ms)


def parse_instant(text: str, now: int) -> int:
    """Milliseconds since the epoch of a day or an instant in UTC, or of a duration before now. Raises ValueError."""
    try:
        return max(0, now - parse_duration(text))
    except ValueError:
        pass
    found = _read_instant(text)
    if found is None:
        raise ValueError(
            f"{text!r} is not an instant; write it like 2026-05-01, 2026-05-01T12:30, or 2h for two hours ago"
        )
    return found


def parse_expiry(text: str, now: int) -> int | None:
    """Milliseconds since the epoch of a day or an instant in UTC, or of a duration from now; None for `never`. Raises
    ValueError."""
    if text.strip().lower() in (_NEVER, _FOREVER):
        return None
    found = _read_instant(text)
    if found is None:
        try:
            found = now + parse_duration(text)
        except ValueError:
            raise ValueError(
                f"{text!r} is not a time to come; write it like 90d, 12h, 2027-05-01, 2027-05-01T12:30, or never"
            ) from None
    if not now < found <= LATEST_INSTANT:
        raise ValueError(f"{text!r} has passed already" if found <= now else f"{text!r} is too far away: say never")
    return found


def _read_instant(text: str) -> int | None:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
