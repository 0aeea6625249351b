"""Where `penstock key` finds the keys: in a store that it opens itself, or at a running server.

The store needs no server and no key, so that there can be a first one. A server knows its own store, wherever that is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import click

from penstock.cli.options import connect

if TYPE_CHECKING:
    from penstock import model
    from penstock.client import Client, Key, NewKey
    from penstock.stores.protocol import Unit

T = TypeVar("T")

# What the log of actions calls a change that no server has made.
_VIA = "command line"


class KeySource(Protocol):
    def create(self, name: str, rules: tuple[str, ...], expires_at: int | None = None) -> NewKey:
        """Its warning is all there is to say."""

    def update(self, name: str, expires_at: int | None) -> Key: ...

    def rotate(self, name: str, grace_ms: int | None) -> NewKey: ...

    def retire(self, name: str) -> Key: ...

    def list(self) -> Sequence[Key]: ...

    def revoke(self, name: str) -> None: ...

    def find(self, secret: str) -> Key | None:
        """The key with this secret."""

    def aws_secret(self, name: str) -> str:
        """Raises KeyNotFound, also for a key that was revoked."""


def key_source(
    store: str | None,
    path: str | None,
    url: str | None,
    api_key: str | None,
    cacert: str | None,
    pepper: str | None = None,
) -> KeySource:
    """As the command line says, else the server in PENSTOCK_URL, else the store that a server would have here."""
    named = click.get_current_context().get_parameter_source("url")
    if store is not None or path is not None:
        if url is not None and named is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError("--url asks a server, --store and --config open a store: give only one of them")
        url = None
    if url is None:
        return StoreKeys(store, path, pepper)
    if pepper is not None:
        raise click.UsageError("--sigv4-pepper is for a store that is opened here: a server has its own")
    return ServerKeys(url, api_key, cacert)


class ServerKeys:
    def __init__(self, url: str, api_key: str | None, cacert: str | None) -> None:
        self._url, self._api_key, self._cacert = url, api_key, cacert

    def create(self, name: str, rules: tuple[str, ...], expires_at: int | None = None) -> NewKey:
        return self._ask(lambda client: client.create_key(name, rules, expires_at))

    def update(self, name: str, expires_at: int | None) -> Key:
        return self._ask(lambda client: client.update_key(name, expires_at))

    def rotate(self, name: str, grace_ms: int | None) -> NewKey:
        return self._ask(lambda client: client.rotate_key(name, grace_ms))

    def retire(self, name: str) -> Key:
        return self._ask(lambda client: client.retire_secret(name))

    def list(self) -> Sequence[Key]:
        return self._ask(lambda client: client.keys())

    def revoke(self, name: str) -> None:
        self._ask(lambda client: client.revoke_key(name))

    def find(self, secret: str) -> Key | None:  # noqa: ARG002
        raise click.UsageError("a server does not look for a key by its secret: give --name, or open the --store")

    def aws_secret(self, name: str) -> str:  # noqa: ARG002
        raise click.UsageError("a server tells the AWS secret of a key only when it makes the key: open the --store")

    def _ask(self, work: Callable[[Client], T]) -> T:
        with connect(self._url, self._api_key, cacert=self._cacert) as client:
            return work(client)


class StoreKeys:
    def __init__(self, store: str | None, path: str | None, pepper: str | None = None) -> None:
        """Raises InvalidSetting for a store that keeps no keys."""
        from penstock.errors import InvalidSetting
        from penstock.server.config import load
        from penstock.stores.kinds import kind_of
        from penstock.stores.protocol import NOUNS

        config = load({"store": store, "sigv4_pepper": pepper}, os.environ, path=path).config
        self._url, self._pepper = config.store, config.sigv4_pepper
        kind = kind_of(self._url)
        if not kind.is_shared:
            raise InvalidSetting(
                f"{kind.example} forgets its keys with this command: ask the server with --url, or name another store"
            )
        if "keys" in kind.missing:
            raise InvalidSetting(f"{kind.name} does not keep {NOUNS['keys']}")

    def create(self, name: str, rules: tuple[str, ...], expires_at: int | None = None) -> NewKey:
        from penstock import keys, model
        from penstock.broker.keys import CreateKey
        from penstock.client import NewKey
        from penstock.clock import system_clock
        from penstock.limits import Limits
        from penstock.stores import store_exists

        secret, now = keys.mint(), system_clock()
        made = not store_exists(self._url)

        def create(unit: Unit, store_secret: bytes) -> tuple[bool, str]:
            digest = keys.digest(store_secret, secret.encode())
            made = CreateKey(name, digest, rules, expires_at, model.Actor(None, _VIA)).apply(unit, now, Limits())
            return made.first, keys.aws_secret(store_secret, self._pepper, digest)

        first, aws_secret = self._work(create)
        more = [f"there was no store at {self._place()}: it was made, with this key"] if made else []
        warning = "; ".join([*more, *([keys.FIRST_KEY] if first else [])])
        return NewKey(name, list(rules), now, secret, warning or None, name, aws_secret, expires_at)

    def update(self, name: str, expires_at: int | None) -> Key:
        from penstock import model
        from penstock.broker.keys import UpdateKey
        from penstock.clock import system_clock
        from penstock.limits import Limits

        task = UpdateKey(name, expires_at, model.Actor(None, _VIA))
        return self._work_on_existing(lambda unit, _secret: _without_digest(task.apply(unit, system_clock(), Limits())))

    def rotate(self, name: str, grace_ms: int | None) -> NewKey:
        from penstock import keys, model
        from penstock.broker.keys import RotateKey
        from penstock.client import NewKey
        from penstock.clock import system_clock
        from penstock.limits import Limits

        secret = keys.mint()

        def rotate(unit: Unit, store_secret: bytes) -> tuple[Key, str]:
            digest = keys.digest(store_secret, secret.encode())
            task = RotateKey(name, digest, grace_ms, model.Actor(None, _VIA))
            key = _without_digest(task.apply(unit, system_clock(), Limits()))
            return key, keys.aws_secret(store_secret, self._pepper, digest)

        key, aws_secret = self._work_on_existing(rotate)
        known = key.name, key.rules, key.created_at
        return NewKey(*known, secret, None, name, aws_secret, key.expires_at, key.old_secret)

    def retire(self, name: str) -> Key:
        from penstock import model
        from penstock.broker.keys import RetireSecret
        from penstock.clock import system_clock
        from penstock.limits import Limits

        task = RetireSecret(name, model.Actor(None, _VIA))
        return self._work_on_existing(lambda unit, _secret: _without_digest(task.apply(unit, system_clock(), Limits())))

    def list(self) -> Sequence[Key]:
        return self._work_on_existing(lambda unit, _secret: [_without_digest(key) for key in _kept(unit)], write=False)

    def revoke(self, name: str) -> None:
        from penstock import model
        from penstock.broker.keys import RevokeKey
        from penstock.clock import system_clock
        from penstock.limits import Limits

        task = RevokeKey(name, model.Actor(None, _VIA))
        self._work_on_existing(lambda unit, _secret: task.apply(unit, system_clock(), Limits()))

    def find(self, secret: str) -> Key | None:
        from penstock import keys
        from penstock.clock import system_clock

        def find(unit: Unit, store_secret: bytes) -> Key | None:
            digest = keys.digest(store_secret, secret.encode())
            now = system_clock()
            return next((_without_digest(key) for key in _kept(unit) if digest in key.good_digests(now)), None)

        return self._work_on_existing(find, write=False)

    def aws_secret(self, name: str) -> str:
        from penstock import keys
        from penstock.errors import KeyNotFound

        def find(unit: Unit, store_secret: bytes) -> str:
            for key in _kept(unit):
                if key.name == name and key.revoked_at is None:
                    return keys.aws_secret(store_secret, self._pepper, key.digest)
            raise KeyNotFound(name)

        return self._work_on_existing(find, write=False)

    def _work_on_existing(self, work: Callable[[Unit, bytes], T], write: bool = True) -> T:
        from penstock.errors import InvalidSetting
        from penstock.stores import store_exists

        # Opening would make one, and a store that was looked for in the wrong place would look like an empty one.
        if not store_exists(self._url):
            raise InvalidSetting(
                f"there is no store at {self._place()}: name it with --store, or ask its server with --url"
            )
        return self._work(work, write)

    def _place(self) -> str:
        from penstock.server.config import place_of

        return place_of(self._url)

    def _work(self, work: Callable[[Unit, bytes], T], write: bool = True) -> T:
        from penstock.stores import open_store

        opened = open_store(self._url)
        try:
            with opened.unit(write) as unit:
                return work(unit, opened.secret)
        finally:
            opened.close()


def _kept(unit: Unit) -> Sequence[model.Key]:
    from penstock.stores.protocol import needed

    return needed(unit.keys, "keys").list()


def _without_digest(key: model.Key) -> Key:
    """As the client tells it, wherever it comes from."""
    from penstock.client import Key, OldSecret
    from penstock.clock import system_clock

    now = system_clock()
    old = key.old_secret(now)
    return Key(
        key.name,
        list(key.rules),
        key.created_at,
        key.revoked_at,
        key.expires_at,
        key.state(now).value,
        key.last_used_at,
        key.rotated_at,
        None if old is None else OldSecret(old.until, old.last_used_at),
    )
