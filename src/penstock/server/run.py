"""The server as a process: it starts, says where it listens, and ends gracefully on SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable

import uvloop

from penstock.errors import InvalidSetting
from penstock.server import logs
from penstock.server.app import App
from penstock.server.config import Config, adopted
from penstock.server.log_lines import say_reloaded, say_where
from penstock.server.memory import fit_memory
from penstock.server.open_files import fit_open_files
from penstock.server.systemd import Systemd
from penstock.server.understudy import Understudy
from penstock.server.workers.supervisor import Supervisor

log = logging.getLogger(__name__)


def run(config: Config, reread: Callable[[], Config]) -> None:
    """Serve until a signal comes. `reread` reads the settings again, when SIGHUP asks for it. Raises OperatorError or
    TryAgain when the server cannot start."""
    logs.configure(config.log_level, config.log_format)
    collect_garbage_rarely()
    config = fit_memory(fit_open_files(config))
    if config.workers > 1:
        Supervisor(config, reread, Systemd(os.environ)).run()
    else:
        uvloop.run(_serve(config, reread))


async def _serve(config: Config, reread: Callable[[], Config]) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    systemd = Systemd(os.environ)
    # Until there is something to end in order, a signal ends the process at once, whatever it waits for.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    app = App(config)

    def reload() -> None:
        nonlocal config
        systemd.reloading()
        try:
            wanted, unheeded = adopted(config, reread())
            wanted = fit_memory(fit_open_files(wanted))
            app.reload(wanted)
        except InvalidSetting as error:
            log.error("settings are not taken over: %s", error)
        else:
            config = wanted
            say_reloaded(config, unheeded)
        systemd.ready(f"serves {app.url}")

    # Not earlier: a store that hangs while it is opened keeps the event loop from seeing a signal.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    loop.add_signal_handler(signal.SIGHUP, reload)
    await app.start()
    say_where(app.url, config, app.has_pages, app.has_console)
    systemd.ready(f"serves {app.url}")
    understudy = Understudy(app, config) if app.committer.works_on_loop else None
    if understudy is not None:
        understudy.start()
    beats = None if systemd.watchdog_s is None else loop.create_task(_live(systemd, systemd.watchdog_s))
    await stopped.wait()
    log.info("stopping")
    systemd.stopping()
    left = await app.stop()
    if understudy is not None:
        understudy.stop()
    if beats is not None:
        beats.cancel()
    if left:
        log.warning("stopped without the store, which has not answered")
        leave()
    log.info("stopped")


async def _live(systemd: Systemd, every_s: float) -> None:
    """For as long as this event loop turns."""
    while True:
        systemd.lives()
        await asyncio.sleep(every_s)


def leave() -> None:
    """At once: a thread that waits for a store cannot be ended, and Python would wait for it."""
    logging.shutdown()
    os._exit(0)


def collect_garbage_rarely() -> None:
    """A request leaves no cycles behind, so there is next to nothing to find: by default the collector would look
    through everything a thousand times a second, for six per cent of the time. But no look may take long: everybody
    waits for it, and ten thousand new objects take it one or two milliseconds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 50, 50)
