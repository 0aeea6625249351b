"""A simulation of a server with many edges: how many sends a second it takes where every process has a core.

It is what `--workers` does, turn by turn, with costs that were measured:

- A connection sends, waits for the answer, and sends again after the time that the load generator takes for one.
- An edge takes all that has come, requests and answers, in one turn of its event loop. The requests leave in one frame
  for the committer, and the answers for their connections, when the turn ends.
- The committer takes all frames that have come, makes one unit of them, waits for the disk, and sends each edge that
  took part one frame of answers.

What it assumes, and a machine need not keep: each process has a core of its own, and the load generator enough of
them; no cache, memory bus or network is shared or full; a frame arrives when it is sent; a turn costs what it cost
here, whatever the number of its messages; a sync takes the same time each time, and SQLite's checkpoints cost CPU
alone. Connections fall on edges by chance, as the kernel deals them out, so that some edges have more than others.
"""

from __future__ import annotations

import heapq
import itertools
import operator
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial


@dataclass(frozen=True)
class Costs:
    """Microseconds."""

    # In the load generator, for one send.
    load: float
    # In an edge: for one send; and for two frames, the one that carries calls and the one that brings answers.
    edge_send: float
    edge_frames: float
    # In the committer: for one send, for two frames, and for one unit; and how long that waits for the disk.
    send: float
    frames: float
    unit: float
    sync: float


@dataclass(frozen=True)
class Scaling:
    per_second: float
    # How much of the time the committer works or waits for the disk.
    committer_busy: float


@dataclass
class _Edge:
    """What has come since its last turn began: requests, and frames of answers by their size."""

    requests: int = 0
    frames: list[int] = field(default_factory=list)
    is_busy: bool = False


class _Simulation:
    def __init__(self, costs: Costs, edges: int, connections: int, seed: int) -> None:
        self._costs = costs
        self._chance = random.Random(seed)
        self._edges = [_Edge() for _ in range(edges)]
        # Each with its edge, and how many sends it carries.
        self._frames: list[tuple[_Edge, int]] = []
        self._committer_is_busy = False
        # What happens when; the count keeps the order of what happens together.
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._now = 0.0
        self.answered = 0
        self.committer_us = 0.0
        for _ in range(connections):
            delay = self._chance.random() * (costs.unit + costs.sync)
            self._after(delay, partial(self._send, self._chance.choice(self._edges)))

    def run(self, until_us: float) -> None:
        while self._events[0][0] < until_us:
            self._now, _, happen = heapq.heappop(self._events)
            happen()

    def _after(self, delay_us: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._now + delay_us, next(self._count), happen))

    def _send(self, edge: _Edge) -> None:
        edge.requests += 1
        self._turn(edge)

    def _turn(self, edge: _Edge) -> None:
        if edge.is_busy or not (edge.requests or edge.frames):
            return
        edge.is_busy = True
        requests, answers = edge.requests, sum(edge.frames)
        frames = len(edge.frames) + bool(requests)
        edge.requests, edge.frames = 0, []
        took = self._costs.edge_send / 2 * (requests + answers) + self._costs.edge_frames / 2 * frames
        self._after(took, partial(self._end_turn, edge, requests, answers))

    def _end_turn(self, edge: _Edge, requests: int, answers: int) -> None:
        if requests:
            self._frames.append((edge, requests))
            self._commit()
        self.answered += answers
        for _ in range(answers):
            self._after(self._chance.expovariate(1 / self._costs.load), partial(self._send, edge))
        edge.is_busy = False
        self._turn(edge)

    def _commit(self) -> None:
        if self._committer_is_busy or not self._frames:
            return
        self._committer_is_busy = True
        frames, self._frames = self._frames, []
        costs = self._costs
        took = costs.unit + costs.sync + sum(costs.frames + costs.send * sends for _, sends in frames)
        self.committer_us += took
        self._after(took, partial(self._end_unit, frames))

    def _end_unit(self, frames: list[tuple[_Edge, int]]) -> None:
        for edge, sends in frames:
            edge.frames.append(sends)
            self._turn(edge)
        self._committer_is_busy = False
        self._commit()


def simulate(costs: Costs, edges: int, connections: int, seconds: float = 0.3, seeds: int = 5) -> Scaling:
    """The mean of several ways in which connections may fall on edges. The first third of the time is not counted."""
    rates, shares = [], []
    for seed in range(seeds):
        simulation = _Simulation(costs, edges, connections, seed)
        simulation.run(seconds / 3 * 1e6)
        answered, busy_us = simulation.answered, simulation.committer_us
        simulation.run(seconds * 1e6)
        rates.append((simulation.answered - answered) / (seconds * 2 / 3))
        shares.append((simulation.committer_us - busy_us) / (seconds * 2 / 3 * 1e6))
    return Scaling(statistics.mean(rates), min(1.0, statistics.mean(shares)))


def fit(shares: Sequence[Sequence[float]], costs: Sequence[float]) -> list[float]:
    """What each thing costs, by least squares: a row of shares is how much of each thing one measured cost paid for.

    None of them is below zero: where noise would make it so, the thing costs nothing, and the others are found again.
    """
    columns = list(range(len(shares[0])))
    while True:
        found = _solved(
            [[sum(row[one] * row[other] for row in shares) for other in columns] for one in columns],
            [sum(row[one] * cost for row, cost in zip(shares, costs, strict=True)) for one in columns],
        )
        if min(found) >= 0:
            return [found[columns.index(one)] if one in columns else 0.0 for one in range(len(shares[0]))]
        del columns[found.index(min(found))]


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """By elimination. Sums of squares are on the diagonal, so that none of them is zero unless two things go along
    with each other in every row."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for one, pivot in enumerate(rows):
        for row in rows[one + 1 :]:
            factor = row[one] / pivot[one]
            row[:] = [value - factor * above for value, above in zip(row, pivot, strict=True)]
    found: list[float] = []
    for one, row in reversed(list(enumerate(rows))):
        found.insert(0, (row[-1] - sum(map(operator.mul, row[one + 1 : -1], found))) / row[one])
    return found
