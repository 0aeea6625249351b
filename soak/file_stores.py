"""The kinds of store that keep files, for faults of the disk: how each is opened, worked on, and looked at."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Protocol

from soak.apis import Mqcore, Native
from soak.history import OK, PERHAPS, Event, Recorder
from soak.script import (
    MixedScript,
    MqCoreScript,
    Plain,
    Script,
    VsqsApi,
    VsqsScript,
    claim_ready,
    drain_by_mqcore,
    end_holds,
    look_by_files,
    look_by_native,
    look_by_vsqs,
)
from soak.talk import Talk
from soak.warm import Prepare, WarmServer, WarmServers

# What MQ-Core hands out does not come back within a round.
_FLAGS = ("--mqcore-redelivery-s", "3600")


class Opened(Protocol):
    """A store that is in use."""

    def script(self, recorder: Recorder, random: Random) -> Script: ...

    def plain(self, recorder: Recorder) -> Plain: ...

    def restart(self, gently: bool) -> None:
        """End the server, by SIGTERM or SIGKILL, and start it again; scripts have to be made again."""

    def kill(self) -> None:
        """Let go of every file. It may be called again."""


class Store(Protocol):
    name: str
    title: str
    # Whether a claim that was answered holds after a power cut.
    keeps_claims: bool

    def open(self, folder: Path, servers: WarmServers, log: Path) -> Opened: ...

    def run(
        self, folder: Path, servers: WarmServers, log: Path, history: Path, seed: int, steps: int, prepare: Prepare
    ) -> None:
        """One client does so many steps, until the store is gone. The process that has the store is made known to
        `prepare` before it begins; it is gone afterwards."""

    def look(self, folder: Path, servers: WarmServers, log: Path, recorder: Recorder, life: Iterable[Event]) -> None:
        """Open the store after a fault, and note all that it holds. Raises AssertionError or OSError for one that
        cannot be opened or does not work. `life` is what clients were told before."""


class _Served:
    """By a server of its own."""

    def __init__(self, start: Callable[[], WarmServer], script: type[MixedScript | MqCoreScript]) -> None:
        self._start, self._script = start, script
        self._server = start()
        self._talk: Talk | None = None

    def script(self, recorder: Recorder, random: Random) -> Script:
        return self._script(self._server.url, recorder, random)

    def plain(self, recorder: Recorder) -> Plain:
        self._talk = Talk([self._server.url])
        if self._script is MixedScript:
            return Plain(Native(self._talk, recorder), MixedScript.PLAIN, recorder)
        return Plain(Mqcore(self._talk, recorder), MqCoreScript.QUEUE, recorder)

    def restart(self, gently: bool) -> None:
        if gently:
            self._server.terminate()
        else:
            self._server.kill()
        self._server = self._start()

    def kill(self) -> None:
        self._server.kill()
        if self._talk is not None:
            self._talk.close()


class _Place:
    """Where a store is that servers have, by an address with a place for its folder, and what clients do with it."""

    def __init__(self, address: str, script: type[MixedScript | MqCoreScript]) -> None:
        self._address, self._script = address, script

    def serve(self, folder: Path, servers: WarmServers, log: Path, *, prepare: Prepare | None = None) -> WarmServer:
        return servers.start(self._address.format(folder), log, *_FLAGS, prepare=prepare)

    def open(self, folder: Path, servers: WarmServers, log: Path) -> Opened:
        return _Served(lambda: self.serve(folder, servers, log), self._script)

    def run(
        self, folder: Path, servers: WarmServers, log: Path, history: Path, seed: int, steps: int, prepare: Prepare
    ) -> None:
        try:
            server = self.serve(folder, servers, log, prepare=prepare)
        except OSError:
            return
        recorder = Recorder(history, "c0")
        client = self._script(server.url, recorder, Random(seed), sizes=(20, 500))
        for _ in range(steps):
            if client.step() == PERHAPS and server.has_ended():
                break
        client.close()
        recorder.close()
        server.kill()


class SqliteStore:
    name, title, keeps_claims = "sqlite", "SQLite", True

    def __init__(self) -> None:
        self._place = _Place("sqlite:///{}/deep/penstock.db", MixedScript)
        self.open = self._place.open
        self.run = self._place.run

    def look(self, folder: Path, servers: WarmServers, log: Path, recorder: Recorder, life: Iterable[Event]) -> None:
        made = {event["queue"] for event in life if event["op"] == "queue" and event["outcome"] == OK}
        with self._place.serve(folder, servers, log) as server:
            look_by_native(server.url, recorder, made)
            server.terminate()
        with sqlite3.connect(f"file:{folder}/deep/penstock.db?mode=ro", uri=True) as connection:
            [(found,)] = connection.execute("PRAGMA integrity_check").fetchall()
        connection.close()
        assert found == "ok", f"the database is damaged: {found}"
        assert "ERROR" not in server.said(), f"the server was not content: {server.said()}"


class MqCoreStore:
    name, title, keeps_claims = "mqcore", "MQ-Core", False

    def __init__(self) -> None:
        self._place = _Place("mqcore:///{}/deep/root", MqCoreScript)
        self.open = self._place.open
        self.run = self._place.run

    def look(self, folder: Path, servers: WarmServers, log: Path, recorder: Recorder, life: Iterable[Event]) -> None:
        root = folder / "deep" / "root"
        ids = look_by_files(root, recorder, MqCoreScript.QUEUE)
        with self._place.serve(folder, servers, log) as server:
            claim_ready(server.url, recorder, MqCoreScript.QUEUE)
        end_holds(root, recorder)
        with self._place.serve(folder, servers, log) as server:
            drain_by_mqcore(server.url, recorder, MqCoreScript.QUEUE, ids)


class VsqsStore:
    name, title, keeps_claims = "vsqs", "VSQS", False

    def open(self, folder: Path, servers: WarmServers, log: Path) -> Opened:
        return _Library(folder / "deep" / "queue")

    def run(
        self, folder: Path, servers: WarmServers, log: Path, history: Path, seed: int, steps: int, prepare: Prepare
    ) -> None:
        path = folder / "deep" / "queue"
        servers.fork(log, "vsqs", str(path), str(history), str(seed), str(steps), prepare=prepare).wait()

    def look(self, folder: Path, servers: WarmServers, log: Path, recorder: Recorder, life: Iterable[Event]) -> None:
        look_by_vsqs(folder / "deep" / "queue", recorder)


class _Library:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._scripts: list[VsqsScript | VsqsApi] = []

    def script(self, recorder: Recorder, random: Random) -> Script:
        script = VsqsScript(self._path, recorder, random)
        self._scripts.append(script)
        return script

    def plain(self, recorder: Recorder) -> Plain:
        api = VsqsApi(self._path, recorder)
        self._scripts.append(api)
        return Plain(api, VsqsApi.QUEUE, recorder)

    def restart(self, gently: bool) -> None:
        self.kill()

    def kill(self) -> None:
        for script in self._scripts:
            script.close()
        self._scripts.clear()


STORES: tuple[Store, ...] = (SqliteStore(), MqCoreStore(), VsqsStore())
