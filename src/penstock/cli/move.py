"""`penstock move`, `redrive`, `delete-matching`, `release-matching` and `moves`: what is done to many messages in the
background, and how that goes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from penstock import limits
from penstock.cli.options import (
    Duration,
    QueueName,
    WholeNumber,
    confirmed,
    queue_argument,
    talks_to_server,
    yes_option,
)
from penstock.cli.output import note, on_terminal, print_json, print_table
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import instant, number, plural

if TYPE_CHECKING:
    from penstock.client import Client, Move, MoveTerms, TaskTerms

_HOME = "(home)"
_RECEIVES = WholeNumber(0, limits.INT32_MAX)


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


class AttributeCondition(click.ParamType[Any]):
    """`kind=test`: an attribute and its value; or `kind`, whatever its value."""

    name = "name[=value]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        name, equals, text = value.partition("=")
        if not name:
            self.fail(f"{value!r} is not like kind=test", param, ctx)
        return {"name": name, "value": text} if equals else {"name": name}


_TASK_OPTIONS = (
    click.option("--older-than", "older_than_ms", type=Duration(), help="Only those sent at least this long ago."),
    click.option("--newer-than", "newer_than_ms", type=Duration(), help="Only those sent more recently than this."),
    click.option("--min-receives", type=_RECEIVES, metavar="N", help="Only those received at least N times."),
    click.option("--max-receives", type=_RECEIVES, metavar="N", help="Only those received at most N times."),
    click.option("--content-type", metavar="TYPE", help="Only those of this media type."),
    click.option("--text", metavar="TEXT", help="Only those with this text in their body."),
    click.option("--where", "json", type=JsonCondition(), help="Only those with this value in their JSON body."),
    click.option("--state", type=click.Choice(["ready", "delayed", "claimed"]), help="Only those in this state."),
    click.option("--attribute", type=AttributeCondition(), help="Only those with this attribute."),
    click.option("--limit", type=WholeNumber(min=1), metavar="N", help="At most N messages."),
    click.option(
        "--per-second", type=WholeNumber(1, limits.MOVES_PER_SECOND), metavar="N", help="No faster than this."
    ),
    click.option("--dry-run", is_flag=True, help="Only count what is meant."),
    click.option("--claimed", is_flag=True, help="Take claimed messages along."),
    click.option("--detach", is_flag=True, help="Print the id of the move, and do not wait for its end."),
)
_OPTIONS = (
    *_TASK_OPTIONS,
    click.option(
        "--as-new/--keep-age",
        "as_new",
        default=None,
        help="Give them a new id and age, or keep both.  [default: --as-new only where they go home]",
    ),
)


def _terms_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _task_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_TASK_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("source", type=QueueName())
@click.argument("target", type=QueueName())
@_terms_options
@talks_to_server
def move(client: Client, source: str, target: str, as_json: bool, detach: bool, **terms: Any) -> int | None:
    """Move messages from one queue into another. What is claimed stays.

    They keep their id and age, unless they are to arrive --as-new.
    """
    return _watch(client, client.move(source, target, **_given(terms)), as_json, detach)


@click.command()
@queue_argument
@_terms_options
@talks_to_server
def redrive(client: Client, queue: str, as_json: bool, detach: bool, **terms: Any) -> int | None:
    """Move dead letters back to the queues they came from.

    They arrive as if they were sent now, with a new id and a new age; with --keep-age, one that is older than its queue
    keeps messages expires there.
    """
    return _watch(client, client.redrive(queue, **_given(terms)), as_json, detach)


@click.command("delete-matching")
@queue_argument
@_task_options
@yes_option
@talks_to_server
def delete_matching(client: Client, queue: str, as_json: bool, detach: bool, yes: bool, **terms: Any) -> int | None:
    """Delete the messages of a queue that match. What is claimed stays, unless it is asked for."""
    if not terms["dry_run"] and not confirmed(f"Delete the messages of queue {queue} that match?", yes):
        note("nothing was deleted")
        return NOT_ALL_DONE
    return _watch(client, client.delete_matching(queue, **_task_terms(terms)), as_json, detach)


@click.command("release-matching")
@queue_argument
@_task_options
@talks_to_server
def release_matching(client: Client, queue: str, as_json: bool, detach: bool, **terms: Any) -> int | None:
    """End the claims on the messages of a queue that match: they are ready now."""
    return _watch(client, client.release_matching(queue, **_task_terms(terms)), as_json, detach)


def _given(terms: dict[str, Any]) -> MoveTerms:
    given: MoveTerms = {name: value for name, value in terms.items() if value is not None}  # type: ignore[assignment]
    return given


def _task_terms(terms: dict[str, Any]) -> TaskTerms:
    given: TaskTerms = {name: value for name, value in terms.items() if value is not None}  # type: ignore[assignment]
    return given


def _watch(client: Client, started: Move, as_json: bool, detach: bool) -> int | None:
    """The move goes on in the server, whether anybody watches or not."""
    if detach:
        print_json(asdict(started)) if as_json else click.echo(started.id)
        return None
    move = started
    try:
        for move in client.follow_move(started.id, every_s=0.1):
            if on_terminal() and not as_json:
                done = f"{number(move.moved)} {_DONE[move.action]}"
                click.echo(f"\r{number(move.examined)} looked at, {done}", nl=False, err=True)
    except KeyboardInterrupt:
        note(f"the move goes on; 'penstock moves cancel {started.id}' ends it")
        raise
    finally:
        if on_terminal() and not as_json:
            click.echo("\r\033[K", nl=False, err=True)
    if as_json:
        print_json(asdict(move))
    else:
        click.echo(summary(move))
        if move.homeless:
            note(f"{plural(move.homeless, 'message')} without a queue to go back to: left in {move.source}")
    return None if move.status == "complete" else NOT_ALL_DONE


_id_argument = click.argument("move_id", metavar="ID")


@click.group()
def moves() -> None:
    """List, show and cancel moves between queues."""


@moves.command("list")
@click.option("--limit", type=WholeNumber(1, limits.LIST_LIMIT), default=100, show_default=True, help="Moves at most.")
@click.option("--source", type=QueueName(), help="Only moves from this queue.")
@talks_to_server
def list_moves(client: Client, limit: int, source: str | None, as_json: bool) -> int | None:
    """List moves that are in progress or ended within a day, the latest first."""
    found = client.moves(limit, source)
    if as_json:
        print_json({"moves": [asdict(move) for move in found]})
    elif found:
        header = ("id", "source", "target", "status", "examined", "matched", "moved")
        print_table([_row(move) for move in found], header, right=("examined", "matched", "moved"))
    else:
        note("there are no moves" if source is None else f"there are no moves from queue {source}")
        return NOT_ALL_DONE
    return None


@moves.command()
@_id_argument
@talks_to_server
def show(client: Client, move_id: str, as_json: bool) -> None:
    """Show how far a move is, or how it ended."""
    _print(client.find_move(move_id), as_json)


@moves.command()
@_id_argument
@talks_to_server
def cancel(client: Client, move_id: str, as_json: bool) -> int | None:
    """End a move: what was done stays done."""
    before = client.find_move(move_id)
    move = client.cancel_move(move_id)
    ended = before.status != "in-progress" or move.status != "cancelled"
    if as_json:
        print_json(asdict(move))
    elif ended:
        note(f"the move had ended before: {summary(move)}")
    else:
        click.echo(summary(move))
    return NOT_ALL_DONE if ended else None


_DONE = {"move": "moved", "delete": "deleted", "release": "released"}


def summary(move: Move) -> str:
    if move.status == "error":
        return f"stopped after {plural(move.moved, 'message')}: {move.error}"
    if move.dry_run:
        return f"would {move.action} {plural(move.matched - move.homeless, 'message')} of {number(move.examined)}"
    verb = _DONE[move.action]
    done = verb if move.status == "complete" else f"{move.status.replace('-', ' ')}: {verb}"
    return f"{done} {plural(move.moved, 'message')}"


def _row(move: Move) -> tuple[str, ...]:
    counts = (number(move.examined), number(move.matched), number(move.moved))
    return (move.id, move.source, _target(move), _status(move), *counts)


def _target(move: Move) -> str:
    """Where they go, or what else becomes of them."""
    return move.target or (_HOME if move.action == "move" else f"({move.action})")


def _status(move: Move) -> str:
    return f"{move.status} (dry run)" if move.dry_run else move.status


def _print(move: Move, as_json: bool) -> None:
    if as_json:
        print_json(asdict(move))
        return
    rows = {
        "id": move.id,
        "source": move.source,
        "target": _target(move),
        "claimed": "yes" if move.claimed else "no",
        "filter": ", ".join(f"{name} {value}" for name, value in move.filter.items()) or "none",
        "limit": "none" if move.limit is None else number(move.limit),
        "per second": "any" if move.per_second is None else number(move.per_second),
        "as new": "yes" if move.as_new else "no",
        "status": _status(move),
        "total": number(move.total),
        "examined": number(move.examined),
        "matched": number(move.matched),
        "moved": number(move.moved),
        "homeless": number(move.homeless),
        "started": instant(move.started_at),
        "finished": "not yet" if move.finished_at is None else instant(move.finished_at),
    }
    if move.error is not None:
        rows["error"] = move.error
    print_table(list(rows.items()))
