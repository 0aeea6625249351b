"""`penstock key`: API keys, in a store or through its server."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli.key_source import KeySource, key_source
from penstock.cli.options import cacert_option
from penstock.cli.output import note, print_json, print_table
from penstock.cli.program import NOT_ALL_DONE

if TYPE_CHECKING:
    from penstock.client import Key, NewKey

Command = Callable[..., int | None]
T = TypeVar("T")


def _finds_keys(command: Command) -> Command:
    """Adds the options that say where the keys are; the command gets their source as its first argument."""

    @click.option("--store", metavar="URL", help="Open this store.  [default: as 'penstock serve' would have it here]")
    @click.option("--config", "path", metavar="PATH", help="Open the store that this file of settings names.")
    @click.option("--url", envvar="PENSTOCK_URL", show_envvar=True, help="Ask the server at this address instead.")
    @click.option("--api-key", envvar="PENSTOCK_API_KEY", metavar="KEY", show_envvar=True,
                  help="Key for the server, with admin on every queue.")  # fmt: skip
    @cacert_option
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @functools.wraps(command)
    def with_source(
        store: str | None,
        path: str | None,
        url: str | None,
        api_key: str | None,
        cacert: str | None,
        sigv4_pepper: str | None = None,
        **rest: Any,
    ) -> int | None:
        return command(key_source(store, path, url, api_key, cacert, sigv4_pepper), **rest)

    return with_source


_pepper_option = click.option(
    "--sigv4-pepper",
    metavar="TEXT",
    help="As 'penstock serve' has it: goes into the AWS secrets of this store.  [default: as it would have it here]",
)


_aws_option = click.option("--aws", is_flag=True, help="Show what clients of SQS sign with instead, as two variables.")
# What is told of a key together with its secrets.
_TOLD = ("name", "rules", "expires_at", "old_secret", "secret", "aws_access_key_id", "aws_secret_access_key")


@click.group()
def key() -> None:
    """API keys: who may do what on which queues.

    As soon as a store has a key, every request needs one. A rule is queue|ACTION|NAME; ACTION is post, poll,
    get_status, admin or *, and * in NAME stands for anything. A running server notices a change within a second.

    The keys are in the store that 'penstock serve' would have here, which these commands open themselves; or at a
    running server, with --url.
    """


@key.command()
@click.option("--name", required=True, help="What to call the key; never used again.")
@click.option("--allow", "rules", multiple=True, required=True, metavar="RULE", help="What it may do.  [repeatable]")
@click.option("--expires", metavar="WHEN", help="Refuse it from then on: 90d, 2027-05-01, never.  [default: never]")
@_aws_option
@_pepper_option
@_finds_keys
def create(source: KeySource, name: str, rules: tuple[str, ...], expires: str | None, aws: bool, as_json: bool) -> None:
    """Make a key and show its secret, once.

    Where there is no store yet, it is made.
    """
    from penstock import keys

    name, rules = _checked("--name", keys.check_name, name), _checked("--allow", keys.check_rules, rules)
    made = source.create(name, rules, _expiry(expires))
    if made.warning:
        note(made.warning)
    _show_secrets(made, aws, as_json)


def _show_secrets(made: NewKey, aws: bool, as_json: bool) -> None:
    name = made.name
    if as_json:
        shown = asdict(made)
        print_json({word: shown[word] for word in _TOLD if word in ("name", "rules") or shown[word] is not None})
        return
    if aws and made.aws_secret_access_key is not None:
        _show_variables(name, made.aws_secret_access_key)
        note(f"where the store is, 'penstock key aws {name}' shows this again")
        return
    if aws:
        note("this server is older than the SQS API: the key has no AWS secret")
    click.echo(made.secret)
    note(f"this is the only time the secret of {name} is shown")


@key.command()
@click.argument("name")
@click.option("--expires", metavar="WHEN", required=True, help="Refuse it from then on: 90d, 2027-05-01, never.")
@_finds_keys
def update(source: KeySource, name: str, expires: str, as_json: bool) -> None:
    """Change when a key expires.

    One that has expired is good again, until then.
    """
    changed = source.update(name, _expiry(expires))
    if as_json:
        print_json(asdict(changed))
    else:
        click.echo(f"{name} expires on {_day(changed.expires_at)}" if changed.expires_at else f"{name} never expires")


@key.command()
@click.argument("name")
@click.option("--grace", metavar="DURATION", help="How long the old secret is good as well.  [default: until retired]")
@_aws_option
@_pepper_option
@_finds_keys
def rotate(source: KeySource, name: str, grace: str | None, aws: bool, as_json: bool) -> None:
    """Give a key a new secret and show it, once.

    The old one is good as well until 'penstock key retire', or for as long as --grace says: give all who use the key
    the new one meanwhile. With --grace 0 the old one is refused at once.
    """
    made = source.rotate(name, _grace(grace))
    _show_secrets(made, aws, as_json)
    if as_json:
        return
    if made.old_secret is None:
        note("the old secret is refused from now on")
    elif made.old_secret.until is None:
        note(f"the old secret is good as well until 'penstock key retire {name}'")
    else:
        note(f"the old secret is good as well until {_day(made.old_secret.until)}")


@key.command()
@click.argument("name")
@_finds_keys
def retire(source: KeySource, name: str, as_json: bool) -> None:
    """Refuse the old secret of a key that was rotated, from now on."""
    retired = source.retire(name)
    if as_json:
        print_json(asdict(retired))
    else:
        click.echo(f"{name} has one secret")


@key.command("aws")
@click.argument("name")
@_pepper_option
@_finds_keys
def aws_(source: KeySource, name: str, as_json: bool) -> None:
    """Show what clients of SQS sign with, as two variables.

    Only where the store is: a server tells it once, when it makes the key.
    """
    secret = source.aws_secret(name)
    if as_json:
        print_json({"aws_access_key_id": name, "aws_secret_access_key": secret})
    else:
        _show_variables(name, secret)


@key.command("list")
@_finds_keys
def list_(source: KeySource, as_json: bool) -> None:
    """Show all keys and their rules, never their secrets."""
    found = source.list()
    if as_json:
        print_json([asdict(one) for one in found])
        return
    rows = [
        (
            one.name,
            _state(one),
            _day(one.created_at),
            _day(one.expires_at) or "never",
            _day(one.last_used_at) or "never",
            ", ".join(one.rules),
        )
        for one in found
    ]
    print_table(rows, ("name", "state", "created", "expires", "last used", "rules"))


@key.command()
@click.argument("name")
@_finds_keys
def revoke(source: KeySource, name: str, as_json: bool) -> None:
    """Refuse a key from now on, for good."""
    source.revoke(name)
    if as_json:
        print_json({"revoked": name})
    else:
        click.echo(f"revoked {name}")


@key.command()
@click.option("--name", help="The key, by its name.")
@click.option("--secret", help="The key, by its secret; '-' reads it from standard input.")
@click.option("--action", required=True, help="What is to be done: post, poll, get_status or admin.")
@click.option("--queue", required=True, help="On which queue; * stands for every queue.")
@_finds_keys
def check(
    source: KeySource, name: str | None, secret: str | None, action: str, queue: str, as_json: bool
) -> int | None:
    """Say which rule of a key permits something, or why it is not permitted."""
    from penstock import keys

    if action not in keys.ACTIONS:
        raise click.UsageError(f"--action is one of {', '.join(keys.ACTIONS)}")
    if (name is None) == (secret is None):
        raise click.UsageError("give either --name or --secret")
    if secret == "-":  # noqa: S105
        secret = sys.stdin.readline().strip()
    if secret is not None:
        found = source.find(secret)
    else:
        found = next((one for one in source.list() if one.name == name), None)
    rule = None if found is None else keys.permitting_rule(found.rules, action, queue)
    if found is None:
        verdict = "not permitted: there is no such key"
    elif found.revoked_at is not None:
        rule, verdict = None, f"not permitted: {found.name} was revoked on {_day(found.revoked_at)}"
    elif found.state == "expired":
        rule, verdict = None, f"not permitted: {found.name} expired on {_day(found.expires_at)}"
    elif rule is None:
        verdict = f"not permitted: no rule of {found.name} is about {action} on {queue} ({', '.join(found.rules)})"
    else:
        verdict = f"permitted by {rule}"
    if as_json:
        print_json({"permitted": bool(rule), "rule": rule or None, "verdict": verdict})
    else:
        click.echo(verdict)
    return None if rule else NOT_ALL_DONE


def _state(key: Key) -> str:
    """With the instant for a key that was revoked, and what is to be known of its old secret for one that is good."""
    if key.revoked_at is not None:
        return f"revoked {_day(key.revoked_at)}"
    if key.state != "in force" or key.old_secret is None:
        return key.state
    until = key.old_secret.until
    return f"{key.state}, old secret until {'retired' if until is None else _day(until)}"


def _expiry(text: str | None) -> int | None:
    from penstock.clock import system_clock
    from penstock.durations import parse_expiry

    try:
        return None if text is None else parse_expiry(text, system_clock())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--expires'") from error


def _grace(text: str | None) -> int | None:
    from penstock import limits
    from penstock.durations import duration_within

    try:
        return None if text is None else duration_within(text, 0, limits.DURATION_MS)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--grace'") from error


def _show_variables(name: str, secret: str) -> None:
    click.echo(f"AWS_ACCESS_KEY_ID={name}")
    click.echo(f"AWS_SECRET_ACCESS_KEY={secret}")


def _checked(option: str, check: Callable[[T], T], value: T) -> T:
    from penstock.errors import InvalidRequest

    try:
        return check(value)
    except InvalidRequest as error:
        raise click.BadParameter(str(error), param_hint=f"'{option}'") from error


def _day(instant: int | None) -> str:
    return "" if instant is None else datetime.fromtimestamp(instant / 1000, UTC).strftime("%Y-%m-%d %H:%M")
