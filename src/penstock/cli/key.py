"""`penstock key`: API keys. These commands open the store itself, so that the first key needs no server and no key."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import click

from penstock.cli.output import note, print_json, print_table
from penstock.cli.program import NOT_ALL_DONE

if TYPE_CHECKING:
    from penstock.model import Key
    from penstock.stores.protocol import Unit

T = TypeVar("T")

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _store_options(command: Callable[..., T]) -> Callable[..., T]:
    command = click.option("--config", "path", metavar="PATH", help="File to read settings from.")(command)
    return click.option("--store", metavar="URL", help="The store.  [default: as 'penstock serve' would have it here]")(
        command
    )


@click.group()
def key() -> None:
    """API keys: who may do what on which queues.

    As soon as a store has a key, every request needs one. A rule is queue|ACTION|NAME; ACTION is post, poll,
    get_status, admin or *, and * in NAME stands for anything. A running server notices a change within a second.
    """


@key.command()
@click.option("--name", required=True, help="What to call the key; never used again.")
@click.option("--allow", "rules", multiple=True, required=True, metavar="RULE", help="What it may do.  [repeatable]")
@_store_options
@_json
def create(name: str, rules: tuple[str, ...], store: str | None, path: str | None, as_json: bool) -> None:
    """Make a key and show its secret, once."""
    from penstock import keys
    from penstock.clock import system_clock
    from penstock.model import Key

    name, rules, secret = keys.check_name(name), keys.check_rules(rules), keys.mint()

    def create(unit: Unit, store_secret: bytes) -> None:
        unit.create_key(Key(name, keys.digest(store_secret, secret.encode()), rules, system_clock()))

    _in_store(store, path, create)
    if as_json:
        print_json({"name": name, "rules": rules, "secret": secret})
        return
    click.echo(secret)
    note(f"this is the only time the secret of {name} is shown")


@key.command("list")
@_store_options
@_json
def list_(store: str | None, path: str | None, as_json: bool) -> None:
    """Show all keys and their rules, never their secrets."""
    found = _in_store(store, path, lambda unit, _secret: unit.list_keys(), write=False)
    if as_json:
        print_json([_shown(one) for one in found])
        return
    rows = [(one.name, _day(one.created_at), _day(one.revoked_at), ", ".join(one.rules)) for one in found]
    print_table(rows, ("name", "created", "revoked", "rules"))


@key.command()
@click.argument("name")
@_store_options
@_json
def revoke(name: str, store: str | None, path: str | None, as_json: bool) -> None:
    """Refuse a key from now on, for good."""
    from penstock.clock import system_clock

    _in_store(store, path, lambda unit, _secret: unit.revoke_key(name, system_clock()))
    if as_json:
        print_json({"revoked": name})
    else:
        click.echo(f"revoked {name}")


@key.command()
@click.option("--name", help="The key, by its name.")
@click.option("--secret", help="The key, by its secret; '-' reads it from standard input.")
@click.option("--action", required=True, help="What somebody wants to do: post, poll, get_status or admin.")
@click.option("--queue", required=True, help="On which queue; * stands for every queue.")
@_store_options
@_json
def check(
    name: str | None, secret: str | None, action: str, queue: str, store: str | None, path: str | None, as_json: bool
) -> int | None:
    """Say which rule of a key permits something, or why it is not permitted."""
    from penstock import keys

    if action not in keys.ACTIONS:
        raise click.UsageError(f"--action is one of {', '.join(keys.ACTIONS)}")
    if (name is None) == (secret is None):
        raise click.UsageError("give either --name or --secret")
    if secret == "-":  # noqa: S105
        secret = sys.stdin.readline().strip()

    def find(unit: Unit, store_secret: bytes) -> Key | None:
        digest = keys.digest(store_secret, secret.encode()) if secret is not None else None
        return next((one for one in unit.list_keys() if one.name == name or one.digest == digest), None)

    found = _in_store(store, path, find, write=False)
    rule = None if found is None else keys.permitting_rule(found.rules, action, queue)
    if found is None:
        verdict = "not permitted: there is no such key"
    elif found.revoked_at is not None:
        rule, verdict = None, f"not permitted: {found.name} was revoked on {_day(found.revoked_at)}"
    elif rule is None:
        verdict = f"not permitted: no rule of {found.name} is about {action} on {queue} ({', '.join(found.rules)})"
    else:
        verdict = f"permitted by {rule}"
    if as_json:
        print_json({"permitted": bool(rule), "rule": rule or None, "verdict": verdict})
    else:
        click.echo(verdict)
    return None if rule else NOT_ALL_DONE


def _in_store(store: str | None, path: str | None, work: Callable[[Unit, bytes], T], write: bool = True) -> T:
    from penstock.errors import InvalidSetting
    from penstock.server.config import load
    from penstock.stores import open_store

    url = load({"store": store}, os.environ, path=path).config.store
    if url.startswith("memory:"):
        raise InvalidSetting("memory:// forgets its keys with this command: name the store of a server with --store")
    opened = open_store(url)
    try:
        with opened.unit(write) as unit:
            return work(unit, opened.secret)
    finally:
        opened.close()


def _shown(key: Key) -> dict[str, object]:
    return {"name": key.name, "rules": key.rules, "created_at": key.created_at, "revoked_at": key.revoked_at}


def _day(instant: int | None) -> str:
    return "" if instant is None else datetime.fromtimestamp(instant / 1000, UTC).strftime("%Y-%m-%d %H:%M")
