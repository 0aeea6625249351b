"""Where messages live: one contract (`protocol.py`), and the stores that keep it."""

from __future__ import annotations

from penstock.errors import InvalidSetting
from penstock.limits import Limits
from penstock.stores.kinds import Opening, find_sql_kind, kind_of
from penstock.stores.memory import MemoryStore
from penstock.stores.mqcore import MqCoreOptions
from penstock.stores.protocol import Store, Unit
from penstock.stores.sql.engine import SqlStore
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
    if find_sql_kind(url) is None:
        return kind_of(url).open(url, Opening(patience_ms, lanes, limits, mqcore or MqCoreOptions()))
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
    kind = find_sql_kind(url)
    if kind is None:
        raise InvalidSetting(f"{kind_of(url).name} is not kept in a database")
    return kind.open(url, Opening(patience_ms, lanes, limits, MqCoreOptions()))


def store_exists(url: str) -> bool:
    """Whether there is a store to open. Without one `open_store` would make it, and so hide a wrong address."""
    return kind_of(url).exists(url)
