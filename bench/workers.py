"""A server with several processes (`penstock serve --workers`) beside one with a single process.

The load generator runs on the same cores. So each row of rates has one that says where the CPU went: to every process
of the server, to the load generator and to the database, for one send, and how much of the machine was idle. What a
machine with more cores would do is simulated with these costs (`bench/scaling.py`).
"""

from __future__ import annotations

import os
import resource
import statistics
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import servers
from bench.databases import lies_in_memory
from bench.foundation import CONNECTIONS, create_queue, fdatasync_median, folder, sends
from bench.measure import Effort, Result, absent, at_least, at_most, described, spread, told
from bench.processes import Process, family, machine_ticks, memory_mb, reads
from bench.scaling import Costs, fit, simulate
from devtools.databases import NotInstalled, PostgresServer

ROUNDS = 3
CORES = len(os.sched_getaffinity(0))
WORKERS = 2
# Units are smaller with few connections, and frames with many edges: what a unit and a frame cost is told from that.
FEW, MANY = 16, 256
SHARED = (FEW, CONNECTIONS, MANY)
MANY_WORKERS = 8
SIMULATED_EDGES = (1, 2, 4, 8, 16)
SIMULATED_CONNECTIONS = (CONNECTIONS, 256, 1024)
_ROLES = {"penstock-commit": "committer", "penstock-edge": "edge"}
_WARM_UP_S = 1


@dataclass(frozen=True)
class Observed:
    """What one load was like. CPU is in microseconds for one send."""

    per_second: float
    median_us: float
    # Of each process of the server, by its role; those of edges are numbered.
    server_us: dict[str, float]
    load_us: float
    database_us: float
    idle_percent: float
    # For one send; no units where the store is not a file, and no frames where there is one process.
    units: float
    frames: float

    @property
    def whole_server_us(self) -> float:
        return sum(self.server_us.values())

    @property
    def everything_us(self) -> float:
        return self.whole_server_us + self.load_us + self.database_us

    @property
    def edges_us(self) -> float:
        return sum(cpu for role, cpu in self.server_us.items() if role.startswith("edge"))


def roles(processes: Sequence[Process], server: int) -> dict[int, str]:
    """What the processes of a server are. The first is the server itself, or watches over the others."""
    found, edges = {}, 0
    for process in processes:
        role = "server" if len(processes) == 1 else "supervisor"
        if process.pid != server:
            role = _ROLES[process.name]
        if role == "edge":
            edges += 1
            role = f"edge_{edges}"
        found[process.pid] = role
    return found


def units(store: Path) -> int:
    """How many transactions SQLite has written to a file: its index of the log counts them, 8 bytes from the start."""
    with open(f"{store}/penstock.db-shm", "rb") as file:
        file.seek(8)
        return int(struct.unpack("=I", file.read(4))[0])


def observe(url: str, server: int, connections: int, seconds: float, store: Path | PostgresServer) -> Observed:
    before = family(server)
    role_of = roles(before, server)
    edges = [pid for pid, role in role_of.items() if role.startswith("edge")]
    database = None if isinstance(store, Path) else store.pid

    def counted() -> tuple[float, float, int, int, tuple[int, int]]:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (
            used.ru_utime + used.ru_stime,
            servers.cpu_seconds(database) if database else 0,
            units(store) if isinstance(store, Path) else 0,
            sum(map(reads, edges)),
            machine_ticks(),
        )

    load_s, database_s, written, read, (idle, ticks) = counted()
    load = sends(url, connections, seconds)
    after = {process.pid: process.cpu_s for process in family(server)}
    load_s_after, database_s_after, written_after, read_after, (idle_after, ticks_after) = counted()
    each = 1 / load.requests
    return Observed(
        load.per_second,
        load.median_s * 1e6,
        {role_of[process.pid]: (after[process.pid] - process.cpu_s) * each * 1e6 for process in before},
        (load_s_after - load_s) * each * 1e6,
        (database_s_after - database_s) * each * 1e6,
        100 * (idle_after - idle) / (ticks_after - ticks),
        (written_after - written) * each,
        # A request is read at once; what an edge reads beyond are frames of answers.
        max(0, (read_after - read) * each - 1) if edges else 0,
    )


