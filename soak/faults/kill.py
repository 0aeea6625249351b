"""`kill -9` at random moments under mixed load: of whole servers, of single processes of one with several, and of the
processes that use gq and VSQS."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, suppress

from soak.fault import Counts, Fault, Round
from soak.load import Load
from soak.look import Look
from soak.plan import all_queues, mqcore_queues
from soak.processes import Process
from soak.processes.vsqs import QUEUE
from soak.server import Server

# The state is carried over this many; then everything is drained and judged.
CYCLES = 25
# Of a cycle on a SQL store, so that a campaign of 1,000 comes to two million: before its last kill, a round waits for
# them, but not forever.
_ACKED = 2_700
_PATIENCE_S = 120


class Kill:
    name = "kill"
    how = "kill -9 at random moments under mixed load through all APIs"
    goal = 1_000
    unit = "cycles"
    short = 2

    def run(self, round: Round) -> Counts:
        """Most rounds on SQLite, some of them with two edges and a committer; one of eight on MQ-Core's folders, and
        one in a directory of VSQS."""
        kind = round.seed % 8
        if kind == 6:
            return self._run_mqcore(round)
        if kind == 7:
            return self._run_vsqs(round)
        return self._run_sql(round, workers=2 if kind in (1, 3) else 1)

    def _run_sql(self, round: Round, workers: int) -> Counts:
        store = f"sqlite:///{round.folder}/penstock.db"
        plans = all_queues(with_gq=True)
        with ExitStack() as stack:
            server = stack.enter_context(Server(round.folder, store, "--mqcore-redelivery-s", "2", workers=workers))
            server.start()
            load = Load(round.history, [server.url], round.seed, plans, holds_s=(1,) if round.is_short else (1, 2, 3))
            load.make_queues()
            crew = Crew(round, store)
            stack.callback(crew.close)
            with load:
                counts = Counts()
                cycles = min(CYCLES, round.left)
                for cycle in range(1, cycles + 1):
                    time.sleep(round.random.uniform(0, 1))
                    if cycle == cycles and not round.is_short:
                        self._wait_for(load, cycles * _ACKED)
                    if round.random.random() < 0.1:
                        what = crew.kill_one()
                    elif workers > 1:
                        what = self._kill_process(round, server)
                    else:
                        what = self._kill(server)
                    round.history.note("fault", what=what)
                    counts.notes[what] += 1
                    counts.done += 1
                    if not server.is_running:
                        server.start()
            crew.stop()
            Look(round.history, [server.url], plans).take()
        round.judge(counts)
        return counts

    def _run_mqcore(self, round: Round) -> Counts:
        plans = mqcore_queues()
        counts = Counts()
        with Server(round.folder, f"mqcore:///{round.folder}/store", "--mqcore-redelivery-s", "2") as server:
            server.start()
            load = Load(round.history, [server.url], round.seed, plans, holds_s=(1,) if round.is_short else (1, 2, 3))
            load.make_queues()
            with load:
                for _ in range(min(CYCLES, round.left)):
                    time.sleep(round.random.uniform(0, 1))
                    counts.notes[f"{self._kill(server)} on MQ-Core's store"] += 1
                    counts.done += 1
                    server.start()
            Look(round.history, [server.url], plans).take(ledger=False)
        round.judge(counts)
        return counts

    @staticmethod
    def _run_vsqs(round: Round) -> Counts:
        """Four processes on one directory, of which one is killed and replaced at a time."""
        directory = str(round.folder / "vsqs")
        round.history.note("queue", QUEUE, settings={})

        def start() -> Process:
            process = Process("vsqs", round.history.folder, round.random.randrange(10**9), directory)
            process.wait_until_ready()
            return process

        counts = Counts()
        crew = [start() for _ in range(4)]
        try:
            for _ in range(min(CYCLES, round.left)):
                time.sleep(round.random.uniform(0, 0.5))
                place = round.random.randrange(len(crew))
                crew[place].kill()
                crew[place].close()
                crew[place] = start()
                counts.done += 1
                counts.notes["VSQS processes"] += 1
            for process in crew:
                process.stop()
            last = Process("vsqs", round.history.folder, round.seed, directory, "drain")
            crew = [last]
            last.wait()
        finally:
            for process in crew:
                process.close()
        round.history.note("seen", queues=[QUEUE])
        round.judge(counts)
        return counts

    @staticmethod
    def _wait_for(load: Load, acked: int) -> None:
        until = time.monotonic() + _PATIENCE_S
        while load.acked < acked and time.monotonic() < until:
            time.sleep(0.1)

    @staticmethod
    def _kill(server: Server) -> str:
        server.kill()
        return "whole servers"

    def _kill_process(self, round: Round, server: Server) -> str:
        """One of its processes, or all."""
        children = server.children()
        if not children or round.random.random() < 0.3:
            return self._kill(server)
        pid = round.random.choice(sorted(children))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        # One that has just been started has no name of its own yet.
        name = children[pid].removeprefix("penstock-")
        return f"{'new' if name.startswith('python') else name} processes"


class Crew:
    """A producer and two consumers of gq on the servers' store."""

    def __init__(self, round: Round, store: str) -> None:
        self._round = round
        self._store = store
        self._processes = [self._start(role) for role in ("producer", "consumer", "consumer")]
        for process, _ in self._processes:
            process.wait_until_ready()

    def _start(self, role: str) -> tuple[Process, str]:
        seed = self._round.random.randrange(10**9)
        return Process("gq", self._round.history.folder, seed, role, self._store, "gq"), role

    def kill_one(self) -> str:
        place = self._round.random.randrange(len(self._processes))
        process, role = self._processes[place]
        process.kill()
        process.close()
        self._processes[place] = self._start(role)
        return "gq processes"

    def stop(self) -> None:
        for process, _ in self._processes:
            process.stop()

    def close(self) -> None:
        for process, _ in self._processes:
            process.close()


FAULTS: list[Fault] = [Kill()]
