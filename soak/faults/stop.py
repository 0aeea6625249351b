"""Processes that are stopped for longer than their claims last, and continued: servers, single processes of theirs,
clients that hold messages, consumers of gq, and processes that share a directory of VSQS."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, suppress

from soak.fault import Counts, Fault, Round
from soak.load import Load
from soak.look import Look
from soak.plan import all_queues
from soak.processes import Process
from soak.processes.vsqs import QUEUE
from soak.server import Server

# In one round.
STOPS = 12


class Stop:
    name = "stop"
    how = "SIGSTOP for longer than a claim lasts, then SIGCONT: servers and their processes, clients, gq, VSQS"
    goal = 200
    unit = "stops"
    short = 2

    def run(self, round: Round) -> Counts:
        return self._run_vsqs(round) if round.seed % 5 == 4 else self._run_sql(round, workers=1 + round.seed % 2)

    def _run_sql(self, round: Round, workers: int) -> Counts:
        store = f"sqlite:///{round.folder}/penstock.db"
        plans = all_queues(with_gq=True)
        counts = Counts()
        with ExitStack() as stack:
            server = stack.enter_context(Server(round.folder, store, "--mqcore-redelivery-s", "2", workers=workers))
            server.start()
            load = Load(round.history, [server.url], round.seed, plans, producers=2, consumers=3, holds_s=(1,))
            load.make_queues()
            crew: list[Process] = []
            for kind, *words in [
                ("load", server.url),
                ("gq", "producer", store, "gq", "uncertain"),
                *[("gq", "consumer", store, "gq", "uncertain")] * 2,
            ]:
                crew.append(Process(kind, round.history.folder, round.random.randrange(10**9), *words))
                stack.callback(crew[-1].close)
            for process in crew:
                process.wait_until_ready()
            with load:
                for _ in range(min(STOPS, round.left)):
                    time.sleep(round.random.uniform(0, 0.5))
                    what = self._stop_one(round, server, crew)
                    round.history.note("fault", what=what)
                    counts.notes[what] += 1
                    counts.done += 1
            for process in crew:
                process.stop()
            Look(round.history, [server.url], plans).take()
        round.judge(counts)
        return counts

    @staticmethod
    def _stop_one(round: Round, server: Server, crew: list[Process]) -> str:
        """For longer than a second, which most claims last, and mostly than two, after which a consumer of gq counts as
        dead."""
        seconds = round.random.uniform(1.2, 3.5)
        choice = round.random.random()
        children = server.children()
        if choice < 0.3:
            server.pause()
            time.sleep(seconds)
            server.resume()
            return "servers"
        if choice < 0.5 and children:
            pid = round.random.choice(sorted(children))
            for number in (signal.SIGSTOP, signal.SIGCONT):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
                time.sleep(seconds if number == signal.SIGSTOP else 0)
            return f"{children[pid].removeprefix('penstock-')} processes"
        process = round.random.choice(crew)
        process.pause()
        time.sleep(seconds)
        process.resume()
        return f"{process.kind} clients"

    @staticmethod
    def _run_vsqs(round: Round) -> Counts:
        directory = str(round.folder / "vsqs")
        round.history.note("queue", QUEUE, settings={})
        counts = Counts()
        with ExitStack() as stack:
            crew: list[Process] = []
            for _ in range(4):
                crew.append(Process("vsqs", round.history.folder, round.random.randrange(10**9), directory))
                stack.callback(crew[-1].close)
            for process in crew:
                process.wait_until_ready()
            for _ in range(min(STOPS, round.left)):
                time.sleep(round.random.uniform(0, 0.3))
                process = round.random.choice(crew)
                process.pause()
                time.sleep(round.random.uniform(1.1, 2))
                process.resume()
                counts.done += 1
                counts.notes["VSQS clients"] += 1
            for process in crew:
                process.stop()
            last = Process("vsqs", round.history.folder, round.seed, directory, "drain")
            stack.callback(last.close)
            last.wait()
        round.history.note("seen", queues=[QUEUE])
        round.judge(counts)
        return counts


FAULTS: list[Fault] = [Stop()]
