"""The composition root: plain constructor calls from a store to a listening socket."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl as tls
from dataclasses import replace

from penstock.broker import LocalBroker
from penstock.clock import Clock, system_clock
from penstock.edge.limits import EdgeLimits, Timeouts
from penstock.edge.listener import Listener
from penstock.edge.router import Router
from penstock.errors import InvalidSetting
from penstock.faces.guard import Guard, Origins
from penstock.hosts import HostNames, split
from penstock.keys import Keyring
from penstock.limits import Limits
from penstock.server.config import Config, is_loopback
from penstock.server.faces import chosen_faces, face_routes
from penstock.server.keys import KeyWatch
from penstock.stores import MqCoreOptions, open_store
from penstock.stores.protocol import missing_nouns
from penstock.timings import Timings

_DAY_MS = 86_400_000
# A server does not wait for another process inside a unit: its event loop has other work to do.
_PATIENCE_MS = 2


class App:
    """A running server. `start` and `stop` are called on its event loop."""

    def __init__(
        self,
        config: Config,
        clock: Clock = system_clock,
        timings: Timings = Timings(),
        limits: Limits = Limits(),
    ) -> None:
        loop = asyncio.get_running_loop()
        timings = replace(
            timings, store_timeout_s=config.store_timeout_s, ledger_retention_ms=config.ledger_days * _DAY_MS
        )
        self._config = config
        self._ssl = tls_context(config)
        self._store = open_store(
            config.store,
            _PATIENCE_MS,
            MqCoreOptions(peers=config.mqcore_peers, daemons=config.mqcore_daemons),
            config.store_connections,
            limits=limits,
        )
        self._broker = LocalBroker(self._store, clock, loop, timings)
        with self._store.unit(write=False) as unit:
            missing = missing_nouns(unit)
            keyring = Keyring(self._store.secret, () if unit.keys is None else unit.keys.list())
        self.faces = chosen_faces(config.faces, self._store.url, missing)
        routes, errors = face_routes(self.faces, self._broker, keyring, config)
        self._keys = None if "keys" in missing else KeyWatch(keyring, self._broker, loop, timings)
        refuse_exposure(config, keyring)
        origins = Origins(own_names(config), local=is_loopback(config.host))
        self._listener = Listener(
            Router(routes, errors, Guard(keyring, origins, timings)),
            Timeouts(config.header_timeout_s, config.body_timeout_s, config.idle_timeout_s, config.write_timeout_s),
            EdgeLimits(connections=config.max_connections, body_bytes=config.max_bodies_mib << 20),
        )

    @property
    def url(self) -> str:
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        return f"{'https' if self._ssl else 'http'}://{host}:{self._listener.port}"

    @property
    def near_url(self) -> str:
        """An address that a browser on this machine can open."""
        return self.url.replace("://0.0.0.0:", "://127.0.0.1:").replace("://[::]:", "://[::1]:")

    @property
    def has_pages(self) -> bool:
        """MQ-Core alone has the root of all paths to itself."""
        return set(self.faces) != {"mqcore"}

    def waiting_claims(self) -> list[str]:
        """The queues of claims that wait for a message, one entry each."""
        return self._broker.waiting_claims()

    async def start(self) -> None:
        try:
            await self._listener.start(self._config.host, self._config.port, self._ssl)
        except OSError as error:
            self._store.close()
            raise InvalidSetting(f"cannot listen on {self._config.host}:{self._config.port}: {_why(error)}") from error
        self._broker.start()
        if self._keys is not None:
            self._keys.start()

    async def stop(self) -> int:
        """Answer what was accepted, end what waits, then close the store.

        Returns how many units of the store have not ended within the grace: then it is left open for their threads, for
        which the process must not wait.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._config.stop_grace_s
        if self._keys is not None:
            self._keys.stop()
        self._broker.stop()
        await self._listener.stop(self._config.stop_grace_s)
        left = await self._broker.finish(max(0.0, until - loop.time()))
        if not left:
            self._store.close()
        return left


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


def tls_context(config: Config) -> tls.SSLContext | None:
    if not config.tls_cert:
        return None
    context = tls.SSLContext(tls.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(config.tls_cert, config.tls_key)
    except (OSError, tls.SSLError) as error:
        raise InvalidSetting(f"tls_cert or tls_key cannot be used: {error}") from error
    return context
