"""What a power cut may leave of a disk that has a cache, by what was recorded of it.

A flush that was answered has put all writes before it on the disk for good. Of those since, a cut may leave any: here
every prefix of them is tried, and beside these a choice of subsets and of writes that were torn between two sectors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from soak.recorder import Event

SECTOR = 512
SUPERBLOCK_END = 4096


@dataclass(frozen=True, slots=True)
class Interval:
    """The writes between two flushes, and the instant at which the second was asked for: no one was told anything
    before it that relies on these writes."""

    number: int
    writes: Sequence[Event]
    until: float


def intervals(events: Sequence[Event], end: float) -> list[Interval]:
    """Up to an instant at which the current was cut for certain."""
    found: list[Interval] = []
    writes: list[Event] = []
    for event in events:
        if event.at >= end:
            break
        if event.data is None:
            found.append(Interval(len(found), writes, event.at))
            writes = []
        else:
            writes.append(event)
    found.append(Interval(len(found), writes, end))
    return found


def stretch(found: Sequence[Interval], random: Random, writes: int) -> Sequence[Interval]:
    """As many intervals in a row as have so many writes: all of a short life; of a long one those around the largest,
    where much is written back at once, or around any other."""
    middle = random.choice(
        [max(range(len(found)), key=lambda number: len(found[number].writes)), random.randrange(len(found))]
    )
    first = last = middle
    while sum(len(interval.writes) for interval in found[first : last + 1]) < writes:
        if first == 0 and last == len(found) - 1:
            break
        first, last = max(0, first - 1), min(len(found) - 1, last + 1)
    return found[first : last + 1]


@dataclass(frozen=True, slots=True)
class Cut:
    """A choice of an interval's writes that were left on the disk; all before the interval are."""

    interval: Interval
    kind: str  # prefix, subset or torn
    writes: Sequence[Event]

    def __str__(self) -> str:
        left, all_of_them = len(self.writes), len(self.interval.writes)
        return f"{self.kind} of {left} of {all_of_them} writes after flush {self.interval.number}"


def cuts(interval: Interval, random: Random, others: int = 1) -> Iterator[Cut]:
    """Every prefix, and so many choices of each other kind as there are `others`."""
    writes = interval.writes
    for length in range(len(writes) + 1):
        yield Cut(interval, "prefix", writes[:length])
    for _ in range(others):
        if len(writes) > 1:
            chosen = [write for write in writes if random.random() < 0.5]
            yield Cut(interval, "subset", chosen)
        if any(len(write.data or b"") > SECTOR for write in writes):
            yield Cut(
                interval, "torn", [sector for write in writes for sector in sectors(write) if random.random() < 0.7]
            )


def sectors(write: Event) -> Iterator[Event]:
    """A device writes a sector whole or not at all. ext4 relies on more for its superblock, which is two sectors: with
    one of them it cannot be mounted any more."""
    assert write.data is not None
    if write.offset < SUPERBLOCK_END:
        yield write
        return
    for start in range(0, len(write.data), SECTOR):
        yield Event(write.at, write.offset + start, write.data[start : start + SECTOR])


def apply(writes: Sequence[Event], image: Path) -> None:
    descriptor = os.open(image, os.O_WRONLY)
    try:
        for write in writes:
            assert write.data is not None
            os.pwrite(descriptor, write.data, write.offset)
    finally:
        os.close(descriptor)
