"""The load of `penstock bench`: connections that ask one request after the other, in a process of its own.

It speaks as little HTTP as it needs, so that a server has more to do for a request than this has. What it used of its
core is told with the result: near all of it, the load was the limit and not the server.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ssl import SSLContext, create_default_context
from typing import Any
from urllib.parse import urlsplit

BATCH = 100


@dataclass(frozen=True)
class Target:
    url: str
    queue: str
    api_key: str | None
    cacert: str | None


@dataclass(frozen=True)
class Plan:
    mode: str
    seconds: float
    connections: int
    size: int


@dataclass
class Measured:
    """`latencies_ms` has one entry for each round that succeeded; a round is a request, or the three of a cycle."""

    latencies_ms: list[float] = field(default_factory=list)
    messages: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    cpu_s: float = 0.0
    seconds: float = 0.0


class RequestFailed(Exception):
    """The server has answered something else than 2xx; its text is the status."""


class LeanConnection:
    def __init__(self, target: Target, tls: SSLContext | None) -> None:
        parts = urlsplit(target.url)
        self._host, self._tls = parts.hostname or "127.0.0.1", tls
        self._port = parts.port or (443 if tls else 80)
        key = f"Authorization: Bearer {target.api_key}\r\n" if target.api_key else ""
        self._head = f"Host: {parts.netloc.rpartition('@')[2]}\r\nContent-Type: application/json\r\n{key}"
        self._prefix = parts.path.rstrip("/")
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: bytes) -> bytes:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        reader, writer = self._streams
        head = f"POST {self._prefix}{path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in answer.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        told = await reader.readexactly(length)
        status = answer[9:12].decode()
        if not status.startswith("2"):
            raise RequestFailed(status)
        return told

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Load:
    def __init__(self, target: Target, plan: Plan) -> None:
        self._target, self._plan = target, plan
        self._tls = create_default_context(cafile=target.cacert) if target.url.startswith("https:") else None
        self._path = f"/v1/queues/{target.queue}"
        one = {"body": "x" * plan.size}
        self._one = json.dumps({"messages": [one]}).encode()
        self._many = json.dumps({"messages": [one] * BATCH}).encode()
        self.outcome = Measured()

    async def run(self) -> Measured:
        started, used = time.monotonic(), time.process_time()
        until = started + self._plan.seconds
        rounds = {"send": self._send, "cycle": self._cycle, "batch": self._batch}
        work = [self._work(rounds[self._plan.mode], until) for _ in range(self._plan.connections)]
        await asyncio.gather(*work)
        self.outcome.seconds = time.monotonic() - started
        self.outcome.cpu_s = time.process_time() - used
        return self.outcome

    async def _work(self, work: Callable[[LeanConnection], Awaitable[int]], until: float) -> None:
        connection = LeanConnection(self._target, self._tls)
        while (began := time.monotonic()) < until:
            try:
                # An answer that never comes must not keep the bench from ending.
                async with asyncio.timeout(until - began + 30):
                    done = await work(connection)
                # Not in one line with the await: others count meanwhile.
                self.outcome.messages += done
                self.outcome.latencies_ms.append((time.monotonic() - began) * 1000)
            except RequestFailed as refused:
                self.outcome.errors[f"HTTP {refused}"] += 1
                await asyncio.sleep(0.01)  # a server that refuses everything is not asked in a tight loop
            except (OSError, EOFError, asyncio.LimitOverrunError) as error:
                self.outcome.errors[type(error).__name__] += 1
                connection.close()
                await asyncio.sleep(0.1)
        connection.close()

    async def _send(self, connection: LeanConnection) -> int:
        await connection.ask(f"{self._path}/messages", self._one)
        return 1

    async def _batch(self, connection: LeanConnection) -> int:
        await connection.ask(f"{self._path}/messages", self._many)
        return BATCH

    async def _cycle(self, connection: LeanConnection) -> int:
        await connection.ask(f"{self._path}/messages", self._one)
        claimed: dict[str, Any] = json.loads(await connection.ask(f"{self._path}/claim", b'{"limit":1}'))
        receipts = [message["receipt"] for message in claimed["messages"]]
        if receipts:
            await connection.ask(f"{self._path}/ack", json.dumps({"receipts": receipts}).encode())
        return len(receipts)


def run_load(target: Target, plan: Plan, told: Any) -> None:
    """The whole of a process; `told` is its end of a pipe. Ctrl-C is for the command, which ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    told.send(asyncio.run(Load(target, plan).run()))
    told.close()
