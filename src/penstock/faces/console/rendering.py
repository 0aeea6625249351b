"""Templates, made once, and how they write times, numbers and charts.

Everything that goes into a page is escaped by the templates. Nothing here knows a queue or a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock import __version__
from penstock.faces.console.assets import assets
from penstock.faces.console.bodies import one_line, visible

_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_UNITS: Final = (("d", _DAY), ("h", _HOUR), ("min", _MINUTE), ("s", _SECOND))
_SIZES: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_THOUSAND: Final = 1_000
_LAST_INSTANT: Final = 253_402_300_799_999


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("penstock.faces.console"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        number=number,
        short=short,
        size=size,
        duration=duration,
        instant=instant,
        iso=iso,
        segment=segment,
        rate=rate,
        visible=visible,
        one_line=one_line,
        pairs=lambda text: (text, text),
    )
    made.globals.update(
        asset=assets().address,
        version=__version__,
        query=query,
        spark_points=spark_points,
    )
    return made


def number(value: float | None) -> str:
    """With commas between the thousands; a dash for nothing."""
    return "–" if value is None else f"{value:,.0f}"


def short(value: float) -> str:
    """Three digits are enough to see: 12.3k."""
    if value < _THOUSAND:
        return f"{value:.0f}"
    signs = ("k", "M", "G", "T")
    power = min(len(signs), (len(f"{value:.0f}") - 1) // 3)
    return f"{value / _THOUSAND**power:.3g}{signs[power - 1]}"


def rate(value: float | None) -> str:
    """So many a second."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}" if value >= 0.1 else "<0.1"


def size(value: float | None) -> str:
    if value is None:
        return "–"
    for unit in _SIZES:
        if value < 1024 or unit == _SIZES[-1]:
            break
        value /= 1024
    return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"


def duration(milliseconds: float | None) -> str:
    """In at most two units: 3 d 4 h."""
    if milliseconds is None:
        return "–"
    rest = int(milliseconds)
    if rest < 0:
        return "-" + duration(-rest)
    if rest < _SECOND:
        return f"{rest} ms"
    parts: list[str] = []
    for unit, length in _UNITS:
        if rest >= length or parts:
            count, rest = divmod(rest, length)
            if count:
                parts.append(f"{count} {unit}")
            elif parts:
                break
        if len(parts) == 2:
            break
    return " ".join(parts)


def instant(milliseconds: int | None) -> str:
    """For people, in UTC: the server and its readers may be anywhere. `console.js` turns it into local time."""
    if milliseconds is None:
        return "–"
    return f"{_moment(milliseconds):%Y-%m-%d %H:%M:%S} UTC"


def iso(milliseconds: int) -> str:
    return _moment(milliseconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(min(max(milliseconds, 0), _LAST_INSTANT) / 1000, UTC)


def segment(text: str) -> str:
    """One part of a path, whatever is in it."""
    return quote(text, safe="")


def query(known: dict[str, object], **changes: object) -> Markup:
    """The query with some parameters changed; None leaves one out."""
    pairs = {name: value for name, value in {**known, **changes}.items() if value not in (None, "")}
    return Markup("?") + urlencode(pairs) if pairs else Markup("?")


def spark_points(values: Sequence[float], width: int = 100, height: int = 24) -> str:
    """The points of a polyline through the values, the largest at the top. Where it is level, its ends are enough."""
    last = len(values) - 1
    if last < 1:
        return ""
    scale = (height - 2) / (max(values) or 1)
    heights = [round(height - 1 - value * scale) if value > 0 else height - 1 for value in values]
    places = _places(len(values), width)
    return " ".join(
        f"{places[index]},{high}"
        for index, high in enumerate(heights)
        if index in (0, last) or not heights[index - 1] == high == heights[index + 1]
    )


@cache
def _places(count: int, width: int) -> tuple[str, ...]:
    return tuple(f"{index * width / (count - 1):.1f}" for index in range(count))
