"""The half of a server that speaks HTTP: faces, guard and keys before a broker, and the listening sockets."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl as tls
from collections.abc import Sequence

from penstock.broker import Broker
from penstock.clock import Clock, system_clock
from penstock.edge.limits import EdgeLimits, Timeouts
from penstock.edge.listener import Listener
from penstock.edge.router import Router
from penstock.errors import InvalidSetting
from penstock.faces.console import Console, SessionTerms
from penstock.faces.guard import Guard, Origins
from penstock.faces.metrics import StoreLook, traffic_totals
from penstock.faces.patience import Patience
from penstock.faces.probes import Probes
from penstock.hosts import HostNames, split
from penstock.keys import Keyring
from penstock.server.access_log import AccessLog
from penstock.server.board import Meter
from penstock.server.committer import StoreFacts, chosen_timings
from penstock.server.config import Config, is_loopback
from penstock.server.faces import chosen_faces, face_routes, serves_console
from penstock.server.key_uses import KeyUses
from penstock.server.keys import KeyWatch
from penstock.server.open_files import most_connections
from penstock.server.tls import renew
from penstock.stores.kinds import kind_of
from penstock.timings import Timings

# How long a server that stops waits until the store has taken which API keys were used: a store that is well takes
# milliseconds, and they are not worth more.
_USES_S = 1.0


class Front:
    """`start` and `stop` are called on its event loop. The meter is that of its process. With `understudy_of`, it
    stands in for another front of the same process, and has its API keys."""

    def __init__(
        self,
        config: Config,
        broker: Broker,
        facts: StoreFacts,
        loop: asyncio.AbstractEventLoop,
        meter: Meter,
        ssl: tls.SSLContext | None,
        timings: Timings = Timings(),
        clock: Clock = system_clock,
        understudy_of: Front | None = None,
    ) -> None:
        timings = chosen_timings(config, timings)
        self._config = config
        self._ssl = ssl
        is_live = understudy_of is None
        keyring = (
            understudy_of.keyring if understudy_of else Keyring(facts.secret, facts.keys, config.sigv4_pepper, clock)
        )
        self.keyring: Keyring = keyring
        self.faces = chosen_faces(config.faces, facts.url, facts.missing)
        origins = Origins(own_names(config), local=is_loopback(config.host))
        patience = Patience(timings, wrong_keys=meter.place.wrong_keys)
        self.has_console = serves_console(config, self.faces, facts.missing)
        console = None
        if self.has_console:
            console = Console(
                broker,
                keyring,
                origins=origins,
                patience=patience,
                clock=clock,
                terms=SessionTerms(int(config.console_idle_s * 1000), int(config.console_session_s * 1000)),
                by_tls=ssl is not None,
                reports=meter.reports,
            )
        has_keys = is_live and "keys" not in facts.missing
        self.keys = KeyWatch(keyring, broker, loop, timings) if has_keys else None
        self._key_uses = KeyUses(keyring, broker, loop, timings) if has_keys else None
        self._probes = Probes(broker, loop, self._are_keys_known, timings.probe_s, is_live)
        ask_store = StoreLook(broker, loop, config.metrics_queues, timings.probe_s)
        kind = kind_of(facts.url).scheme
        served = face_routes(self.faces, broker, keyring, config, meter.report, ask_store, self._probes, console, kind)
        refuse_exposure(config, keyring)
        guard = Guard(keyring, origins, patience, clock)
        router = Router(served.routes, served.errors, guard)
        self._listener = Listener(
            router, *_bounds(config), meter.place.gauges, journal=AccessLog(router), logs_access=config.access_log
        )
        meter.watch(requests=self._listener.answered)
        meter.watch_totals(lambda: traffic_totals((*served.traffics, router.unmatched)))

    @property
    def url(self) -> str:
        return url_of(self._config, self._listener.port)

    @property
    def has_pages(self) -> bool:
        """MQ-Core alone has the root of all paths to itself."""
        return set(self.faces) != {"mqcore"}

    async def start(self, sockets: Sequence[socket.socket] = ()) -> None:
        """On these sockets, or else on those that the settings name."""
        if sockets:
            await self._listener.start_on(sockets, self._ssl)
        else:
            try:
                await self._listener.start(self._config.host, self._config.port, self._ssl)
            except OSError as error:
                raise cannot_listen(self._config, error) from error
        if self.keys is not None:
            self.keys.start()
        if self._key_uses is not None:
            self._key_uses.start()

    def reload(self, config: Config) -> None:
        """Take over what can change while the server runs: see `config.adopted`. Raises InvalidSetting."""
        renew(self._ssl, config)
        self._config = config
        self._listener.adjust(*_bounds(config), config.access_log)
        if self.keys is not None:
            self.keys.look_now()

    async def stop(self, grace_s: float) -> None:
        """Answer what was accepted, and take no more."""
        self._probes.is_stopping = True
        if self.keys is not None:
            self.keys.stop()
        await self.close(grace_s)

    async def close(self, grace_s: float) -> None:
        """The same for a front that may start again."""
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_s
        await self._listener.stop(grace_s)
        if self._key_uses is not None:
            await self._key_uses.finish(min(_USES_S, max(0.0, until - loop.time())))

    def descriptors(self) -> list[int]:
        """Of the sockets on which it listens now."""
        return self._listener.descriptors()

    def _are_keys_known(self) -> bool:
        return self.keys is None or self.keys.is_current


def url_of(config: Config, port: int) -> str:
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"{'https' if config.tls_cert else 'http'}://{host}:{port}"


def near(url: str) -> str:
    """An address that a browser on this machine can open."""
    return url.replace("://0.0.0.0:", "://127.0.0.1:").replace("://[::]:", "://[::1]:")


def _bounds(config: Config) -> tuple[Timeouts, EdgeLimits]:
    return (
        Timeouts(config.header_timeout_s, config.body_timeout_s, config.idle_timeout_s, config.write_timeout_s),
        EdgeLimits(
            connections=config.max_connections,
            own_connections=most_connections(),
            body_bytes=config.max_bodies_mib << 20,
        ),
    )


def cannot_listen(config: Config, error: OSError) -> InvalidSetting:
    return InvalidSetting(f"cannot listen on {config.host}:{config.port}: {_why(error)}")


def _why(error: OSError) -> str:
    """Shorter than the event loop's own text, which repeats the address."""
    if error.errno == errno.EADDRINUSE:
        return "the port is taken, perhaps by another server; --port chooses another"
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror or error)


def own_names(config: Config) -> HostNames:
    """The names the server answers to: what it listens on, and what the settings say."""
    # An IPv6 address that it listens on has no brackets, and need not be named.
    host = config.host if split(config.host) else ""
    return HostNames(f"{host},{config.allowed_hosts}")


def refuse_exposure(config: Config, keyring: Keyring) -> None:
    """Without API keys a server is for its own machine only."""
    if config.expose_without_keys or keyring.asks_for_keys or is_loopback(config.host):
        return
    raise InvalidSetting(
        f"host is {config.host!r}, which other machines may reach, and the store has no API key: anybody there could "
        "read and delete messages. Make a key with 'penstock key create', or listen on 127.0.0.1, or, where the "
        "network keeps strangers out, start with --expose-without-keys"
    )
