"""`penstock shrink --store`: a SQLite store is rebuilt, without the pages that it does not use.

SQLite does this in one transaction: killed at any moment, the file is as it was or as it is to be. It locks out every
other process meanwhile, so it is nothing for a store that is in use.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

from penstock.errors import InvalidSetting, StoreBusy
from penstock.limits import Limits
from penstock.stores.kinds import kind_of
from penstock.stores.sql.engines.sqlite import open_sqlite

_OTHER_TOOLS = {
    "postgresql": "autovacuum frees room there, and VACUUM FULL gives it back",
    "mariadb": "OPTIMIZE TABLE gives room back there",
    "mqcore": "a message that is gone leaves nothing there",
    "memory": "it ends with its process",
}


@dataclass(frozen=True)
class Rebuilt:
    before: int
    after: int
    seconds: float


def rebuild(url: str) -> Rebuilt:
    """Raises InvalidSetting where there is nothing to rebuild, StoreBusy while another process has the store open,
    and StoreFull where there is no room for it; nothing has changed then."""
    kind = kind_of(url)
    path = kind.path(url)
    if kind.scheme != "sqlite":
        how = _OTHER_TOOLS.get(kind.scheme, "")
        raise InvalidSetting(f"only SQLite stores are rebuilt, not {kind.name}" + (f": {how}" if how else ""))
    if path is None or not path.is_file():
        raise InvalidSetting(f"there is no store at {url}")
    started_at = time.monotonic()
    with closing(open_sqlite(url, url.partition("://")[2], 0, Limits())) as store:
        before = path.stat().st_size
        if store.probe_other_users():
            raise StoreBusy(f"{path} is open elsewhere: stop every server and program that uses it first")
        store.rebuild()
        return Rebuilt(before, path.stat().st_size, time.monotonic() - started_at)
