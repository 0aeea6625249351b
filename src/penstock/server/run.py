"""The server as a process: it starts, says where it listens, and ends gracefully on SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal

import uvloop

from penstock import __version__
from penstock.server import logs
from penstock.server.app import App
from penstock.server.config import Config, place_of
from penstock.server.open_files import fit_open_files

log = logging.getLogger(__name__)


def run(config: Config) -> None:
    """Serve until a signal comes. Raises OperatorError or TryAgain when the server cannot start."""
    logs.configure(config.log_level, config.log_format)
    collect_garbage_rarely()
    uvloop.run(_serve(fit_open_files(config)))


async def _serve(config: Config) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    app = App(config)
    # Not earlier: a store that hangs while it is opened keeps the event loop from seeing a signal.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await app.start()
    log.info("Penstock %s serves %s from %s", __version__, app.url, place_of(config.store))
    if app.has_pages:
        log.info(
            "for people: %s/ (the APIs, to browse and try); for programs: %s/openapi.json", app.near_url, app.near_url
        )
    await stopped.wait()
    log.info("stopping")
    left = await app.stop()
    if left:
        log.warning("stopped without the store, which has not answered")
        leave()
    log.info("stopped")


def leave() -> None:
    """At once: a thread that waits for a store cannot be ended, and Python would wait for it."""
    logging.shutdown()
    os._exit(0)


def collect_garbage_rarely() -> None:
    """A request leaves no cycles behind, so there is next to nothing to find: by default the collector would look
    through everything a thousand times a second, for six per cent of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
