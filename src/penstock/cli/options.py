"""Options and types that several commands share."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from penstock.cli.text import parse_duration

if TYPE_CHECKING:
    from penstock.client import Client

DEFAULT_URL = "http://127.0.0.1:8080"
_COMPLETION_TIMEOUT_S = 1
_COMPLETION_NAMES = 1000

Command = Callable[..., int | None]


def talks_to_server(command: Command) -> Command:
    """Adds `--url`, `--api-key` and `--json`; the command gets an open client as its first argument."""

    @click.option("--url", envvar="PENSTOCK_URL", default=DEFAULT_URL, show_default=True, show_envvar=True,
                  help="Address of the server.")  # fmt: skip
    @click.option("--api-key", envvar="PENSTOCK_API_KEY", metavar="KEY", show_envvar=True, help="Key for the server.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @functools.wraps(command)
    def with_client(url: str, api_key: str | None, **rest: Any) -> int | None:
        with connect(url, api_key) as client:
            return command(client, **rest)

    return with_client


def connect(url: str, api_key: str | None, timeout_s: float = 30) -> Client:
    from penstock.client import Client

    try:
        return Client(url, api_key, timeout_s)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


class QueueName(click.ParamType[str]):
    """A name as typed; completed from the server, when it answers."""

    name = "queue"

    def shell_complete(
        self,
        ctx: click.Context,
        _param: click.Parameter,
        incomplete: str,
    ) -> list[CompletionItem[str]]:
        from penstock.client import ClientError

        try:
            with connect(
                ctx.params.get("url") or DEFAULT_URL, ctx.params.get("api_key"), _COMPLETION_TIMEOUT_S
            ) as client:
                names = [queue.name for queue in islice(client.queues(), _COMPLETION_NAMES)]
        except (ClientError, click.UsageError):
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class Duration(click.ParamType[int]):
    """`30s` on the command line, milliseconds inside."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


queue_argument = click.argument("queue", type=QueueName())
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirmed(question: str, yes: bool) -> bool:
    """Asks on a terminal; without one, only `--yes` will do."""
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: add --yes")
    return click.confirm(question, err=True)
