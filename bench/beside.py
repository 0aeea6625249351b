"""Penstock beside what people would pick instead, each with its most durable settings: single sends, full cycles,
batches of a thousand, and how long one send takes; and all of that again with ten million messages queued.

All are private servers on this machine and its disk, asked in turns, by the same load where they speak a protocol that
it speaks (`bench/peers/`). The load tells how busy it was itself: none may be slow because of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from bench.foundation import folder
from bench.measure import Effort, Result, absent, described
from bench.peers.beanstalkd import BEANSTALKD
from bench.peers.nats import nats
from bench.peers.peer import Peer, Running
from bench.peers.penstock import PENSTOCK
from bench.peers.postgresql import POSTGRESQL
from bench.peers.rabbitmq import RABBITMQ
from bench.peers.redis import REDIS
from bench.wire import Rate, percentile

ROUNDS = 3
DEEP = 10_000_000
FILL_S = 150
PEER, DEEP_PEER = "peer: ", "deep peer: "
_LATE = 0.99


def all_peers() -> list[Peer]:
    return [PENSTOCK, REDIS, RABBITMQ, BEANSTALKD, nats(), POSTGRESQL, *NOT_TO_BE_HAD]


def _never(_folder: Path) -> AbstractContextManager[Running]:
    raise NotImplementedError


NOT_TO_BE_HAD = [
    Peer("ElasticMQ", "", lambda: "Debian has no package of it", _never),
    Peer(
        "moto",
        "",
        lambda: "it keeps its messages in memory only",
        _never,
    ),
]


def asked(running: Running, seconds: float) -> dict[str, float]:
    """One round. The batches that are claimed are those that were sent before."""
    rates: dict[str, Callable[[float], Rate]] = {
        "sends": running.sends,
        "cycles": running.cycles,
        "batch_sends": running.batch_sends,
        "batch_claims": running.batch_claims,
    }
    figures = {}
    busiest = 0.0
    for name, ask in rates.items():
        rate = ask(seconds)
        figures[name] = rate.per_second
        busiest = max(busiest, rate.load_cores)
    times = running.latencies(seconds)
    return figures | {
        "p50_us": percentile(times, 0.5) * 1e6,
        "p99_us": percentile(times, _LATE) * 1e6,
        "load_cores": busiest,
    }


def summary(name: str, how: str, rounds: list[dict[str, float]]) -> Result:
    sends = [one["sends"] for one in rounds]
    spread = f"sends {min(sends):,.0f} to {max(sends):,.0f}" if len(rounds) > 1 else ""
    medians = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
    return described(name, "; ".join(filter(None, [how, spread])), **medians)


def peers(effort: Effort) -> Iterator[Result]:
    known = all_peers()
    missing = {peer.name: peer.missing() for peer in known}
    measured: dict[str, list[dict[str, float]]] = {}
    for turn in range(effort.rounds(ROUNDS)):
        for peer in [*known[turn:], *known[:turn]]:  # another is first in every round
            if not missing[peer.name]:
                with folder() as path, peer.run(path) as running:
                    measured.setdefault(peer.name, []).append(asked(running, effort.seconds))
    for peer in known:
        if peer.name in measured:
            yield summary(PEER + peer.name, peer.how, measured[peer.name])
        else:
            yield absent(PEER + peer.name, "–", f"absent: {missing[peer.name]}")


def deep_peers(effort: Effort) -> Iterator[Result]:
    """Each is filled once, and then asked as often as usual: it stays deep."""
    count = effort.messages(DEEP)
    most_seconds = FILL_S / (10 if effort.quick else 1)
    for peer in all_peers():
        name = f"{DEEP_PEER}{peer.name}"
        if why := peer.missing():
            yield absent(name, "–", f"absent: {why}")
            continue
        with folder() as path, peer.run(path) as running:
            filled = running.fill(count, most_seconds)
            if filled < count:
                yield absent(name, "–", f"not filled: {filled:,} of {count:,} in {most_seconds:.0f} seconds")
                continue
            rounds = [asked(running, effort.seconds) for _ in range(effort.rounds(ROUNDS))]
        yield summary(name, f"{count:,} queued", rounds)


MEASURES = {"peers": peers, "peers-depth": deep_peers}
