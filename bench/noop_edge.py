"""Our whole edge and routing with all routes of the product, over a store that keeps nothing; and two routes that do
nothing: `/noop` answers at once, `/later` with all others that came in the same turn of the event loop, as a unit of
the store does. `/messages` is the API mqs as it is; with `guarded`, it is guarded like the server's.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import uvloop

from penstock.broker import LocalBroker
from penstock.clock import system_clock
from penstock.edge.http import Request, Response
from penstock.edge.listener import Listener
from penstock.edge.router import Route, Router
from penstock.faces.guard import Guard, Origins
from penstock.faces.mqs import mqs_routes
from penstock.faces.native import native_routes
from penstock.hosts import HostNames
from penstock.keys import Keyring
from penstock.model import Claimed, Draft, Message, Receipt, Sent
from penstock.pending import Pending
from penstock.stores import MemoryStore

_NOTHING = Response(200)
_ID = "01234567-89ab-7def-8123-000000000001"
_BODY = b"x" * 200
_MESSAGE = Message(_ID, 1, "q", _BODY, "application/octet-stream", None, 0, 0, 1, 1, None)


class _NoRowsUnit:
    """Every send succeeds, every claim finds a message, every ack its claim."""

    def __init__(self, unit: Any) -> None:
        self._unit = unit
        self.stirred: set[str] = set()
        self.sent_to: set[str] = set()

    def send(self, _queue: str, drafts: Sequence[Draft], _now: int) -> list[Sent]:
        return [Sent(_ID, True)] * len(drafts)

    def claim(self, _queue: str, limit: int, _now: int, _hold_ms: int | None) -> Claimed:
        return Claimed([_MESSAGE] * limit)

    def ack(self, receipts: Sequence[Receipt], _now: int) -> list[bool]:
        return [True] * len(receipts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._unit, name)


class NoRows:
    """A store without the work of one; queues are those of the store in memory below it."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.limits, self.ahead_ms, self.has_room = store.limits, store.ahead_ms, store.has_room
        with store.unit() as unit:
            self._unit = _NoRowsUnit(unit)

    @contextmanager
    def unit(self, write: bool = True) -> Iterator[Any]:  # noqa: ARG002
        yield self._unit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def nothing(_request: Request) -> Response:
    return _NOTHING


class Later:
    """Answers all who came in one turn of the event loop in the next."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[Pending[Response]] = []

    def handle(self, _request: Request) -> Pending[Response]:
        pending: Pending[Response] = Pending()
        if not self._waiting:
            self._loop.call_soon(self._answer)
        self._waiting.append(pending)
        return pending

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for pending in waiting:
            pending.resolve(_NOTHING)


async def main(port: int, guarded: bool) -> None:
    loop = asyncio.get_running_loop()
    store: Any = NoRows(MemoryStore(Random(1)))
    keyring = Keyring(store.secret)
    broker = LocalBroker(store, system_clock, loop)
    routes = [
        Route(method, path, handler)
        for path, handler in (("/noop/{name}", nothing), ("/later/{name}", Later(loop).handle))
        for method in ("GET", "POST", "DELETE")
    ]
    guard = Guard(keyring, Origins(HostNames(""), local=True)) if guarded else None
    listener = Listener(Router([*mqs_routes(broker), *native_routes(broker, keyring), *routes], guard=guard))
    await listener.start("127.0.0.1", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), "guarded" in sys.argv[2:]))
