"""More connections than most servers ever see: idle ones, slow ones, claims that wait, and an honest client among them.

Each connection comes from one of several loopback addresses, for one address has ports for about 28,000.
"""

from __future__ import annotations

import multiprocessing
import resource
import selectors
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from soak.fault import Counts, Fault, Round, Violation
from soak.server import Server, wait_until
from soak.talk import Talk

QUEUE = "waited-for"
# As many claims as wait at once; what comes then is answered at once.
_MOST_WAITING = 20_000
_FROM_EACH_ADDRESS = 10_000
# Of clients; a process of theirs has no more files than one of the server.
_IN_A_PROCESS = 15_000
_BESIDES = 2_000
_PATIENCE_S = 300
# Not among the names of the module `socket` yet.
_BIND_ADDRESS_NO_PORT = 24
_CLAIM = b'{"wait_ms": 60000}'
_CLAIM = b"POST /v1/queues/%b/claim HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % (
    QUEUE.encode(), len(_CLAIM)
) + _CLAIM  # fmt: skip
_LIVE = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Crowd:
    name = "crowd"
    how = "tens of thousands of connections at once: idle, slow, and waiting; with one process and with two"
    goal = 60_000
    unit = "connections"
    short = 1_000

    def run(self, round: Round) -> Counts:
        """A process of the server takes as many as it may open files, so several take more."""
        workers = 2 if round.seed % 2 else 1
        count = min(30_000, round.left, (_may_open(40_000) - _BESIDES) * 8 // 9 * workers)
        flags = ("--max-connections", str(count + 10), "--idle-timeout-s", "3600", "--header-timeout-s", "3600")
        with Server(round.folder, "sqlite:///data/penstock.db", *flags, workers=workers) as server:
            server.start()
            crowd = _Crowd(server, 1 + count // _IN_A_PROCESS)
            findings: list[str] = []
            try:
                counts = self._gather(crowd, server, count, findings)
            finally:
                crowd.close()
            wait_until(lambda: _connections(server) == 1, "no connection is left", _PATIENCE_S, 0.5)
            if server.terminate() != 0:
                findings.append("the server did not end well")
        if findings:
            raise Violation(findings, counts)
        return counts

    def _gather(self, crowd: _Crowd, server: Server, count: int, findings: list[str]) -> Counts:
        talk = Talk([server.url], timeout=_PATIENCE_S)
        talk("PUT", f"/v1/queues/{QUEUE}", {"visibility_ms": 600_000})
        memory = _memory(server)
        begun = time.monotonic()
        crowd.open(count)
        seconds = time.monotonic() - begun
        wait_until(lambda: _connections(server) >= count, "all are connected", _PATIENCE_S, 0.5)
        each = (_memory(server) - memory) // count
        counts = Counts(count)
        # Of a round, not to be added up: the last one stands.
        counts.notes["bytes for each idle one"] = each
        counts.notes["connections a second"] = int(count / seconds)

        slowest = crowd.ask_all(_LIVE, b" 200 ")
        if slowest:
            findings.append(f"{slowest} of {count} connections got no answer or a wrong one")
        counts.notes["ms of the longest of 200 honest sends"] = self._sends(talk)
        self._wait(crowd, server, talk, count, findings)
        crowd.check_refusal(findings)
        talk.close()
        return counts

    def _sends(self, talk: Talk) -> int:
        longest = 0.0
        for number in range(200):
            begun = time.monotonic()
            reply = talk("POST", "/messages/beside", b"%d" % number)
            longest = max(longest, time.monotonic() - begun)
            if reply.status == 404:
                talk("PUT", "/v1/queues/beside", {})
        return int(longest * 1000)

    def _wait(self, crowd: _Crowd, server: Server, talk: Talk, count: int, findings: list[str]) -> None:
        """All of them claim. The first twenty thousand wait, and a message goes to one of them."""
        crowd.say(_CLAIM)
        waiting = min(count, _MOST_WAITING)
        wait_until(lambda: _waiting(server) == waiting, f"{waiting} claims wait", _PATIENCE_S, 0.5)
        answered = crowd.answers(count - waiting)
        if len(answered) != count - waiting or any(b'"messages":[]' not in one for one in answered):
            findings.append(f"{count - waiting} claims too many: {len(answered)} answered, such as {answered[:1]}")
        talk("POST", f"/messages/{QUEUE}", b"for one of you")
        got = crowd.answers(1)
        if len(got) != 1 or b"for one of you" not in got[0]:
            findings.append(f"one message, and {len(got)} who got it: {got[:2]}")
        if crowd.answers(1, seconds=0.5):
            findings.append("one message, and more than one who got an answer")


class _Crowd:
    """All clients, in several processes."""

    def __init__(self, server: Server, processes: int) -> None:
        self._port = server.port
        self._parts = [_Part(server.port, number) for number in range(processes)]

    def open(self, count: int) -> None:
        shares = [len(range(first, count, len(self._parts))) for first in range(len(self._parts))]
        for part, share in zip(self._parts, shares, strict=True):
            part.begin("open", share)
        for part in self._parts:
            part.end()

    def say(self, data: bytes) -> None:
        for part in self._parts:
            part.begin("say", data)
        for part in self._parts:
            part.end()

    def ask_all(self, data: bytes, wanted: bytes) -> int:
        for part in self._parts:
            part.begin("ask_all", data, wanted)
        return sum(part.end() for part in self._parts)

    def answers(self, count: int, seconds: float = _PATIENCE_S) -> list[bytes]:
        """What comes to any of them, until there are so many or the time is over."""
        found: list[bytes] = []
        until = time.monotonic() + seconds
        while len(found) < count and time.monotonic() < until:
            for part in self._parts:
                part.begin("answers", 0.1)
            for part in self._parts:
                found += part.end()
        return found

    def check_refusal(self, findings: list[str]) -> None:
        """Who comes when all places are taken is told so; a few still find one."""
        more = [socket.create_connection(("127.0.0.1", self._port), _PATIENCE_S) for _ in range(20)]
        told: list[bytes] = []
        with selectors.DefaultSelector() as selector:
            for one in more:
                selector.register(one, selectors.EVENT_READ, one)
            until = time.monotonic() + _PATIENCE_S
            while len(told) < 10 and time.monotonic() < until:
                for key, _ in selector.select(1):
                    told.append(key.data.recv(65536))
                    selector.unregister(key.data)
        if len(told) < 10 or not all(one.startswith(b"HTTP/1.1 503") and b"Retry-After" in one for one in told):
            findings.append(f"told to one too many: {told[:1]}")
        for one in more:
            one.close()

    def close(self) -> None:
        for part in self._parts:
            part.close()


class _Part:
    """A process of clients, that does what it is told."""

    def __init__(self, port: int, number: int) -> None:
        fork = multiprocessing.get_context("fork")
        self._line, other = fork.Pipe()
        self._process = fork.Process(target=_serve, args=(other, port, number), daemon=True)
        self._process.start()
        other.close()

    def begin(self, verb: str, *words: Any) -> None:
        self._line.send((verb, words))

    def end(self) -> Any:
        result = self._line.recv()
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        self._line.close()
        self._process.join(30)
        self._process.kill()


def _serve(line: Any, port: int, number: int) -> None:
    gathering = _Gathering(port, number)
    while True:
        try:
            verb, words = line.recv()
        except EOFError:
            return
        try:
            line.send(getattr(gathering, verb)(*words))
        except Exception as error:
            line.send(RuntimeError(f"{verb}: {error!r}"))


class _Gathering:
    """The sockets of one process."""

    def __init__(self, port: int, number: int) -> None:
        self._port = port
        self._number = number
        self._sockets: list[socket.socket] = []
        self._selector = selectors.DefaultSelector()

    def open(self, count: int) -> None:
        """From several threads at once, as fast as they are accepted."""
        lock = threading.Lock()
        first_address = 2 + self._number * (_IN_A_PROCESS // _FROM_EACH_ADDRESS + 1)

        def connect(numbers: range) -> None:
            for number in numbers:
                one = socket.socket()
                # An address, and any port of it that is not in use to this server.
                one.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
                one.settimeout(_PATIENCE_S)
                one.bind((f"127.0.0.{first_address + number // _FROM_EACH_ADDRESS}", 0))
                one.connect(("127.0.0.1", self._port))
                with lock:
                    self._sockets.append(one)

        threads = [threading.Thread(target=connect, args=(range(first, count, 8),)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(self._sockets) != count:
            raise RuntimeError(f"only {len(self._sockets)} of {count} connections were made")
        for one in self._sockets:
            self._selector.register(one, selectors.EVENT_READ)

    def say(self, data: bytes) -> None:
        for one in self._sockets:
            one.sendall(data)

    def ask_all(self, data: bytes, wanted: bytes) -> int:
        """How many did not get what was wanted."""
        wrong = 0
        for start in range(0, len(self._sockets), 500):
            some = self._sockets[start : start + 500]
            for one in some:
                one.sendall(data)
            for one in some:
                wrong += wanted not in one.recv(65536)
        return wrong

    def answers(self, seconds: float) -> list[bytes]:
        found = []
        for key, _ in self._selector.select(seconds):
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            found.append(sock.recv(65536))
        return found


def _may_open(files: int) -> int:
    """How many files a process may open, so many if it is given them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in (max(hard, files), hard):
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            return most
    return soft


def _processes(server: Server) -> list[dict[str, int]]:
    talk = Talk([server.url], timeout=_PATIENCE_S)
    try:
        found: list[dict[str, int]] = talk("GET", "/v1/processes").json["processes"]
    finally:
        talk.close()
    return found


def _connections(server: Server) -> int:
    return sum(process["connections"] for process in _processes(server))


def _waiting(server: Server) -> int:
    return sum(process["waiting_claims"] for process in _processes(server))


def _memory(server: Server) -> int:
    """Resident, of all its processes."""
    pages = 0
    for pid in (server.process.pid, *server.children()):
        pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


FAULTS: list[Fault] = [Crowd()]
