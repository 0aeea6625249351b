"""Families of series as text: in Prometheus' format 0.0.4, and in OpenMetrics 1.0.

The two differ in little. OpenMetrics names a counter without its `_total`, knows a type for what is only a label, tells
units and when a total began, and ends with a mark, so that half an answer is not taken for a whole one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, Literal

from msgspec import Struct

PREFIX: Final = "penstock_"
_UNITS: Final = ("seconds", "bytes")
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Family(Struct, frozen=True):
    """What Prometheus calls so: series that differ only in their labels. A counter's name is without `_total`, that of
    an info without `_info`.

    `samples` are by the values of the labels: one number each, and of a histogram as in `Numbers`, whose `bounds` are
    the upper ends of all buckets but the last. `began_at` is when its totals were 0, in seconds since the epoch, if
    that is known.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram", "info"]
    help: str
    labels: tuple[str, ...]
    samples: Mapping[tuple[str, ...], Sequence[float]]
    bounds: tuple[float, ...] = ()
    began_at: float | None = None


def prometheus_text(families: Iterable[Family]) -> bytes:
    return "".join(f"{line}\n" for family in families for line in _lines(family, is_open=False)).encode()


def openmetrics_text(families: Iterable[Family]) -> bytes:
    lines = "".join(f"{line}\n" for family in families for line in _lines(family, is_open=True))
    return f"{lines}# EOF\n".encode()


def _lines(family: Family, is_open: bool) -> Iterator[str]:
    name = PREFIX + family.name
    suffix = {"counter": "_total", "info": "_info"}.get(family.kind, "")
    described = name if is_open else name + suffix
    yield f"# HELP {described} {family.help}"
    yield f"# TYPE {described} {family.kind if is_open or family.kind != 'info' else 'gauge'}"
    unit = family.name.rpartition("_")[2]
    if is_open and unit in _UNITS:
        yield f"# UNIT {described} {unit}"
    began = f" {_number(family.began_at)}" if is_open and family.began_at is not None else ""
    for values, numbers in family.samples.items():
        labels = _pairs(family.labels, values)
        if family.kind == "histogram":
            yield from _histogram(name, labels, numbers, family.bounds)
        else:
            yield f"{name}{suffix}{_braced(labels)} {_number(numbers[0])}"
        if began and family.kind in ("counter", "histogram"):
            yield f"{name}_created{_braced(labels)}{began}"


def _histogram(name: str, labels: str, numbers: Sequence[float], bounds: tuple[float, ...]) -> Iterator[str]:
    *buckets, total = numbers
    counts = list(accumulate(buckets))
    comma = "," if labels else ""
    for bound, count in zip((*(repr(float(bound)) for bound in bounds), "+Inf"), counts, strict=True):
        yield f'{name}_bucket{{{labels}{comma}le="{bound}"}} {_number(count)}'
    yield f"{name}_count{_braced(labels)} {_number(counts[-1])}"
    yield f"{name}_sum{_braced(labels)} {_number(total)}"


def _pairs(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True))


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _number(value: float) -> str:
    """Whole numbers as such, however they were counted."""
    return str(int(value)) if value == int(value) else repr(float(value))
