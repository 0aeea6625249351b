"""Clients that send half, close half, reset, dawdle and pipeline behind an error, beside others that behave.

The honest ones are judged as ever. Afterwards nothing of the others may be left in the server: no connection, no open
file, no claim that waits, no bytes of a body, no memory to speak of; and nothing that they had no right to may be done.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from random import Random

from soak.certificate import Certificate, trusting_anybody
from soak.fault import Counts, Fault, Round, Violation
from soak.load import Load
from soak.look import Look
from soak.manners import FORBIDDEN, PLAIN, SCRATCH, TLS, Caller
from soak.plan import all_queues
from soak.server import Server, wait_until
from soak.talk import Talk

_CONNECTIONS = 2_500
_CALLERS = 12
# Short, so that what is left to the deadlines of the server is over soon.
_FLAGS = (
    *("--header-timeout-s", "2", "--body-timeout-s", "2", "--write-timeout-s", "2", "--idle-timeout-s", "8"),
    *("--max-bodies-mib", "32"),
)
# What a server may have more at the end: caches, and what the allocator keeps.
_MORE_MIB = 96


class Clients:
    name = "clients"
    how = "half-sent, half-closed, reset, slow, pipelined after an error, over real sockets, with TLS and without"
    goal = 50_000
    unit = "connections"
    short = 250

    def run(self, round: Round) -> Counts:
        """With TLS in every other round, with two processes in every third."""
        certificate = Certificate(round.folder) if round.seed % 2 else None
        flags = _FLAGS if certificate is None else (*_FLAGS, *certificate.flags)
        wanted = min(_CONNECTIONS, round.left)
        with Server(
            round.folder, "sqlite:///data/penstock.db", *flags, workers=2 if round.seed % 3 == 0 else 1
        ) as server:
            server.start()
            talk = Talk([server.url])
            for queue in (FORBIDDEN, SCRATCH):
                talk("PUT", f"/v1/queues/{queue}", {})
            talk.close()
            load = Load(round.history, [server.url], round.seed, all_queues(), producers=1, consumers=2)
            load.make_queues()
            self._misbehave(server, round.random, certificate is not None, 200)  # caches are full before the first look
            before = _Look(server)
            with load:
                done = self._misbehave(server, round.random, certificate is not None, wanted)
            Look(round.history, [server.url], load.plans).take()
            counts = Counts(sum(done.values()))
            counts.notes.update(done)
            talk = Talk([server.url])
            findings = [*self._leftovers(server, before), *self._trespasses(talk), *self._bodies(server)]
            talk.close()
            if server.terminate() != 0:
                findings.append("the server did not end well")
        if findings:
            raise Violation(findings, counts)
        round.judge(counts)
        return counts

    def _misbehave(self, server: Server, random: Random, is_tls: bool, wanted: int) -> Counter[str]:
        done: Counter[str] = Counter()
        manners = (*PLAIN, *TLS) if is_tls else PLAIN
        lock = threading.Lock()
        left = [wanted]

        def call(seed: int) -> None:
            caller = Caller(server.port, Random(seed), trusting_anybody() if is_tls else None)
            while True:
                with lock:
                    if left[0] <= 0:
                        return
                    left[0] -= 1
                manner = caller.random.choice(manners)
                with suppress(OSError), closing(caller):
                    manner(caller)
                with lock:
                    done[manner.__name__.replace("_", " ")] += 1

        threads = [threading.Thread(target=call, args=(random.randrange(2**31),)) for _ in range(_CALLERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return done

    def _leftovers(self, server: Server, before: _Look) -> list[str]:
        try:
            wait_until(
                lambda: not _Look(server).more_than(before), "nothing is left of clients that have gone", 60, 0.25
            )
        except TimeoutError:
            return [f"left behind by clients that have gone: {one}" for one in _Look(server).more_than(before)]
        return []

    def _trespasses(self, talk: Talk) -> list[str]:
        found = talk("GET", f"/v1/queues/{FORBIDDEN}").json
        tally = found["tally"]
        if tally["arrived"] or found["count"]["total"]:
            return [f"what had to be refused was done: {FORBIDDEN} has {found}"]
        return []

    def _bodies(self, server: Server) -> list[str]:
        """Two bodies at once that take nearly all there is: bytes that were never given back would be missed."""
        tls = trusting_anybody() if server.url.startswith("https") else None
        size = 13 << 20
        head = b"POST /v1/queues/%b/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
        clients = [Caller(server.port, Random(1), tls).open() for _ in range(2)]
        findings = []
        for part in (head % (SCRATCH.encode(), size) + b"x" * (size - 1), b"x"):
            for client in clients:
                with suppress(OSError):
                    client.sendall(part)
        for client in clients:
            answer = client.recv(65536)
            if not answer.startswith(b"HTTP/1.1 400"):
                findings.append(f"a body does not fit although nobody else sends one: {answer[:200]!r}")
            client.close()
        return findings


class _Look:
    """What a server holds, as it says itself and as the system says."""

    def __init__(self, server: Server) -> None:
        talk = Talk([server.url])
        processes = talk("GET", "/v1/processes").json["processes"]
        talk.close()
        # One of them is ours.
        self.connections = sum(process["connections"] for process in processes) - 1
        self.waiting = sum(process["waiting_claims"] for process in processes)
        pids = [server.process.pid, *server.children()]
        self.files = sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids) - 1
        self.mib = sum(process["memory_bytes"] for process in processes) >> 20
        self.at = time.monotonic()

    def more_than(self, before: _Look) -> list[str]:
        found = []
        if self.connections > 0:
            found.append(f"{self.connections} connections")
        if self.waiting > 0:
            found.append(f"{self.waiting} claims that wait")
        if self.files > max(before.files, 40):
            found.append(f"{self.files} open files, {before.files} before")
        if self.mib > before.mib + _MORE_MIB:
            found.append(f"{self.mib} MiB, {before.mib} before")
        return found


FAULTS: list[Fault] = [Clients()]
