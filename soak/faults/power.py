"""Power cuts under each kind of store that keeps files: SQLite, MQ-Core and VSQS, on ext4 and XFS.

Two ways. A file system is shut down without its log while clients are at work: whatever the kernel had not written yet
is lost. Or the device under it is recorded, and every state in which a cut may have left it is tried: the writes up to
a flush, and any of those after it, because a device may lose its cache.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from soak import device
from soak.checker import Verdict, check
from soak.cuts import apply, cuts, intervals, stretch
from soak.fault import Counts, Fault, Round, Violation
from soak.file_stores import STORES, Opened, Store
from soak.history import PERHAPS, Event, History
from soak.recorder import read_log
from soak.script import Script
from soak.server import wait_until
from soak.warm import WarmServers, warm_servers

KINDS = ("ext4", "xfs")
_SHUTDOWNS_PER_ROUND = 6
# Each is the end of a prefix, which is tried: about a minute in all.
_WRITES_PER_ROUND = 120
_CLIENTS = 3


class UntilCut(History):
    """What was seen of a life until the current was cut at an instant, and of the store after that. A request that was
    under way then may have been done; what clients were told later is not known."""

    def __init__(self, life: Sequence[Event], at: float, after: History, keeps_claims: bool) -> None:
        super().__init__(after.folder)
        self.before = list(_until(life, at))
        if not keeps_claims:
            # Whatever was claimed is as if its time had run out.
            leap = {"client": "cut", "n": 1, "op": "clock", "queue": "", "jump_s": 1e9}
            self.before.append({**leap, "begin": at, "end": at, "outcome": "ok"})

    def size(self) -> int:
        return 0

    def events(self, *, without: tuple[str, ...] = ()) -> Iterator[Event]:
        yield from (event for event in self.before if event["op"] not in without)
        yield from super().events(without=without)


def _until(life: Sequence[Event], at: float) -> Iterator[Event]:
    for event in life:
        if event["end"] < at:
            yield event
        elif event["begin"] < at:
            told: Event = {word: None for word in ("ids", "stored", "done", "status") if word in event}
            yield {**event, **told, "outcome": PERHAPS}


class Load:
    """Scripts in threads of their own, until each has done its steps or they are stopped."""

    def __init__(self, scripts: Sequence[Script], steps: int) -> None:
        self._stopped = False
        self.done = 0
        self._threads = [threading.Thread(target=self._run, args=(script, steps)) for script in scripts]
        for thread in self._threads:
            thread.start()

    def _run(self, script: Script, steps: int) -> None:
        for _ in range(steps):
            if self._stopped:
                break
            if script.step() == PERHAPS:
                # The current is off, or will be: a script has no one to ask.
                time.sleep(0.001)
            self.done += 1
        script.close()

    def is_running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        self._stopped = True
        self.join()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


class Judge:
    """Opens what a cut has left, and compares it with what clients were told before."""

    def __init__(self, store: Store, folder: Path, servers: WarmServers) -> None:
        self._store, self._folder, self._servers = store, folder, servers
        self._number = 0

    def findings(self, mount: Path, life: Sequence[Event], at: float) -> tuple[list[str], Verdict | None]:
        self._number += 1
        after = History(self._folder / f"after-{self._number}")
        history = UntilCut(life, at, after, self._store.keeps_claims)
        log = self._folder / f"after-{self._number}.log"
        try:
            self._store.look(mount, self._servers, log, after.recorder("after"), history.before)
        except (AssertionError, OSError) as error:
            return [f"{type(error).__name__}: {error}"], None
        finally:
            after.close()
        verdict = check(history)
        shutil.rmtree(after.folder)
        return verdict.findings, verdict


@dataclass(frozen=True)
class Replay:
    """The device is recorded, and each state of it that a cut could have left is tried."""

    store: Store
    goal: int = 500
    unit: str = "cuts"
    short: int = 8

    @property
    def name(self) -> str:
        return f"power-replay-{self.store.name}"

    @property
    def how(self) -> str:
        return f"{self.store.title} on ext4 and XFS: every prefix of recorded writes between two flushes"

    def run(self, round: Round) -> Counts:
        kind = KINDS[round.seed % 2]
        folder = device.in_memory("power")
        try:
            image = device.make_image(folder / "image", kind)
            end = self._live(round, image, folder)
            return self._try(round, kind, image, folder, end)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _live(self, round: Round, image: Path, folder: Path) -> float:
        """A store is made, used, closed, opened, used, killed, opened and used again. Returns when that ended.

        Every third time for so long, and by so many, that a log is folded into its file and that files are synced
        together."""
        clients, steps = _CLIENTS, 2 if round.is_short else 4
        if round.seed // len(KINDS) % 3 == 2:
            clients, steps = 10, 12
        with device.recorded(image, folder / "mount", folder / "log") as mount:
            opened = self.store.open(mount, warm_servers(), folder / "life.log")
            try:
                for part, gently in enumerate((True, False, None)):
                    scripts = _scripts(opened, round.history, round.random, f"p{part}", clients)
                    Load(scripts, steps).join()
                    if gently is not None:
                        opened.restart(gently)
                return time.monotonic()
            finally:
                opened.kill()
                round.history.close()

    def _try(self, round: Round, kind: str, image: Path, folder: Path, end: float) -> Counts:
        life = list(round.history.events())
        judge = Judge(self.store, folder, warm_servers())
        found = intervals(list(read_log(folder / "log")), end)
        part = stretch(found, round.random, _WRITES_PER_ROUND)
        wanted = [cut for interval in part for cut in cuts(interval, round.random)]
        if round.is_short and len(wanted) > round.left:
            chosen = set(round.random.sample(range(len(wanted)), round.left))
            wanted = [cut for number, cut in enumerate(wanted) if number in chosen]
        counts = Counts(notes=Counter({f"{kind} intervals": len(part)}))
        base, trial = folder / "base.img", folder / "trial.img"
        device.copy(image, base)
        reached = 0
        for cut in wanted:
            for interval in found[reached : cut.interval.number]:
                apply(interval.writes, base)
            reached = cut.interval.number
            device.copy(base, trial)
            apply(cut.writes, trial)
            try:
                with device.mounted(trial, folder / "trial") as mount:
                    findings, verdict = judge.findings(mount, life, cut.interval.until)
            except device.Unmountable as error:
                findings, verdict = [str(error)], None
            counts.done += 1
            if findings:
                device.copy(base, round.folder / "left.img")
                apply(cut.writes, round.folder / "left.img")
                shutil.copytree(folder, round.folder / "logs", ignore=shutil.ignore_patterns("*.img", "image", "log"))
                raise Violation([f"{kind}, {cut}; what it has left is in left.img:", *findings], counts)
            counts.notes[f"{kind} {cut.kind}"] += 1
            trial.unlink()
            if verdict is not None:
                counts.sent, counts.acked = verdict.sent, verdict.acked
        return counts


@dataclass(frozen=True)
class Shutdown:
    """The file system is shut down without its log, while clients are at work."""

    store: Store
    goal: int = 500
    unit: str = "cuts"
    short: int = 2

    @property
    def name(self) -> str:
        return f"power-shutdown-{self.store.name}"

    @property
    def how(self) -> str:
        return f"{self.store.title} on ext4 and XFS: FS_IOC_SHUTDOWN without the log"

    def run(self, round: Round) -> Counts:
        counts = Counts()
        folder = device.in_memory("power")
        try:
            for number in range(min(round.left, _SHUTDOWNS_PER_ROUND)):
                kind = KINDS[(round.seed + number) % 2]
                try:
                    counts.add(self._cut(round, number, kind, folder))
                except Violation as violation:
                    violation.counts.add(counts)
                    raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return counts

    def _cut(self, round: Round, number: int, kind: str, folder: Path) -> Counts:
        image = device.make_image(folder / "image", kind)
        history = History(round.folder / f"history-{number}")
        enough = round.random.choice([1, 5, 30, 100, 300])
        with device.mounted(image, folder / "mount") as mount:
            opened = self.store.open(mount, warm_servers(), folder / f"life-{number}.log")
            try:
                clients = round.random.choice([_CLIENTS, 12])
                load = Load(_scripts(opened, history, round.random, "", clients), 10_000)
                wait_until(lambda: load.done >= enough, "clients have done enough", every_s=0.001)
                # Only what was answered by now: a kernel that goes on running may say yes to the sync of a directory
                # whose log it has just thrown away (XFS does). Without current, that would not be heard.
                at = time.monotonic()
                device.cut_power(mount)
                load.stop()
            finally:
                opened.kill()
        history.close()
        life = list(history.events())
        device.copy(image, folder / "left.img")
        with device.mounted(image, folder / "mount") as mount:
            findings, verdict = Judge(self.store, folder, warm_servers()).findings(mount, life, at)
        if findings or verdict is None:
            device.copy(folder / "left.img", round.folder / "left.img")
            shutil.copytree(folder, round.folder / "logs", ignore=shutil.ignore_patterns("*.img", "image"))
            findings.insert(0, f"{kind}, after {enough} requests; what it has left is in left.img:")
            raise Violation(findings, Counts(1))
        return Counts(1, verdict.sent, verdict.acked, Counter({kind: 1}))


def _scripts(opened: Opened, history: History, random: Random, part: str, clients: int) -> list[Script]:
    return [opened.script(history.recorder(f"{part}c{one}"), Random(random.random())) for one in range(clients)]


FAULTS: list[Fault] = [*(Replay(store) for store in STORES), *(Shutdown(store) for store in STORES)]
