"""Our whole edge and routing, with a route that does nothing beside all routes of the product."""

from __future__ import annotations

import asyncio
import sys
from random import Random

import uvloop

from penstock.broker import LocalBroker
from penstock.clock import system_clock
from penstock.edge.http import Request, Response
from penstock.edge.listener import Listener
from penstock.edge.router import Route, Router
from penstock.faces.mqs import mqs_routes
from penstock.faces.native import native_routes
from penstock.keys import Keyring
from penstock.stores import MemoryStore

_NOTHING = Response(200)


def nothing(_request: Request) -> Response:
    return _NOTHING


async def main(port: int) -> None:
    store = MemoryStore(Random(1))
    broker = LocalBroker(store, system_clock, asyncio.get_running_loop())
    routes = [Route("GET", "/noop/{name}", nothing), Route("POST", "/noop/{name}", nothing)]
    listener = Listener(Router([*mqs_routes(broker), *native_routes(broker, Keyring(store.secret)), *routes]))
    await listener.start("127.0.0.1", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
