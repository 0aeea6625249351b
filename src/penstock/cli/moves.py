"""`penstock moves`: which there are, how they go, and how to end one."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock import limits
from penstock.cli.options import talks_to_server
from penstock.cli.output import note, print_json, print_table
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import instant, number, plural

if TYPE_CHECKING:
    from penstock.client import Client, Move

_HOME = "(home)"
_id_argument = click.argument("move_id", metavar="ID")


@click.group()
def moves() -> None:
    """List, show and cancel moves between queues."""


@moves.command("list")
@click.option(
    "--limit", type=click.IntRange(1, limits.LIST_LIMIT), default=100, show_default=True, help="Moves at most."
)
@talks_to_server
def list_moves(client: Client, limit: int, as_json: bool) -> int | None:
    """List moves that are in progress or ended within a day, the latest first."""
    found = client.moves(limit)
    if as_json:
        print_json({"moves": [move_as_json(move) for move in found]})
    elif found:
        header = ("id", "source", "target", "status", "examined", "matched", "moved")
        print_table([_row(move) for move in found], header, right=("examined", "matched", "moved"))
    else:
        note("there are no moves")
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
    """End a move: what has moved stays moved."""
    before = client.find_move(move_id)
    move = client.cancel_move(move_id)
    ended = before.status != "in-progress" or move.status != "cancelled"
    if as_json:
        print_json(move_as_json(move))
    elif ended:
        note(f"the move had ended before: {summary(move)}")
    else:
        click.echo(summary(move))
    return NOT_ALL_DONE if ended else None


def move_as_json(move: Move) -> dict[str, object]:
    return asdict(move)


def summary(move: Move) -> str:
    if move.status == "error":
        return f"stopped after {plural(move.moved, 'message')}: {move.error}"
    if move.dry_run:
        return f"would move {plural(move.matched - move.homeless, 'message')} of {number(move.examined)}"
    done = "moved" if move.status == "complete" else f"{move.status.replace('-', ' ')}: moved"
    return f"{done} {plural(move.moved, 'message')}"


def _row(move: Move) -> tuple[str, ...]:
    counts = (number(move.examined), number(move.matched), number(move.moved))
    return (move.id, move.source, move.target or _HOME, _status(move), *counts)


def _status(move: Move) -> str:
    return f"{move.status} (dry run)" if move.dry_run else move.status


def _print(move: Move, as_json: bool) -> None:
    if as_json:
        print_json(move_as_json(move))
        return
    rows = {
        "id": move.id,
        "source": move.source,
        "target": move.target or _HOME,
        "filter": ", ".join(f"{name} {value}" for name, value in move.filter.items()) or "none",
        "limit": "none" if move.limit is None else number(move.limit),
        "per second": "any" if move.per_second is None else number(move.per_second),
        "status": _status(move),
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
