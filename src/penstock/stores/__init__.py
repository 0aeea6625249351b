"""Where messages live: one contract (`protocol.py`), and the stores that keep it."""

from __future__ import annotations

from random import SystemRandom

from penstock.errors import InvalidSetting
from penstock.stores.memory import MemoryStore
from penstock.stores.mqcore import MqCoreOptions, open_mqcore
from penstock.stores.protocol import Store, Unit
from penstock.stores.sql.sqlite import open_sqlite

__all__ = ["MemoryStore", "MqCoreOptions", "Store", "Unit", "open_store"]


def open_store(url: str, patience_ms: int = 10_000, mqcore: MqCoreOptions | None = None) -> Store:
    """Open the store a URL names.

    `patience_ms` is how long a unit waits for another process before it raises StoreBusy. `mqcore` is for a store of
    that kind.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise InvalidSetting(f"a store is a URL such as sqlite:///data/penstock.db, not {url!r}")
    if scheme == "memory":
        return MemoryStore(SystemRandom())
    if scheme == "sqlite":
        return open_sqlite(url, rest, patience_ms)
    if scheme == "mqcore":
        return open_mqcore(url, rest, mqcore or MqCoreOptions())
    raise InvalidSetting(f"no store speaks {scheme!r}; there are sqlite:///PATH, mqcore:///PATH and memory://")
