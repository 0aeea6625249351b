"""A clock that is set while servers use it: hours and days, ahead and back, in the middle of claims."""

from __future__ import annotations

import time
from pathlib import Path

from soak.fault import Counts, Fault, Lacking, Round
from soak.load import Load
from soak.look import Look
from soak.plan import all_queues, mqcore_queues
from soak.server import Server

HOUR_S = 3_600
DAY_S = 24 * HOUR_S
# Far less than the ledger and the keys of sends are kept.
_MOST_S = 3 * DAY_S
_LIBRARIES = [
    f"/usr/lib/{folder}/faketime/libfaketime.so.1" for folder in ("x86_64-linux-gnu", "aarch64-linux-gnu")
] + ["/usr/lib/faketime/libfaketime.so.1"]


class SetClock:
    """The time of processes that are started with `environ`, by libfaketime; their monotonic clock goes on as it is."""

    def __init__(self, folder: Path) -> None:
        library = next((path for path in _LIBRARIES if Path(path).exists()), None)
        if library is None:
            raise Lacking("libfaketime is not installed (Debian: apt-get install faketime)")
        self._file = folder / "clock"
        self.ahead_s = 0
        self._write()
        self.environ = {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # The times of files are what processes write there.
            "NO_FAKE_STAT": "1",
        }

    def jump(self, seconds: int) -> None:
        self.ahead_s += seconds
        self._write()

    def _write(self) -> None:
        written = self._file.with_suffix(".new")
        written.write_text(f"{self.ahead_s:+d}\n")
        written.rename(self._file)  # it is read all the time, and must never be half written


class Clock:
    name = "clock"
    how = "the servers' clock is set by an hour or a day, ahead and back, during claims"
    goal = 100
    unit = "jumps"
    short = 2
    # In one round.
    jumps = 10

    def run(self, round: Round) -> Counts:
        """With every jump ahead, claims and delays end; with every jump back they last longer, and none may be lost."""
        clock = SetClock(round.folder)
        if round.seed % 5 == 4:
            store, plans, workers = f"mqcore:///{round.folder}/store", mqcore_queues(), 1
        else:
            store, plans, workers = f"sqlite:///{round.folder}/penstock.db", all_queues(), 1 + round.seed % 2
        counts = Counts()
        with Server(
            round.folder, store, "--mqcore-redelivery-s", "2", workers=workers, environ=clock.environ
        ) as server:
            server.start()
            load = Load(round.history, [server.url], round.seed, plans)
            load.make_queues()
            with load:
                for _ in range(min(self.jumps, round.left)):
                    time.sleep(round.random.uniform(0.2, 1))
                    self._jump(round, clock, round.random.choice((HOUR_S, -HOUR_S, DAY_S, -DAY_S)), counts)
            # What was held when the clock was set back would be held for a day.
            self._set(round, clock, 2 * _MOST_S)
            Look(round.history, [server.url], plans).take(ledger="mqcore" not in store)
        round.judge(counts)
        return counts

    def _jump(self, round: Round, clock: SetClock, seconds: int, counts: Counts) -> None:
        if abs(clock.ahead_s + seconds) > _MOST_S:
            seconds = -seconds
        self._set(round, clock, seconds)
        counts.done += 1
        counts.notes["ahead" if seconds > 0 else "back"] += 1

    @staticmethod
    def _set(round: Round, clock: SetClock, seconds: int) -> None:
        recorder = round.history.recorder("campaign")
        event = recorder.begin("clock", "", jump_s=seconds)
        clock.jump(seconds)
        recorder.end(event, "ok")


FAULTS: list[Fault] = [Clock()]