@dataclass(frozen=True)
class Round:
    """By their connections, the loads on servers with one process, with two edges and with many."""

    one: dict[int, Observed]
    several: dict[int, Observed]
    many: dict[int, Observed]
    # Of the largest edge after all its loads: resident, and proportional.
    edge_mb: tuple[float, float]
    sync_us: float


def one_round(seconds: float) -> Round:
    def observe_all(workers: int, *loads: int) -> tuple[dict[int, Observed], list[tuple[float, float]]]:
        with folder() as path, servers.penstock(path, "--workers", str(workers)) as (url, process):
            create_queue(url, "q")
            sends(url, CONNECTIONS, _WARM_UP_S)
            observed = {connections: observe(url, process.pid, connections, seconds, path) for connections in loads}
            edges = [pid for pid, role in roles(family(process.pid), process.pid).items() if role.startswith("edge")]
            return observed, [memory_mb(pid) for pid in edges]

    one, _ = observe_all(1, CONNECTIONS, 1)
    several, memory = observe_all(WORKERS, 1, *SHARED)
    many, _ = observe_all(MANY_WORKERS, CONNECTIONS)
    with folder() as path:
        sync_us = fdatasync_median(path) * 1e6
    return Round(one, several, many, max(memory), sync_us)


def workers(effort: Effort) -> Iterator[Result]:
    rounds = [one_round(effort.seconds) for _ in range(effort.rounds(ROUNDS))]
    one = [measured.one[CONNECTIONS] for measured in rounds]
    several = [measured.several[CONNECTIONS] for measured in rounds]
    yield from rates(f"durable sends, {CONNECTIONS} connections", 1.25, one, several)
    yield committer_cpu(rounds)
    alone = [measured.several[1].median_us / measured.one[1].median_us for measured in rounds]
    yield at_most(
        f"one connection: median send, --workers {WORKERS} ÷ one process",
        1.15,
        statistics.median(alone),
        spread(alone),
        several_us=statistics.median(measured.several[1].median_us for measured in rounds),
        one_us=statistics.median(measured.one[1].median_us for measured in rounds),
    )
    yield from on_postgresql(effort)
    yield at_most(
        "memory of one edge after load, resident MB",
        45,
        statistics.median(measured.edge_mb[0] for measured in rounds),
        proportional_mb=statistics.median(measured.edge_mb[1] for measured in rounds),
    )
    yield from scaling(rounds)


def rates(
    measure: str, target: float, one: list[Observed], several: list[Observed], note: str = ""
) -> Iterator[Result]:
    """The target, and where the CPU went."""
    pairs = list(zip(several, one, strict=True))
    ratios = [more.per_second / single.per_second for more, single in pairs]
    yield at_least(
        f"{measure}, --workers {WORKERS} ÷ one process",
        target,
        statistics.median(ratios),
        ", ".join(filter(None, (spread(ratios), note))),
        several=statistics.median(observed.per_second for observed in several),
        one=statistics.median(observed.per_second for observed in one),
    )
    for how, loads in (("one process", one), (f"--workers {WORKERS}", several)):
        yield described(f"{measure}, {how}: µs of CPU for one send", **cpu_figures(loads))
    frugal = [single.whole_server_us / more.whole_server_us for more, single in pairs]
    yield told(
        f"{measure}: messages for one CPU second of the server, --workers {WORKERS} ÷ one process",
        statistics.median(frugal),
        spread(frugal),
        several=statistics.median(1e6 / observed.whole_server_us for observed in several),
        one=statistics.median(1e6 / observed.whole_server_us for observed in one),
    )


