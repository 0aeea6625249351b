"""`penstock move` and `penstock redrive`: messages into another queue, and dead letters home."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from penstock import limits
from penstock.cli.moves import move_as_json, summary
from penstock.cli.options import Duration, QueueName, queue_argument, talks_to_server
from penstock.cli.output import note, on_terminal, print_json
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import number, plural

if TYPE_CHECKING:
    from penstock.client import Client, Move, MoveTerms

_RECEIVES = click.IntRange(0, limits.INT32_MAX)


class JsonCondition(click.ParamType[Any]):
    """`$.order.id=7`: a path, and the value that stands there, as JSON or as plain text."""

    name = "path=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, object]:
        path, equals, text = value.partition("=")
        if not equals:
            self.fail(f"{value!r} is not like $.order.id=7", param, ctx)
        from penstock.selection import parse_path

        try:
            parse_path(path)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        try:
            wanted = json.loads(text)
        except ValueError:
            wanted = text
        if isinstance(wanted, dict | list):
            self.fail(f"{text!r} is not text, a number, true, false or null", param, ctx)
        return {"path": path, "value": wanted}


_OPTIONS = (
    click.option("--older-than", "older_than_ms", type=Duration(), help="Only those sent at least so long ago."),
    click.option("--newer-than", "newer_than_ms", type=Duration(), help="Only those sent less long ago."),
    click.option("--min-receives", type=_RECEIVES, metavar="N", help="Only those received so often or more."),
    click.option("--max-receives", type=_RECEIVES, metavar="N", help="Only those received so often or less."),
    click.option("--content-type", metavar="TYPE", help="Only those of this media type."),
    click.option("--text", metavar="TEXT", help="Only those with this text in their body."),
    click.option("--where", "json", type=JsonCondition(), help="Only those with this value in their JSON body."),
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="So many at most."),
    click.option(
        "--per-second", type=click.IntRange(1, limits.MOVES_PER_SECOND), metavar="N", help="No faster than this."
    ),
    click.option("--dry-run", is_flag=True, help="Count what would move, and move nothing."),
    click.option("--detach", is_flag=True, help="Print the id of the move, and do not wait for its end."),
)


def _terms_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("source", type=QueueName())
@click.argument("target", type=QueueName())
@_terms_options
@talks_to_server
def move(client: Client, source: str, target: str, as_json: bool, detach: bool, **terms: Any) -> int | None:
    """Move messages from one queue into another. What is claimed stays."""
    return _watch(client, client.move(source, target, **_given(terms)), as_json, detach)


@click.command()
@queue_argument
@_terms_options
@talks_to_server
def redrive(client: Client, queue: str, as_json: bool, detach: bool, **terms: Any) -> int | None:
    """Move dead letters back to the queues they came from."""
    return _watch(client, client.redrive(queue, **_given(terms)), as_json, detach)


def _given(terms: dict[str, Any]) -> MoveTerms:
    given: MoveTerms = {name: value for name, value in terms.items() if value is not None}  # type: ignore[assignment]
    return given


def _watch(client: Client, started: Move, as_json: bool, detach: bool) -> int | None:
    """The move goes on in the server, whether anybody watches or not."""
    if detach:
        print_json(move_as_json(started)) if as_json else click.echo(started.id)
        return None
    move = started
    try:
        for move in client.follow_move(started.id, every_s=0.1):
            if on_terminal() and not as_json:
                click.echo(f"\r{number(move.examined)} looked at, {number(move.moved)} moved", nl=False, err=True)
    except KeyboardInterrupt:
        note(f"the move goes on; 'penstock moves cancel {started.id}' ends it")
        raise
    finally:
        if on_terminal() and not as_json:
            click.echo("\r\033[K", nl=False, err=True)
    if as_json:
        print_json(move_as_json(move))
    else:
        click.echo(summary(move))
        if move.homeless:
            note(f"{plural(move.homeless, 'message')} without a queue to go back to: left in {move.source}")
    return None if move.status == "complete" else NOT_ALL_DONE
