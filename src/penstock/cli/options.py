"""Options and types that several commands share."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from penstock import limits
from penstock.clock import system_clock
from penstock.durations import duration_within, parse_instant

if TYPE_CHECKING:
    from ssl import SSLContext

    from penstock.client import Client

DEFAULT_URL = "http://127.0.0.1:8080"
_COMPLETION_TIMEOUT_S = 1
_COMPLETION_NAMES = 1000

_DURATIONS = "A DURATION is written like 500ms, 30s, 5m, 2h, 1d or 1h30m; 'forever' is the longest."

Command = Callable[..., int | None]


cacert_option = click.option(
    "--cacert",
    envvar="PENSTOCK_CACERT",
    show_envvar=True,
    metavar="PATH",
    help="Trust the certificates in this file, instead of the system's.",
)


def talks_to_server(command: Command) -> Command:
    """Adds `--url`, `--api-key` and `--json`; the command gets an open client as its first argument."""

    @click.option("--url", envvar="PENSTOCK_URL", default=DEFAULT_URL, show_default=True, show_envvar=True,
                  help="Address of the server.")  # fmt: skip
    @click.option("--api-key", envvar="PENSTOCK_API_KEY", metavar="KEY", show_envvar=True, help="Key for the server.")
    @cacert_option
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @functools.wraps(command)
    def with_client(url: str, api_key: str | None, cacert: str | None, **rest: Any) -> int | None:
        from penstock.client import InvalidRequest

        try:
            with connect(url, api_key, cacert=cacert) as client:
                return command(client, **rest)
        except InvalidRequest as error:
            raise InvalidRequest(_in_options(str(error)), error.status) from error

    return with_client


def _in_options(text: str) -> str:
    """What a server says about `delay_ms`, in the words of the command: `--delay`. The beginning of `queue.purge` is
    another word."""
    for param in click.get_current_context().command.params:
        if isinstance(param, click.Option) and param.name:
            text = re.sub(rf"(?<![\w.-]){param.name}(?![\w-]|\.\w)", param.opts[0], text)
    return text


def connect(url: str, api_key: str | None, timeout_s: float = 30, cacert: str | None = None) -> Client:
    from penstock.client import Client

    try:
        return Client(url, api_key, timeout_s, tls=_trusting(cacert) if cacert else None)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _trusting(path: str) -> SSLContext:
    """Certificates signed by the authorities in this file, and no others."""
    from ssl import SSLError, create_default_context

    try:
        return create_default_context(cafile=path)
    except (OSError, SSLError) as error:
        raise click.UsageError(f"--cacert {path} cannot be used: {error.strerror or error}") from error


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
                ctx.params.get("url") or DEFAULT_URL,
                ctx.params.get("api_key"),
                _COMPLETION_TIMEOUT_S,
                ctx.params.get("cacert"),
            ) as client:
                names = [queue.name for queue in islice(client.queues(count=False), _COMPLETION_NAMES)]
        except (ClientError, click.UsageError):
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class Duration(click.ParamType[int]):
    """`30s` on the command line, milliseconds inside; from `least` to `most` of them."""

    name = "duration"

    def __init__(self, least: int = 0, most: int = limits.DURATION_MS) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return duration_within(value, self._least, self._most)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class WholeNumber(click.IntRange):
    """A range of numbers, as its help shows it, and a refusal that does not call the number a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number", param, ctx)
        return super().convert(value, param, ctx)


class KeyValue(click.ParamType[tuple[str, str]]):
    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        key, equals, text = str(value).partition("=")
        if not key or not equals:
            self.fail(f"{value!r} is not of the form key=value", param, ctx)
        return key, text


class Instant(click.ParamType[int]):
    """`2026-05-01`, `2026-05-01T12:30`, or `2h` for two hours ago; milliseconds since the epoch inside."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_instant(value, system_clock())
        except ValueError as error:
            self.fail(str(error), param, ctx)


def explain_durations(command: click.Command) -> None:
    """Say how a duration is written below the help of every command that takes one."""
    for child in getattr(command, "commands", {}).values():
        explain_durations(child)
    if any(isinstance(param.type, Duration) for param in command.params):
        command.epilog = _DURATIONS


queue_argument = click.argument("queue", type=QueueName())
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirmed(question: str, yes: bool) -> bool:
    """Asks on a terminal; without one, only `--yes` will do."""
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: add --yes")
    return click.confirm(question, err=True)