def cpu_figures(loads: list[Observed]) -> dict[str, float]:
    def median(figure: Callable[[Observed], float]) -> float:
        return statistics.median(map(figure, loads))

    figures = {role: statistics.median(load.server_us[role] for load in loads) for role in loads[0].server_us}
    figures["load_generator"] = median(lambda load: load.load_us)
    if loads[0].database_us:
        figures["database"] = median(lambda load: load.database_us)
    figures["idle_percent"] = median(lambda load: load.idle_percent)
    figures["sends_the_cores_allow"] = median(lambda load: CORES * 1e6 / load.everything_us)
    if loads[0].units:
        figures["sends_in_a_unit"] = median(lambda load: 1 / load.units)
    return figures


def committer_cpu(rounds: list[Round]) -> Result:
    costs = {
        connections: [measured.several[connections].server_us["committer"] for measured in rounds]
        for connections in SHARED
    }
    return at_most(
        f"CPU of one send in the committer, µs, {CONNECTIONS} connections",
        15,
        statistics.median(costs[CONNECTIONS]),
        spread(costs[CONNECTIONS]),
        **{f"with_{connections}": statistics.median(costs[connections]) for connections in (FEW, MANY)},
    )


# PostgreSQL


def on_postgresql(effort: Effort) -> Iterator[Result]:
    measure = f"durable sends on PostgreSQL, {CONNECTIONS} connections"
    try:
        server = PostgresServer()
    except NotInstalled as missing:
        yield absent(measure, "≥ 1.4", str(missing))
        return
    with server:
        measured = [
            [sends_to(server, workers, effort.seconds) for workers in (1, WORKERS)]
            for _ in range(effort.rounds(ROUNDS))
        ]
        yield from rates(measure, 1.4, *map(list, zip(*measured, strict=True)), note=lies_in_memory(server))


def sends_to(server: PostgresServer, workers: int, seconds: float) -> Observed:
    store = server.new_url()
    with servers.penstock(store, "--workers", str(workers)) as (url, process):
        create_queue(url, "q")
        sends(url, CONNECTIONS, _WARM_UP_S)
        observed = observe(url, process.pid, CONNECTIONS, seconds, server)
    server.drop(store)
    return observed


# Scaling


def costs_of(rounds: list[Round]) -> Costs:
    """The CPU of a send is its own, and its share of the frames and the unit that it has in common with others.

    Of the syncs the least counts: on a busy machine a sync that has ended waits for a core as well.
    """
    loads = [
        load
        for measured in rounds
        for load in (*(measured.several[connections] for connections in SHARED), *measured.many.values())
    ]
    send, frames, unit = fit(
        [(1, load.frames, load.units) for load in loads], [load.server_us["committer"] for load in loads]
    )
    edge_send, edge_frames = fit([(1, load.frames) for load in loads], [load.edges_us for load in loads])
    return Costs(
        load=min(measured.several[CONNECTIONS].load_us for measured in rounds),
        edge_send=edge_send,
        edge_frames=edge_frames,
        send=send,
        frames=frames,
        unit=unit,
        sync=min(measured.sync_us for measured in rounds),
    )


def scaling(rounds: list[Round]) -> Iterator[Result]:
    costs = costs_of(rounds)
    yield described("costs for the simulation, µs", **asdict(costs))
    for connections in SIMULATED_CONNECTIONS:
        simulated = [simulate(costs, edges, connections) for edges in SIMULATED_EDGES]
        yield described(
            f"simulated sends a second, {connections:,} connections, a core for each process",
            f"the committer is busy for {', '.join(f'{one.committer_busy:.0%}' for one in simulated)} of the time",
            **{f"edges_{edges}": one.per_second for edges, one in zip(SIMULATED_EDGES, simulated, strict=True)},
        )
    alone = [1e6 / simulate(costs, WORKERS, 1).per_second / measured.several[1].median_us for measured in rounds]
    yield told("one connection: simulated ÷ measured send", statistics.median(alone), spread(alone))


MEASURES = {"workers": workers}
