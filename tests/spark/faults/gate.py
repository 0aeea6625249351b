"""A gate before a server: it lets requests through, and holds the one that a test waits for.

So a test stops a job at a point that it names, a request before it is made or an answer before it arrives, and learns
which process is waiting there. It may stand before any server: Penstock's, or an object store.
"""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from devtools.programs import Program

_HOP = ("connection", "transfer-encoding", "content-length", "keep-alive", "expect")


@dataclass
class Held:
    """The request that matches, once it is there. `answered` says that the server has already carried it out."""

    pattern: str
    answered: bool
    skip: int
    _here: threading.Event = field(default_factory=threading.Event)
    _free: threading.Event = field(default_factory=threading.Event)
    _cut: bool = False
    peer: tuple[str, int] = ("", 0)
    port: int = 0
    key: str = ""

    def wait(self, asker: Program | Future[Any], timeout: float = 300) -> None:
        """Until it is there. If the asker has ended, it never will be."""
        end = time.monotonic() + timeout
        while not self._here.wait(0.1):
            if isinstance(asker, Future):
                assert not asker.done(), f"it ended with {asker.result()}"
            else:
                assert asker.process.poll() is None, f"it ended:\n{asker.out}{asker.err}"
            assert time.monotonic() < end, f"no request was {self.pattern}"

    def pid(self) -> int:
        """The process that waits for the answer."""
        return owner_of(self.peer[1], self.port)

    def let_go(self) -> None:
        self._free.set()

    def cut(self) -> None:
        """No answer: the connection ends. Does nothing to one that was let go."""
        if not self._free.is_set():
            self._cut = True
            self._free.set()

    def stop_here(self, peer: tuple[str, int], port: int) -> bool:
        self.peer, self.port = peer, port
        self._here.set()
        self._free.wait()
        return not self._cut


class Gate:
    """A proxy on a free port of this machine."""

    def __init__(self, url: str) -> None:
        self.lead_to(url)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self.seen: list[str] = []
        self.keys: Counter[str] = Counter()
        self._held: list[Held] = []
        self._all: list[Held] = []
        self._refused: list[str] = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept)]
        self._connections: list[socket.socket] = []
        self._threads[0].start()

    def hold(self, pattern: str, *, answered: bool = False, skip: int = 0) -> Held:
        """Holds one request whose method and path match the pattern, after `skip` that do."""
        held = Held(pattern, answered, skip)
        with self._lock:
            self._held.append(held)
            self._all.append(held)
        return held

    def refuse(self, pattern: str) -> None:
        """From now on the server seems to fail at every request whose method and path match the pattern."""
        with self._lock:
            self._refused.append(pattern)

    def lead_to(self, url: str | None) -> None:
        """From now on; without a server, connections end as they do where none listens."""
        self._upstream = None if url is None else urlsplit(url).netloc

    def close(self) -> None:
        with self._lock:
            self._held.clear()
            for held in self._all:
                held.cut()
            _shut(self._listening)
            self._listening.close()
            for connection in self._connections:
                _shut(connection)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, peer = self._listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection, peer))
            with self._lock:
                self._connections.append(connection)
                self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        try:
            with connection, connection.makefile("rb") as reader:
                while self._one(connection, reader.readline, reader.read, peer):
                    pass
        except (OSError, ValueError, http.client.HTTPException):
            pass  # either side went away: so does this connection

    def _one(
        self,
        connection: socket.socket,
        line: Callable[[], bytes],
        read: Callable[[int], bytes],
        peer: tuple[str, int],
    ) -> bool:
        first = line().decode("latin-1").split()
        if len(first) != 3:
            return False
        method, path, _ = first
        headers = {}
        while text := line().decode("latin-1").strip():
            name, _, value = text.partition(":")
            headers[name.lower()] = value.strip()
        if "expect" in headers:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        is_chunked = headers.get("transfer-encoding") == "chunked"
        body = b"".join(_chunks(line, read)) if is_chunked else read(int(headers.get("content-length", 0)))
        held = self._match(f"{method} {path}", headers.get("idempotency-key", ""))
        if held is not None and not held.answered and not held.stop_here(peer, self._port):
            return False
        if self._upstream is None:
            return False
        if any(re.search(pattern, f"{method} {path}") for pattern in self._refused):
            connection.sendall(b"HTTP/1.1 500 Refused\r\nContent-Length: 0\r\n\r\n")
            return True
        upstream = http.client.HTTPConnection(self._upstream, timeout=60)
        try:
            passed = {name: value for name, value in headers.items() if name not in _HOP}
            upstream.request(method, path, body or None, passed)
            answer = upstream.getresponse()
            content = answer.read()
        finally:
            upstream.close()
        if held is not None and held.answered and not held.stop_here(peer, self._port):
            return False
        head = [f"HTTP/1.1 {answer.status} {answer.reason}"]
        head += [f"{name}: {value}" for name, value in answer.getheaders() if name.lower() not in _HOP]
        if answer.status != 204:
            head.append(f"Content-Length: {answer.getheader('content-length') if method == 'HEAD' else len(content)}")
        connection.sendall("\r\n".join([*head, "", ""]).encode("latin-1") + content)
        return True

    def _match(self, asked: str, key: str) -> Held | None:
        with self._lock:
            self.seen.append(asked)
            if key:
                self.keys[key] += 1
            for held in self._held:
                if re.search(held.pattern, asked):
                    if held.skip:
                        held.skip -= 1
                        return None
                    self._held.remove(held)
                    held.key = key
                    return held
        return None


def _chunks(line: Callable[[], bytes], read: Callable[[int], bytes]) -> Iterator[bytes]:
    while size := int(line().partition(b";")[0], 16):
        yield read(size)
        line()
    while line().strip():
        pass  # what follows the last chunk


def owner_of(port: int, peer_port: int) -> int:
    """The process that has the connection from this port of this machine to that one."""
    wanted = (f":{port:04X}", f":{peer_port:04X}")
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = row.split()
            if fields[1].endswith(wanted[0]) and fields[2].endswith(wanted[1]):
                return _holder_of(f"socket:[{fields[9]}]")
    raise LookupError(f"no process is connected from port {port}")


def _holder_of(link: str) -> int:
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and link in _open_files(process):
            return int(process.name)
    raise LookupError(f"no process has {link}")


def _open_files(process: Path) -> Iterator[str]:
    """Of a process that may end, and close some of them, meanwhile."""
    with suppress(OSError):
        for entry in (process / "fd").iterdir():
            with suppress(OSError):
                yield str(entry.readlink())


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
