"""The kinds of stores, by the schemes of their URLs: the one place that knows which there are.

A kind says what its stores can do before one is opened. A caller that cannot use a store can so refuse its URL:
opening it would make one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Generic, TypeVar

from penstock.errors import InvalidSetting
from penstock.extras import how_to_get
from penstock.limits import Limits
from penstock.stores.memory import MemoryStore
from penstock.stores.mqcore import MqCoreOptions, open_mqcore
from penstock.stores.protocol import NOUNS, Noun, Store
from penstock.stores.sql.engine import SqlStore
from penstock.stores.sql.engines.network import Database, NetworkStore
from penstock.stores.sql.engines.sqlite import open_sqlite

SomeStore = TypeVar("SomeStore", bound=Store, covariant=True)


@dataclass(frozen=True)
class Opening:
    """How a store is opened: see `open_store`."""

    patience_ms: int
    lanes: int
    limits: Limits
    mqcore: MqCoreOptions


@dataclass(frozen=True)
class Kind(Generic[SomeStore]):
    """`name` is what a person calls such a store, and `example` shows its URLs.

    `exists` says whether there is a store to open. `missing` are the nouns that its units do not have. It `is_shared`
    if other processes that open the same URL find the same messages, `has_server` if a database server keeps them,
    which serves many processes at once, and `has_path` if the URL names a file or folder.
    """

    name: str
    example: str
    open: Callable[[str, Opening], SomeStore]
    exists: Callable[[str], bool]
    missing: frozenset[Noun] = frozenset()
    is_shared: bool = True
    has_server: bool = False
    has_path: bool = False

    @property
    def scheme(self) -> str:
        """Where there are several, the one that the example has."""
        return _scheme(self.example)

    def path(self, url: str) -> Path | None:
        """The file or folder that a URL names."""
        place = _behind_scheme(url)
        return Path(place[1:]) if self.has_path and place.startswith("/") else None


def _scheme(url: str) -> str:
    """Empty where there is none."""
    scheme, separator, _ = url.partition("://")
    return scheme if separator else ""


def _behind_scheme(url: str) -> str:
    return url.partition("://")[2]


def _server(name: str, example: str, extra: str, database: Callable[[str], Database]) -> Kind[SqlStore]:
    """A kind that is kept in a database server. Its driver is one of the extras: it takes time to import, and need not
    be installed where it is not used."""

    def found(url: str) -> Database:
        try:
            return database(url)
        except ModuleNotFoundError as missing:
            raise InvalidSetting(f"the driver {missing.name} is not installed: {how_to_get(extra)}") from missing

    def open_server(url: str, opening: Opening) -> SqlStore:
        return NetworkStore(url, found(url), opening.lanes, opening.limits)

    return Kind(name, example, open_server, lambda url: found(url).exists(), has_server=True)


def _postgres_database(url: str) -> Database:
    from penstock.stores.sql.engines.postgresql import PostgresDatabase

    return PostgresDatabase(url)


def _maria_database(url: str) -> Database:
    from penstock.stores.sql.engines.mariadb import MariaDatabase

    return MariaDatabase(url)


def _open_sqlite(url: str, opening: Opening) -> SqlStore:
    return open_sqlite(url, _behind_scheme(url), opening.patience_ms, opening.limits)


def _open_mqcore(url: str, opening: Opening) -> Store:
    return open_mqcore(url, _behind_scheme(url), opening.mqcore, opening.limits)


def _open_memory(_url: str, opening: Opening) -> Store:
    return MemoryStore(SystemRandom(), opening.limits)


_SQLITE = Kind(
    "a SQLite store",
    "sqlite:///PATH",
    _open_sqlite,
    lambda url: Path(_behind_scheme(url)[1:]).exists(),
    has_path=True,
)
_POSTGRESQL = _server("a PostgreSQL store", "postgresql://HOST/DATABASE", "postgresql", _postgres_database)
_MARIADB = _server("a MariaDB store", "mariadb://HOST/DATABASE", "mariadb", _maria_database)
# A folder of MQ-Core's is a store as soon as it is there.
_MQCORE = Kind(
    "an mqcore:// store",
    "mqcore:///PATH",
    _open_mqcore,
    lambda _url: True,
    missing=frozenset(NOUNS),
    has_path=True,
)
_MEMORY = Kind("a memory:// store", "memory://", _open_memory, lambda _url: True, is_shared=False)

_SQL_KINDS = {
    "sqlite": _SQLITE,
    "postgresql": _POSTGRESQL,
    "postgres": _POSTGRESQL,
    "mariadb": _MARIADB,
    "mysql": _MARIADB,
}
_KINDS: dict[str, Kind[Store]] = {**_SQL_KINDS, "mqcore": _MQCORE, "memory": _MEMORY}


def find_kind(url: str) -> Kind[Store] | None:
    return _KINDS.get(_scheme(url))


def find_sql_kind(url: str) -> Kind[SqlStore] | None:
    """Only of a store that is kept in a database."""
    return _SQL_KINDS.get(_scheme(url))


def kind_of(url: str) -> Kind[Store]:
    """Raises InvalidSetting for what is not the URL of a store."""
    found = find_kind(url)
    if found is not None:
        return found
    if "://" not in url:
        # It is not quoted: there may be a password in it.
        raise InvalidSetting("a store is a URL such as sqlite:///data/penstock.db")
    *others, last = dict.fromkeys(kind.example for kind in _KINDS.values())
    raise InvalidSetting(f"no store speaks {_scheme(url)!r}; there are {', '.join(others)} and {last}")
