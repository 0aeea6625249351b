"""`kill -9` at random moments under mixed load: of whole servers, and of single processes of one with several."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from soak.fault import Counts, Fault, Round
from soak.load import Load
from soak.look import Look
from soak.plan import Plan, all_queues, mqcore_queues
from soak.server import Server

# The state is carried over this many; then everything is drained and judged.
CYCLES = 25


class Kill:
    name = "kill"
    how = "kill -9 at random moments under mixed load through all APIs"
    goal = 1_000
    unit = "cycles"
    short = 3

    def run(self, round: Round) -> Counts:
        """Most rounds on SQLite, a third of them with two edges and a committer; some on MQ-Core's own store."""
        kind = round.seed % 6
        if kind == 5:
            return self._run(round, "mqcore:///store", mqcore_queues(), workers=1)
        return self._run(round, "sqlite:///data/penstock.db", all_queues(), workers=2 if kind in (1, 3) else 1)

    def _run(self, round: Round, store: str, plans: list[Plan], workers: int) -> Counts:
        store = store.replace("mqcore:///store", f"mqcore://{round.folder}/store")
        cycles = min(CYCLES, round.left)
        notes: dict[str, int] = {}
        with Server(round.folder, store, "--mqcore-redelivery-s", "2", workers=workers) as server:
            server.start()
            load = Load(round.history, [server.url], round.seed, plans)
            load.make_queues()
            with load:
                for _ in range(cycles):
                    time.sleep(round.random.uniform(0, 1))
                    what = self._kill(round, server) if workers > 1 else self._kill_all(server)
                    notes[what] = notes.get(what, 0) + 1
                    round.history.note("fault", what=what)
                    if not server.is_running:
                        server.start()
            Look(round.history, [server.url], plans).take(ledger="mqcore" not in store)
            counts = load.counts(cycles)
            counts.notes.update(notes)
        round.judge(counts)
        return counts

    @staticmethod
    def _kill_all(server: Server) -> str:
        server.kill()
        return "whole servers"

    def _kill(self, round: Round, server: Server) -> str:
        """One of its processes, or all."""
        children = server.children()
        if not children or round.random.random() < 0.3:
            return self._kill_all(server)
        pid = round.random.choice(sorted(children))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return f"{children[pid].removeprefix('penstock-')} processes"


FAULTS: list[Fault] = [Kill()]
