"""A database under two servers: it crashes, restarts, throws its clients out, hangs, or another node takes over.

One server of each is run by this process, and is used for a whole round; a failover needs two of PostgreSQL's, or three
of MariaDB's. Every fault is followed by a wait until both servers serve again, which is timed as clients see it.
"""

from __future__ import annotations

import itertools
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

import psycopg
import pymysql

from devtools import databases
from devtools.databases import MariadbServer, NotInstalled, PostgresServer, database_of, mariadb_connection
from devtools.replication import GaleraCluster, GaleraNode, PostgresPair
from soak.apis import Native
from soak.fault import Counts, Fault, Lacking, Round, Violation
from soak.history import OK
from soak.load import Load
from soak.look import Look
from soak.plan import all_queues
from soak.server import Server
from soak.talk import Talk, Unreachable
from soak.warm import PATIENCE_S

# In one round; then everything is drained and judged.
_FAULTS_IN_A_ROUND = 10
_QUEUE = "plain"
# What a single server may suffer. In turn: in one round, of which the tests want no more than one.
OF_ONE_SERVER = ("crash", "restart", "terminate", "hang")
IN_TURN = "in-turn"
_LEVELS = ("on", "remote_write", "remote_apply")


class Probe:
    """Asks each server for itself, again and again, until it has stored a message."""

    def __init__(self, round: Round, servers: Sequence[Server]) -> None:
        self._apis = [
            Native(Talk([server.url], timeout=60), round.history.recorder(f"probe{number}"))
            for number, server in enumerate(servers)
        ]
        self._number = 0

    def await_service(self) -> None:
        for api in self._apis:
            end = time.monotonic() + PATIENCE_S
            while not self._is_served(api):
                if time.monotonic() > end:
                    raise Violation([f"a server did not serve again within {PATIENCE_S} s after a fault"])
                time.sleep(0.005)

    def _is_served(self, api: Native) -> bool:
        self._number += 1
        try:
            return bool(api.send(_QUEUE, [f"{api.recorder.client}-{self._number}"], 20)["outcome"] == OK)
        except Unreachable:
            return False

    def close(self) -> None:
        for api in self._apis:
            api.talk.close()


class Injury(ABC):
    """What is done to a database, again and again, in one round."""

    @abstractmethod
    def urls(self) -> list[str]:
        """Of a new store, for each server of Penstock's."""

    @abstractmethod
    def inflict(self, random: Random) -> str:
        """One fault, after which the servers may serve again without anything being done; what it was."""

    @abstractmethod
    def mend(self) -> None:
        """Once they serve: make ready for the next one."""

    @abstractmethod
    def folders(self) -> list[Path]:
        """Where the data is."""

    @abstractmethod
    def stop(self) -> None:
        """So that the data can be copied."""


class OneServer(Injury):
    """Suffers one thing after the other, and then the first again."""

    def __init__(self, server: databases.Server, things: Sequence[str]) -> None:
        self._server = server
        self._things = itertools.cycle(things)
        self._url = ""

    def urls(self) -> list[str]:
        self._url = self._server.new_url()
        return [self._url] * 2

    def inflict(self, random: Random) -> str:
        what = next(self._things)
        match what:
            case "crash":
                self._server.kill()
                time.sleep(random.uniform(0, 1))
                self._server.start()
            case "restart":
                self._server.stop()
                time.sleep(random.uniform(0, 1))
                self._server.start()
            case "terminate":
                return f"sessions, {terminate(self._url, random)}"
            case "hang":
                self._server.pause()
                time.sleep(random.uniform(0.5, 8))
                self._server.resume()
        return what

    def mend(self) -> None:
        """It is whole."""

    def folders(self) -> list[Path]:
        return [self._server.data]

    def stop(self) -> None:
        self._server.stop()


def terminate(url: str, random: Random) -> str:
    """Some of the sessions of a database, or all."""
    share = random.choice((0.3, 1.0))
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid() AND usename = user",
                (database_of(url),),
            ).fetchall()
            for (pid,) in found:
                if random.random() < share:
                    connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
    else:
        with mariadb_connection(url) as maria, maria.cursor() as cursor:
            cursor.execute(
                "SELECT id FROM information_schema.processlist WHERE db = %s AND id <> connection_id()",
                (database_of(url),),
            )
            for (session,) in cursor.fetchall():
                if random.random() < share:
                    with suppress(pymysql.err.OperationalError):  # it has left meanwhile
                        cursor.execute(f"KILL {session}")
    return "all" if share == 1.0 else "some"


class Promotion(Injury):
    """The primary dies, and the standby, to which every commit was synchronous, is promoted."""

    def __init__(self, pair: PostgresPair) -> None:
        self._pair = pair

    def urls(self) -> list[str]:
        return [self._pair.new_url()] * 2

    def inflict(self, random: Random) -> str:
        self._pair.primary.kill()
        time.sleep(random.uniform(0, 0.5))
        self._pair.promote()
        return "promotions"

    def mend(self) -> None:
        self._pair.rejoin()

    def folders(self) -> list[Path]:
        return [self._pair.primary.data, self._pair.standby.data]

    def stop(self) -> None:
        for node in (self._pair.primary, self._pair.standby):
            node.stop()


