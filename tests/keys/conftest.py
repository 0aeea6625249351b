"""Keys made in a store before, or while, a server is running on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import keys
from penstock.clock import system_clock
from penstock.model import Key
from penstock.stores import open_store
from tests.servers import ThreadServer
from tests.waiting import wait_until


class KeyStore:
    """The store of the fixture `server`, opened beside it as `penstock key` does."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "data" / "penstock.db"
        self.url = f"sqlite:///{self.path}"

    def create(self, name: str, *rules: str) -> str:
        """The secret of a new key."""
        secret = keys.mint()
        store = open_store(self.url)
        with store.unit() as unit:
            unit.keys.create(Key(name, keys.digest(store.secret, secret.encode()), rules, system_clock()))
        store.close()
        return secret

    def aws_secret(self, name: str, pepper: str = "") -> str:
        """What a client that has this key signs with."""
        store = open_store(self.url)
        with store.unit(write=False) as unit:
            [digest] = [key.digest for key in unit.keys.list() if key.name == name]
        store.close()
        return keys.aws_secret(store.secret, pepper, digest)

    def revoke(self, name: str) -> None:
        store = open_store(self.url)
        with store.unit() as unit:
            unit.keys.revoke(name, system_clock())
        store.close()


@pytest.fixture
def key_store(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path)


@pytest.fixture
def keyed(key_store: KeyStore, tmp_path: Path):
    """Start a server on a store that already has its keys."""
    started: list[ThreadServer] = []

    def start(**settings: object) -> ThreadServer:
        started.append(ThreadServer(key_store.url, **settings))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def eventually(holds: Callable[[], bool]) -> None:
    """A running server notices a change of the keys within about a second, a busy one later."""
    wait_until(holds)
