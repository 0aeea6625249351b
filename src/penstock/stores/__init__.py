"""Where messages live: one contract (`protocol.py`), and the stores that keep it."""

from __future__ import annotations

from pathlib import Path
from random import SystemRandom

from penstock.errors import InvalidSetting
from penstock.extras import how_to_get
from penstock.limits import Limits
from penstock.stores.memory import MemoryStore
from penstock.stores.mqcore import MqCoreOptions, open_mqcore
from penstock.stores.protocol import Store, Unit
from penstock.stores.sql.engine import SqlStore
from penstock.stores.sql.engines.network import Database, NetworkStore
from penstock.stores.sql.engines.sqlite import open_sqlite
from penstock.stores.transfer.marks import refuse_handed_over, refuse_unfinished

__all__ = ["MemoryStore", "MqCoreOptions", "Store", "Unit", "open_sql_store", "open_store", "store_exists"]

DATABASE_LANES = 2


def open_store(
    url: str,
    patience_ms: int = 10_000,
    mqcore: MqCoreOptions | None = None,
    lanes: int = DATABASE_LANES,
    limits: Limits = Limits(),
) -> Store:
    """Open the store a URL names.

    `patience_ms` is how long a unit of an embedded store waits for another process before it raises StoreBusy. `mqcore`
    is for a store of that kind, `lanes` for those in a database server: how many units may be open at once, and so how
    many connections. A store that a transfer is still filling, or that was copied to another one, is refused. `limits`
    say how much is done at once.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        # It is not quoted: there may be a password in it.
        raise InvalidSetting("a store is a URL such as sqlite:///data/penstock.db")
    if scheme == "memory":
        return MemoryStore(SystemRandom(), limits)
    if scheme == "mqcore":
        return open_mqcore(url, rest, mqcore or MqCoreOptions(), limits)
    store = open_sql_store(url, patience_ms, lanes, limits)
    try:
        refuse_unfinished(store)
        refuse_handed_over(store)
    except BaseException:
        store.close()
        raise
    return store


def open_sql_store(
    url: str, patience_ms: int = 10_000, lanes: int = DATABASE_LANES, limits: Limits = Limits()
) -> SqlStore:
    """One that is kept in a database, also while a transfer is still filling it or after it was copied."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        return open_sqlite(url, rest, patience_ms, limits)
    return NetworkStore(url, _database(url, scheme), lanes, limits)


def store_exists(url: str) -> bool:
    """Whether there is a store to open. Without one `open_store` would make it, and so hide a wrong address."""
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite":
        return Path(rest[1:]).exists()
    # A folder of MQ-Core's is a store as soon as it is there; what is not a store at all is for `open_store` to refuse.
    return scheme in ("mqcore", "memory") or not separator or _database(url, scheme).exists()


def _database(url: str, scheme: str) -> Database:
    # Their drivers take time to import, and need not be installed where they are not used.
    try:
        if scheme in ("postgresql", "postgres"):
            from penstock.stores.sql.engines.postgresql import PostgresDatabase

            return PostgresDatabase(url)
        if scheme in ("mariadb", "mysql"):
            from penstock.stores.sql.engines.mariadb import MariaDatabase

            return MariaDatabase(url)
    except ModuleNotFoundError as missing:
        extra = "postgresql" if scheme.startswith("postgres") else "mariadb"
        raise InvalidSetting(f"the driver {missing.name} is not installed: {how_to_get(extra)}") from missing
    raise InvalidSetting(
        f"no store speaks {scheme!r}; there are sqlite:///PATH, postgresql://HOST/DATABASE, mariadb://HOST/DATABASE, "
        "mqcore:///PATH and memory://"
    )
