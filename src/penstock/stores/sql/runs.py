"""Sequence numbers as runs of consecutive numbers.

Messages that were sent together mostly stay together, and a statement finds them sooner between the first number and
the last than number by number.

A hundred thousand messages of one producer are one run. A shipment keeps its runs as a JSON list of two numbers each:
how far a run begins after the end of the one before, and how long it is. So a run is a few bytes, however high the
numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec

from penstock.stores.sql.engine import Engine
from penstock.stores.sql.statements import ByRuns

# The first and the last number.
Run = tuple[int, int]

_decode = msgspec.json.Decoder(list[int]).decode
# So many runs are sooner found by their ends, each in a statement of its own, than number by number.
_FEW = 8


def runs_of(seqs: Sequence[int]) -> list[Run]:
    """Of ascending numbers."""
    if seqs and seqs[-1] - seqs[0] == len(seqs) - 1:
        return [(seqs[0], seqs[-1])]
    return _joined((seq, seq) for seq in seqs)


def merged(runs: Sequence[Run], more: Sequence[Run]) -> list[Run]:
    """Later claims of a shipment mostly find higher numbers, but need not: a message may have become ready again."""
    return _joined(sorted([*runs, *more]))


def _joined(runs: Iterator[Run] | Sequence[Run]) -> list[Run]:
    joined: list[Run] = []
    begun, end = 0, -1
    for first, last in runs:
        if joined and first == end + 1:
            joined[-1] = (begun, last)
        else:
            begun = first
            joined.append((first, last))
        end = last
    return joined


def encode(runs: Sequence[Run]) -> str:
    numbers: list[int] = []
    end = 0
    for first, last in runs:
        numbers += (first - end, last - first + 1)
        end = last
    return msgspec.json.encode(numbers).decode()


def decode(text: str) -> list[Run]:
    numbers = _decode(text)
    runs: list[Run] = []
    end = 0
    for gap, count in zip(numbers[::2], numbers[1::2], strict=True):
        first = end + gap
        end = first + count - 1
        runs.append((first, end))
    return runs


def part(runs: Sequence[Run], start: int, limit: int) -> list[Run]:
    """The numbers at the positions from `start` on."""
    found: list[Run] = []
    for first, last in runs:
        if limit <= 0:
            break
        count = last - first + 1
        if start >= count:
            start -= count
            continue
        end = min(last, first + start + limit - 1)
        found.append((first + start, end))
        limit -= end - first - start + 1
        start = 0
    return found


def numbers_of(runs: Sequence[Run]) -> Sequence[int]:
    if len(runs) == 1:
        [(first, last)] = runs
        return range(first, last + 1)
    return list(chain.from_iterable(range(first, last + 1) for first, last in runs))


def at_once(engine: Engine, statement: ByRuns, seqs: Sequence[int]) -> tuple[str, tuple[object, ...]]:
    """The text of a statement that finds the messages with these numbers, ascending and at least one, and the
    parameters of its condition."""
    first, last = seqs[0], seqs[-1]
    if last - first == len(seqs) - 1:
        return statement.between, (first, last)
    return statement.among, (engine.listed(seqs),)


def each_run(
    engine: Engine, statement: ByRuns, runs: Sequence[Run]
) -> Iterator[tuple[str, Sequence[Run], tuple[object, ...]]]:
    """The texts of a statement that find the messages with these numbers, in their order; with each, the runs it is
    for, and the parameters of its condition."""
    if len(runs) <= _FEW:
        for run in runs:
            yield statement.between, [run], run
    else:
        yield statement.among, runs, (engine.listed(numbers_of(runs)),)