class TakeOver(Injury):
    """The node in charge dies, leaves, or is cut off from the others, but not from its clients."""

    def __init__(self, cluster: GaleraCluster) -> None:
        self._cluster = cluster
        self._url = ""
        self._mend: Callable[[], object] = lambda: None

    def urls(self) -> list[str]:
        nodes = self._cluster.nodes
        self._url = self._cluster.new_url()
        # Two servers that would not choose the same node by themselves.
        return [self._cluster.url_of(self._url, *nodes), self._cluster.url_of(self._url, *reversed(nodes))]

    def inflict(self, random: Random) -> str:
        node = self._cluster.in_charge(self._url, "SELECT node FROM node_in_charge")
        what = random.choice(("killed", "killed", "stopped", "cut off"))
        if what == "cut off":
            node.isolate(True)
            self._mend = lambda: rejoin(node)
        else:
            node.kill() if what == "killed" else node.stop()
            self._mend = node.start
        return f"nodes {what}"

    def mend(self) -> None:
        self._mend()
        self._mend = lambda: None

    def folders(self) -> list[Path]:
        return [node.data for node in self._cluster.nodes]

    def stop(self) -> None:
        for node in self._cluster.nodes:
            node.stop()


def rejoin(node: GaleraNode) -> None:
    node.isolate(False)
    node.await_answers()


@contextmanager
def postgresql(what: str, random: Random) -> Iterator[Injury]:
    if what == "failover":
        with PostgresPair(random.choice(_LEVELS)) as pair:
            yield Promotion(pair)
    else:
        with PostgresServer() as server:
            yield OneServer(server, OF_ONE_SERVER if what == IN_TURN else [what])


@contextmanager
def mariadb(what: str, _random: Random) -> Iterator[Injury]:
    if what == "failover":
        with GaleraCluster() as cluster:
            yield TakeOver(cluster)
    else:
        with MariadbServer() as server:
            yield OneServer(server, OF_ONE_SERVER if what == IN_TURN else [what])


_KINDS = {"postgresql": postgresql, "mariadb": mariadb}
_HOW = {
    "crash": "kill -9 of all of its processes",
    "restart": "stopped and started",
    "terminate": "some or all of its sessions ended by an administrator",
    "hang": "SIGSTOP, and SIGCONT up to 8 s later",
    "failover": "",
    IN_TURN: "all that a single server may suffer, in turn",
}
_FAILOVER = {
    "postgresql": "kill -9 of the primary, and the synchronous standby promoted",
    "mariadb": "the node in charge of a Galera cluster of three killed, stopped or cut off",
}


class DatabaseFault:
    goal = 100
    unit = "faults"

    def __init__(self, kind: str, what: str) -> None:
        self._kind = kind
        self._what = what
        self.name = f"{kind}-{what}"
        self.how = f"two servers; {_HOW[what] or _FAILOVER[kind]}"
        self.short = len(OF_ONE_SERVER) if what == IN_TURN else 1

    def run(self, round: Round) -> Counts:
        with ExitStack() as stack:
            try:
                injury = stack.enter_context(_KINDS[self._kind](self._what, round.random))
            except NotInstalled as missing:
                raise Lacking(str(missing)) from missing
            try:
                return self._run(round, injury)
            except Violation:
                injury.stop()
                for number, folder in enumerate(injury.folders()):
                    shutil.copytree(folder, round.folder / f"database-{number}")
                raise

    def _run(self, round: Round, injury: Injury) -> Counts:
        faults = min(_FAULTS_IN_A_ROUND, round.left)
        plans = all_queues(ordered=False)
        counts = Counts()
        with ExitStack() as stack:
            servers = [
                stack.enter_context(Server(round.folder, url, name=f"server{number}"))
                for number, url in enumerate(injury.urls())
            ]
            for server in servers:
                server.start()
            urls = [server.url for server in servers]
            load = Load(round.history, urls, round.seed, plans, holds_s=(1,) if round.is_short else (1, 2, 3))
            load.make_queues()
            probe = Probe(round, servers)
            with load:
                for _ in range(faults):
                    time.sleep(round.random.uniform(0.2, 1))
                    begun = time.monotonic()
                    what = injury.inflict(round.random)
                    probe.await_service()
                    counts.notes["ms until both served again"] += round_ms(begun)
                    counts.notes[what] += 1
                    counts.done += 1
                    round.history.note("fault", what=what)
                    injury.mend()
            probe.close()
            Look(round.history, urls, plans, patience_s=60).take()
            died = [server.log for server in servers if not server.is_running]
        if died:
            raise Violation([f"a server has died: see {log.name}" for log in died], counts)
        round.judge(counts)
        return counts


def round_ms(since: float) -> int:
    return round((time.monotonic() - since) * 1000)


FAULTS: list[Fault] = [DatabaseFault(kind, what) for kind in _KINDS for what in (*OF_ONE_SERVER, "failover")]
