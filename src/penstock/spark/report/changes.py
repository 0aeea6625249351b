"""How a figure of one day differs from that of the day before, in words: an arrow and a colour alone would not do on a
printed page, nor for everybody."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.spark.report.axis import DAY_MS, at
from penstock.spark.report.figures import PERCENTILES
from penstock.spark.report.scales import count, duration, per_cent
from penstock.spark.report.tables import Days, Durations, Figure

# Each of two percentiles may be off by a little, so a small difference between them says nothing.
_SAME_DURATION = 0.05
_SAME_COUNT = 0.005
_SAME_SHARE = 0.0005
# What differs by less is said, but is neither better nor worse.
_NOTABLE = 0.1
_NOTABLE_SHARE = 0.005
# From here on, "3 times as many" is easier to grasp than "200 % more".
_TIMES = 2.0


@dataclass(frozen=True)
class Change:
    """`arrow` is up, down or level; `tone` says whether that is better, worse or neither."""

    what: str
    now: str
    before: str
    arrow: str
    words: str
    tone: str = "neither"


def counts(what: str, before: int, now: int, *, bad: bool = False) -> Change:
    """`bad` are those of which more is worse."""
    if before == now:
        return Change(what, count(now), count(before), "=", "the same")
    if not before or not now:
        words = "none the day before" if not before else "none any more"
    else:
        words = _compared(before, now, _SAME_COUNT, ("more", "fewer"), "many")
    tone = _tone(now - before, _NOTABLE * before) if bad else "neither"
    return Change(what, count(now), count(before), _arrow(words, before, now), words, tone)


def durations(what: str, before: float | None, now: float | None) -> Change:
    told = (what, duration(now), duration(before))
    if before is None or now is None:
        return Change(*told, "=", "nothing to compare")
    # What takes less than a millisecond counts as one, or the next one would be infinitely longer.
    words = _compared(max(before, 1), max(now, 1), _SAME_DURATION, ("longer", "shorter"), "long")
    tone = _tone(now - before, _NOTABLE * max(before, 1))
    return Change(*told, _arrow(words, before, now), words, tone)


def shares(what: str, before: float | None, now: float | None) -> Change:
    """Of shares of the finished messages of which more is worse. They differ by points."""
    told = (what, per_cent(now), per_cent(before))
    if before is None or now is None:
        return Change(*told, "=", "nothing to compare")
    points = abs(now - before) * 100
    if points < _SAME_SHARE * 100:
        return Change(*told, "=", "about the same" if now != before else "the same")
    shown = f"{points:.2g}" if points < 10 else f"{points:.0f}"
    words = f"{shown} {'point' if shown == '1' else 'points'} {'more' if now > before else 'less'}"
    return Change(*told, _arrow(words, before, now), words, _tone(now - before, _NOTABLE_SHARE))


def changes(before: Figure, now: Figure) -> list[Change]:
    """All that is compared of a queue, in the order of the page."""
    spans = ("latency", "wait", "handling")
    return [
        counts("finished", before.finished, now.finished),
        *(
            durations(
                f"{span} p{round(share * 100)}", _of(getattr(before, span), place), _of(getattr(now, span), place)
            )
            for span in spans
            for place, share in enumerate(PERCENTILES)
        ),
        shares("handed out again", before.rate(before.redelivered), now.rate(now.redelivered)),
        counts("lost", before.lost, now.lost, bad=True),
    ]


def called(days: Days) -> str:
    """Which times are compared."""
    day, before = at(days.day), at(days.day - DAY_MS)
    if days.whole:
        return f"{day:%A} {day:%Y-%m-%d} and {before:%A} {before:%Y-%m-%d}, whole days, UTC"
    time = f"{at(days.until):%H:%M:%S}"
    return f"{day:%A} {day:%Y-%m-%d} and {before:%A} {before:%Y-%m-%d}, each until {time} UTC"


def _of(values: Durations, place: int) -> float | None:
    return None if values is None else values[place]


def _compared(before: float, now: float, same: float, words: tuple[str, str], much: str) -> str:
    ratio = now / before
    if abs(ratio - 1) <= same:
        return "about the same" if now != before else "the same"
    if ratio >= _TIMES:
        return f"{ratio:,.2g} times as {much}" if ratio < 10 else f"{ratio:,.0f} times as {much}"
    return f"{_per_cent(abs(ratio - 1))} {words[0] if ratio > 1 else words[1]}"


def _per_cent(share: float) -> str:
    percent = share * 100
    # Ninety-nine and a half of a hundred are not all of them.
    return f"{percent:.0f} %" if 1 <= percent < 99 else f"{percent:.2g} %" if percent < 1 else f"{percent:.1f} %"


def _tone(by: float, notable: float) -> str:
    """Of figures of which less is better."""
    return "neither" if abs(by) < notable else "worse" if by > 0 else "better"


def _differs(words: str) -> bool:
    return words not in ("the same", "about the same")


def _arrow(words: str, before: float, now: float) -> str:
    return "=" if not _differs(words) else "▲" if now > before else "▼"
