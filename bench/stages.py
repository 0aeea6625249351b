"""Where the time of one request goes: the CPU of the server for one send, one claim and one ack, stage by stage.

Nothing is instrumented. The same load runs against servers that do more and more of the work, and a stage is what the
next server takes above the one before it:

    sockets     bytes are read and answered unseen
    edge        + parsing and routing, and an answer of nothing
    telling     + the answer comes in a later turn of the event loop, together with the others of that turn
    face        + guard, API and broker, over a store that keeps nothing
    rows        + SQLite, in memory
    log, sync   + SQLite on the disk, the server as it is

Of the rounds the least counts: other work on the machine only ever adds to the CPU of a request.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench import servers
from bench.foundation import BODY, CONNECTIONS, folder
from bench.load import wrk
from bench.measure import Effort, Result, absent, described
from devtools.databases import in_memory
from penstock.clock import system_clock
from penstock.model import Draft, Settings
from penstock.stores import open_store

ROUNDS = 3
STAGES = ("sockets", "edge", "telling", "face", "rows", "log_and_sync")
VERBS = ("send", "claim", "ack")
# More than a server gets done: a queue must not run empty.
MESSAGES_A_SECOND = 60_000
_AT_ONCE = 5_000


def fill(path: Path, count: int) -> Path:
    """A queue for each verb; the ids to be acked, in a file."""
    store = open_store(f"sqlite:///{path}/penstock.db")
    ids = []
    for verb in VERBS:
        with store.unit() as unit:
            unit.create_queue(verb, Settings(visibility_ms=3_600_000), system_clock())
    for verb in ("claim", "ack"):
        for _ in range(0, count, _AT_ONCE):
            with store.unit() as unit:
                unit.send(verb, [Draft(BODY, "application/octet-stream")] * _AT_ONCE, system_clock())
                if verb == "ack":
                    ids += [message.id for message in unit.claim(verb, _AT_ONCE, system_clock(), None).messages]
    store.close()
    listed = path / "ids"
    listed.write_text("\n".join(ids))
    return listed


def cpu_us(url: str, server: int, verb: str, seconds: float, listed: Path) -> tuple[float, float]:
    """Of one request: the CPU that the server took for it, and its share of the time."""
    before = servers.cpu_seconds(server)
    if verb == "send":
        load = wrk(url, CONNECTIONS, seconds, "send")
    elif verb == "claim":
        load = wrk(url, CONNECTIONS, seconds)
    else:
        load = wrk(url, CONNECTIONS, seconds, "ack", str(listed))
    assert load.errors == 0, load.output
    return (servers.cpu_seconds(server) - before) / load.requests * 1e6, 1e6 / load.per_second


def one_round(seconds: float, memory: str) -> dict[str, list[tuple[float, float]]]:
    """What each verb costs with each server, from the one that does least to the one that does all."""
    costs: dict[str, list[tuple[float, float]]] = {verb: [] for verb in VERBS}
    with ExitStack() as stack:
        in_ram = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=memory)))
        on_disk = stack.enter_context(folder())
        count = round(MESSAGES_A_SECOND * max(1, seconds))
        listed = {path: fill(path, count) for path in (in_ram, on_disk)}
        levels = [
            (servers.sockets_noop(), "/noop/", on_disk),
            (servers.edge_noop(), "/noop/", on_disk),
            (servers.edge_noop(), "/later/", on_disk),
            (servers.edge_noop("guarded"), "/messages/", on_disk),
            (servers.penstock(in_ram), "/messages/", in_ram),
            (servers.penstock(on_disk), "/messages/", on_disk),
        ]
        for server, path, store in levels:
            with server as (url, process):
                for verb in VERBS:
                    costs[verb].append(cpu_us(f"{url}{path}{verb}", process.pid, verb, seconds, listed[store]))
    return costs


def differences(levels: list[float]) -> dict[str, float]:
    """What each stage adds to those before it."""
    return {name: cost - before for name, cost, before in zip(STAGES, levels, [0.0, *levels], strict=False)}


def stages(effort: Effort) -> Iterator[Result]:
    memory = in_memory()
    if memory is None:
        yield absent("stages of a request", "–", "there is no file system in memory with room for a store")
        return
    rounds = [one_round(effort.seconds, memory) for _ in range(effort.rounds(ROUNDS))]
    for verb in VERBS:
        levels = [min(costs[verb][level][0] for costs in rounds) for level, _ in enumerate(STAGES)]
        wall = statistics.median(costs[verb][-1][1] for costs in rounds)
        yield described(
            f"one {verb}, µs of CPU in the server, {CONNECTIONS} connections",
            "a stage is what a server with it takes above one without",
            **differences(levels),
            all_stages=levels[-1],
            time_between_two=wall,
        )


MEASURES = {"stages": stages}
