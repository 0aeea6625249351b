"""`penstock migrate-store`, killed at random moments, and fed meanwhile by programs that should have been stopped."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from devtools.databases import MariadbServer, NotInstalled, PostgresServer
from soak.fault import Counts, Fault, Round, Violation
from soak.load import Load
from soak.look import Look
from soak.plan import all_queues
from soak.processes import Process
from soak.server import Server

_MIGRATE = [sys.executable, "-m", "penstock", "migrate-store"]
# What it says when it was killed between the end of its work and its own, and somebody has used the second store since.
_IS_DONE = "has been used since; nothing is missing in it\n"


class Migration:
    name = "migration"
    how = "migrate-store killed at random moments and fed meanwhile, from store to store under load"
    goal = 100
    unit = "kills"
    short = 2
    # In one round.
    kills = 10

    def run(self, round: Round) -> Counts:
        with ExitStack() as stack:
            urls = self._urls(round, stack)
            return self._run(round, urls, stack)

    @staticmethod
    def _urls(round: Round, stack: ExitStack) -> list[str]:
        """The stores through which the messages go: files, and in some rounds a database in between."""
        files = [f"sqlite:///{round.folder}/{number}.db" for number in range(100)]
        if round.is_short or round.seed % 4 < 2:
            return files
        make = PostgresServer if round.seed % 4 == 2 else MariadbServer
        try:
            databases = stack.enter_context(make())
        except NotInstalled:
            return files
        return [url for file in files for url in (file, databases.new_url())][:12]

    def _run(self, round: Round, urls: list[str], stack: ExitStack) -> Counts:
        """The load goes on all the time; it finds a server only between two migrations."""
        plans = all_queues(ordered=False)
        counts = Counts()
        server = stack.enter_context(Server(round.folder, urls[0], "--mqcore-redelivery-s", "2"))
        server.start()
        load = Load(round.history, [server.url], round.seed, plans)
        load.make_queues()
        at = 0
        with load:
            while counts.done < min(self.kills, round.left) and at + 1 < len(urls):
                time.sleep(round.random.uniform(0.3, 1.5))
                if round.random.random() < 0.5:
                    server.kill()
                else:
                    server.terminate()
                self._migrate(round, urls[at], urls[at + 1], server, counts)
                at += 1
                server.use(urls[at])
                server.start()
        Look(round.history, [server.url], plans).take()
        round.judge(counts)
        return counts

    def _migrate(self, round: Round, source: str, target: str, server: Server, counts: Counts) -> None:
        """Killed a few times, and then left to end. Meanwhile somebody starts a server on one of the stores, or a
        producer of gq, which must not get in: what it is told of success must be in the second store in the end."""
        kills = round.random.randint(0, 3)
        said = round.folder / "migrate.log"
        said.write_text("")
        while True:
            # Before it is marked, the second store is anybody's: a server would make it its own.
            stores = [source, target] if "copying messages" in said.read_text() else [source]
            with said.open("ab") as log:
                running = subprocess.Popen([*_MIGRATE, source, target], stdout=log, stderr=log)
            feeder = self._feed(round, round.random.choice(stores), server)
            code = None
            try:
                code = running.wait(round.random.uniform(0.1, 1.5) if kills > 0 else 300)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
                counts.done += 1
            finally:
                if feeder is not None:
                    feeder()
            if code == 0 or said.read_text().endswith(_IS_DONE):
                return
            if code is not None:
                counts.notes["times that it was refused, because somebody had a store open"] += 1
            kills -= 1
            if kills < -20:
                raise Violation([f"migrate-store does not end: {said.read_text()[-2000:]}"])

    @staticmethod
    def _feed(round: Round, store: str, server: Server) -> Callable[[], None] | None:
        """Start something on a store, and return how to end it."""
        choice = round.random.random()
        if choice < 0.4:
            return None
        time.sleep(round.random.uniform(0, 0.5))
        if choice < 0.7:
            producer = Process("gq", round.history.folder, round.random.randrange(10**9), "producer", store, "plain")

            def end() -> None:
                time.sleep(0.3)
                producer.kill()
                producer.close()

            return end
        server.use(store)
        server.start(waits=False)

        def end_server() -> None:
            time.sleep(0.3)
            if server.is_running:
                server.kill()

        return end_server


FAULTS: list[Fault] = [Migration()]
