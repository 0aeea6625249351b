"""`penstock queue`: list, create, show, update, pause, resume, delete."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from penstock import limits
from penstock.cli.listing import SORTS, Listing
from penstock.cli.listing import as_json as queue_as_json
from penstock.cli.options import (
    Duration,
    KeyValue,
    QueueName,
    WholeNumber,
    confirmed,
    queue_argument,
    talks_to_server,
    yes_option,
)
from penstock.cli.output import note, print_json, print_table
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import age, instant, number, plural
from penstock.cli.watch import watch as watch_this
from penstock.clock import system_clock
from penstock.durations import duration

if TYPE_CHECKING:
    from penstock.client import Client, Count, Queue, Settings


@click.group()
def queue() -> None:
    """List, create, show, update, pause, resume and delete queues."""


# The options of a queue's settings: flags, name inside, type, help, and what a new queue has.
_SETTINGS: tuple[tuple[str, str, click.ParamType[Any], str, str], ...] = (
    ("--visibility", "visibility_ms", Duration(), "How long a claim holds a message.", "30s"),
    ("--retention", "retention_ms", Duration(least=1), "How long a message is kept.", "forever"),
    ("--delay", "delay_ms", Duration(), "How long until a new message is ready.", "0s"),
    ("--dedup", "dedup", click.Choice(["off", "send", "claim", "window"]), "Where twins become one.", "off"),
    (
        "--dedup-window",
        "dedup_window_ms",
        Duration(limits.DEDUP_WINDOW_LEAST_MS, limits.DEDUP_WINDOW_MOST_MS),
        "How long twins are not stored, with --dedup window.",
        "5m",
    ),
    (
        "--dedup-scope",
        "dedup_scope",
        click.Choice(["queue", "group"]),
        "Where two messages can be twins, with --dedup window.",
        "queue",
    ),
    (
        "--ledger",
        "ledger",
        click.Choice(["off", "outcomes", "bodies"]),
        "What is kept of finished messages.",
        "outcomes",
    ),
    ("--max-receives", "max_receives", WholeNumber(1, limits.INT32_MAX), "Deliveries before dead-lettering.", ""),
    ("--dead-letter-queue", "dead_letter_queue", QueueName(), "Where messages go then.", "off"),
    (
        "--backoff",
        "backoff",
        Duration(least=1),
        "Wait after an unsuccessful claim; it doubles with each receive.",
        "off",
    ),
    ("--backoff-most", "backoff_most", Duration(least=1), "How long that wait becomes at most.", "1h"),
)
# Where `--backoff` is given alone.
_BACKOFF_MOST_MS = 3_600_000


def settings_options(command: Callable[..., Any], of_new: bool = False) -> Callable[..., Any]:
    command = click.option(
        "--label", "set_labels", type=KeyValue(), multiple=True, help="Set a label; may be repeated."
    )(command)
    for flag, name, kind, text, default in reversed(_SETTINGS):
        help = f"{text}  [default: {default}]" if of_new and default else text
        command = click.option(flag, name, type=kind, help=help)(command)
    return command


@queue.command("list")
@click.option("--settings", is_flag=True, help="Show how the queues are set, instead of how full they are.")
@click.option("--sort", type=click.Choice(SORTS), default="created", show_default=True,
              help="By this; the fullest first, or the one with the oldest message.")  # fmt: skip
@click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
@click.option("--every", "every_ms", type=Duration(least=100), default="2s", show_default=True, help="How often then.")
@talks_to_server
def list_queues(client: Client, settings: bool, sort: str, watch: bool, every_ms: int, as_json: bool) -> None:
    """List every queue, and how full it is."""
    listing = Listing(client, sort, (lambda found: _settings(found.settings)) if settings else None, as_json)
    if watch:
        watch_this(lambda: listing.show(in_lines=True), every_ms, as_json)
    else:
        listing.show()


@queue.command()
@queue_argument
@functools.partial(settings_options, of_new=True)
@click.option(
    "--groups",
    type=click.Choice(["off", "fifo"]),
    help="Whether messages of a group are kept in order; cannot be changed later.  [default: off]",
)
@click.option("--if-missing", is_flag=True, help="Leave a queue that exists as it is.")
@talks_to_server
def create(client: Client, queue: str, as_json: bool, if_missing: bool, **settings: Any) -> None:
    """Create a queue."""
    from penstock.client import QueueExists

    given = _given(**settings)
    try:
        created = client.create_queue(queue, **given)
    except QueueExists:
        if not if_missing:
            raise
        found = client.queue(queue)
        _print(found, as_json, f"queue {found.name} exists")
        differing = [name for name, value in given.items() if not _is_set(found.settings, name, value)]
        if "groups" in differing:
            note("it was created with other --groups, which cannot be changed")
            differing.remove("groups")
        if differing:
            note(
                f"it was created with another {', '.join(map(_flag_of, differing))}; 'penstock queue update' changes it"
            )
        return
    _print(created, as_json, f"created queue {created.name}")


@queue.command()
@queue_argument
@settings_options
@click.option("--remove-label", "removed_labels", metavar="KEY", multiple=True, help="Remove one; may be repeated.")
@click.option("--no-redrive", is_flag=True, help="Never dead-letter a message.")
@click.option("--no-backoff", is_flag=True, help="Make a message ready at once after an unsuccessful claim.")
@talks_to_server
def update(client: Client, queue: str, as_json: bool, no_redrive: bool, no_backoff: bool, **settings: Any) -> None:
    """Change settings of a queue; the others stay as they are."""
    changes = _given(**settings)
    if no_redrive and "redrive" in changes:
        raise click.UsageError("--no-redrive and a dead-letter queue exclude each other")
    if no_redrive:
        changes["redrive"] = None
    if no_backoff and "backoff" in changes:
        raise click.UsageError("--no-backoff and --backoff exclude each other")
    if no_backoff:
        changes["backoff"] = None
    if not changes:
        raise click.UsageError("name at least one setting to change")
    updated = client.update_queue(queue, **changes)
    _print(updated, as_json, f"updated queue {updated.name}")


@queue.command()
@queue_argument
@talks_to_server
def show(client: Client, queue: str, as_json: bool) -> None:
    """Show a queue, its settings and how many messages it holds."""
    found = client.queue(queue)
    if as_json:
        print_json(queue_as_json(found))
        return
    rows = {"name": found.name, "created": instant(found.created_at)}
    if found.modified_at is not None and found.modified_at != found.created_at:
        rows["modified"] = instant(found.modified_at)
    if found.paused_at is not None:
        rows["paused"] = f"since {instant(found.paused_at)}"
    rows |= _settings(found.settings)
    rows |= {"dedup": _dedup(found.settings), "backoff": _backoff(found.settings)}
    rows |= {"groups": found.settings.get("groups", "off"), "labels": _labels(found.settings)}
    if found.count is not None:
        rows |= _counts(found.count)
    if found.tally is not None:
        rows |= {"arrived": f"{number(found.tally.arrived)} ever", "departed": number(found.tally.departed)}
    print_table(list(rows.items()))


@queue.command()
@queue_argument
@talks_to_server
def pause(client: Client, queue: str, as_json: bool) -> None:
    """Let claims find nothing in a queue until it is resumed; all else goes on."""
    _print(client.pause_queue(queue), as_json, f"paused queue {queue}")


@queue.command()
@queue_argument
@talks_to_server
def resume(client: Client, queue: str, as_json: bool) -> None:
    """Let claims find the messages of a paused queue again."""
    _print(client.resume_queue(queue), as_json, f"resumed queue {queue}")


@queue.command()
@queue_argument
@yes_option
@talks_to_server
def delete(client: Client, queue: str, as_json: bool, yes: bool) -> int | None:
    """Delete a queue and every message in it."""
    if not confirmed(f"Delete queue {queue} and every message in it?", yes):
        note("nothing was deleted")
        return NOT_ALL_DONE
    deleted = client.delete_queue(queue)
    _print(deleted, as_json, f"deleted queue {deleted.name}")
    return None


def _is_set(settings: Settings, name: str, value: Any) -> bool:
    there: Any = settings.get(name)
    return bool(value.items() <= (there or {}).items() if name == "labels" else there == value)


def _flag_of(setting: str) -> str:
    if setting == "labels":
        return "--label"
    return next(flag for flag, name, *_ in _SETTINGS if name == {"redrive": "dead_letter_queue"}.get(setting, setting))


def _given(
    max_receives: int | None,
    dead_letter_queue: str | None,
    backoff: int | None,
    backoff_most: int | None,
    set_labels: tuple[tuple[str, str], ...],
    removed_labels: tuple[str, ...] = (),
    **settings: Any,
) -> Settings:
    if (max_receives is None) != (dead_letter_queue is None):
        raise click.UsageError("--max-receives and --dead-letter-queue go together")
    given: Settings = {name: value for name, value in settings.items() if value is not None}  # type: ignore[assignment]
    if max_receives is not None and dead_letter_queue is not None:
        given["redrive"] = {"max_receives": max_receives, "dead_letter_queue": dead_letter_queue}
    if backoff is not None:
        most_ms = max(backoff, _BACKOFF_MOST_MS) if backoff_most is None else backoff_most
        if most_ms < backoff:
            raise click.UsageError(f"--backoff-most cannot be shorter than --backoff, which is {duration(backoff)}")
        given["backoff"] = {"first_ms": backoff, "most_ms": most_ms}
    elif backoff_most is not None:
        raise click.UsageError("--backoff-most needs --backoff")
    for key in {key for key, _ in set_labels} & set(removed_labels):
        raise click.UsageError(f"--label and --remove-label both name {key!r}")
    if set_labels or removed_labels:
        given["labels"] = {**dict(set_labels), **dict.fromkeys(removed_labels)}
    return given


def _print(changed: Queue, as_json: bool, line: str) -> None:
    if as_json:
        print_json(queue_as_json(changed))
    else:
        click.echo(line)


def _settings(settings: Settings) -> dict[str, str]:
    redrive = settings["redrive"]
    return {
        "visibility": duration(settings["visibility_ms"]),
        "retention": duration(settings["retention_ms"]),
        "delay": duration(settings["delay_ms"]),
        "dedup": settings["dedup"],
        "ledger": settings["ledger"],
        "redrive": (
            f"to {redrive['dead_letter_queue']} after {plural(redrive['max_receives'], 'receive')}"
            if redrive
            else "off"
        ),
    }


def _dedup(settings: Settings) -> str:
    if settings["dedup"] != "window":
        return settings["dedup"]
    scope = ", in each group" if settings["dedup_scope"] == "group" else ""
    return f"window of {duration(settings['dedup_window_ms'])}{scope}"


def _labels(settings: Settings) -> str:
    labels = settings.get("labels")
    return ", ".join(f"{key}={value}" for key, value in labels.items()) if labels else "none"


def _backoff(settings: Settings) -> str:
    backoff = settings.get("backoff")  # a server that is older than this program has none
    return f"{duration(backoff['first_ms'])} up to {duration(backoff['most_ms'])}" if backoff else "off"


def _counts(count: Count) -> dict[str, str]:
    least, most = ("", "") if count.exact else ("at least ", "at most ")
    oldest = count.oldest_sent_at
    return {
        "messages": number(count.total),
        "ready": most + number(count.ready),
        "delayed": least + number(count.delayed),
        "claimed": least + number(count.claimed),
        "oldest": "none" if oldest is None else f"sent {age(oldest, system_clock())} ago",
    }
