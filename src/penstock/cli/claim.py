"""`penstock claim`: take messages to work on, once or as they come."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock import limits
from penstock.cli.messages import MessageTable, message_as_json
from penstock.cli.options import Duration, WholeNumber, queue_argument, talks_to_server
from penstock.cli.output import note, print_json, print_json_line
from penstock.cli.program import NOT_ALL_DONE
from penstock.cli.text import number, plural

if TYPE_CHECKING:
    from penstock.client import ClaimedMessage, Client

_SHORTEST_HOLD_MS = 100
# How long a claim waits at the server while commands are awaited: a stop waits for it.
_FOLLOWING_MS = 1_000


@click.command()
@queue_argument
@click.option(
    "--limit", type=WholeNumber(1, limits.BULK_LIMIT), default=1, show_default=True, help="Messages at most at once."
)
@click.option("--hold", "hold_ms", type=Duration(), help="How long to hold them.  [default: as the queue is set]")
@click.option("--wait", "wait_ms", type=Duration(most=limits.WAIT_MS), default="0s", show_default=True,
              help="How long to wait for the first one.")  # fmt: skip
@click.option("--attempt", metavar="NAME", help="Your own name for this claim, by which it may be repeated.")
@click.option("--ack", is_flag=True, help="Finish the messages as soon as they are printed.")
@click.option("--follow", is_flag=True, help="Go on until Ctrl-C, and print messages as they come.")
@click.option("--exec", "command", metavar="CMD", help="Run this for each message until none is ready.")
@click.option("--jobs", type=WholeNumber(1, 1_000), default=1, show_default=True, help="Commands at once.")
@talks_to_server
def claim(
    client: Client,
    queue: str,
    limit: int,
    hold_ms: int | None,
    wait_ms: int,
    attempt: str | None,
    ack: bool,
    follow: bool,
    command: str | None,
    jobs: int,
    as_json: bool,
) -> int | None:
    """Claim messages to work on.

    No other consumer gets them until they are released or the hold ends. Finish a message with
    'penstock ack QUEUE RECEIPT', or all that are printed with --ack. A claim that is repeated with its --attempt
    within five minutes gets the same messages again, as long as it still holds all of them.

    With --exec a command of the shell is run for each message: the body is its standard input, MESSAGE_ID and others
    are in its environment. Exit code 0 acks the message, any other releases it for a while that grows. With --follow
    it goes on until Ctrl-C or SIGTERM, and waits for commands that run.
    """
    if command is not None:
        _refuse_beside_exec()
        return _execute(client, queue, command, jobs, hold_ms, wait_ms, follow, as_json)
    if jobs != 1:
        raise click.UsageError("--jobs is for --exec")
    if follow:
        if attempt is not None:
            raise click.UsageError("--attempt names one claim: it is not for --follow")
        return _follow(client, queue, limit, hold_ms, ack, as_json)
    messages = client.claim(queue, limit, hold_ms, wait_ms, attempt)
    if as_json:
        print_json({"messages": [message_as_json(message) for message in messages]})
    elif messages:
        MessageTable("receipt", messages).print(messages)
    if not messages:
        note(f"queue {queue} is paused" if _is_paused(client, queue) else f"no message is ready in queue {queue}")
        return NOT_ALL_DONE
    return _acked(client, queue, messages) if ack else None


def _is_paused(client: Client, queue: str) -> bool:
    """False where it is not known: a key that may claim need not be one that may look."""
    from penstock.client import Unauthorized

    try:
        return client.queue(queue).paused_at is not None
    except Unauthorized:
        return False


def _refuse_beside_exec() -> None:
    context = click.get_current_context()
    for name in ("ack", "limit", "attempt"):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} is not for --exec, which claims as it runs and acks by exit code")


def _execute(
    client: Client,
    queue: str,
    command: str,
    jobs: int,
    hold_ms: int | None,
    wait_ms: int,
    follow: bool,
    as_json: bool,
) -> int | None:
    from penstock.cli.message_command import MessageCommand

    if hold_ms is not None and hold_ms < _SHORTEST_HOLD_MS:
        raise click.UsageError("--hold is at least 100ms with --exec, which renews it")
    wait_ms = _FOLLOWING_MS if follow else wait_ms
    worked = MessageCommand(command).work(
        client, queue, jobs=jobs, hold_ms=hold_ms, wait_ms=wait_ms, until_empty=not follow
    )
    if as_json:
        print_json(asdict(worked))
    else:
        left = {"released": worked.released, "lost": worked.lost, "unfinished": worked.unfinished}
        more = "".join(f", {number(count)} {what}" for what, count in left.items() if count)
        click.echo(f"acked {plural(worked.acked, 'message')}{more}")
    return NOT_ALL_DONE if worked.released or worked.lost or worked.unfinished else None


def _follow(client: Client, queue: str, limit: int, hold_ms: int | None, ack: bool, as_json: bool) -> int | None:
    table = MessageTable("receipt")
    for messages in _as_they_come(client, queue, limit, hold_ms):
        if as_json:
            for message in messages:
                print_json_line(message_as_json(message))
        else:
            table.print(messages)
        # What is not printed must not be acked, and a pipe takes it only now.
        sys.stdout.flush()
        if ack:
            _acked(client, queue, messages)
    return None


def _as_they_come(client: Client, queue: str, limit: int, hold_ms: int | None) -> Iterator[list[ClaimedMessage]]:
    """A server that is away for a while is waited for, but not the first time: then its address is wrong.

    Not by the client's patience, which has an end. The messages of a claim whose answer was lost come with the next
    try, which has the same attempt.
    """
    from penstock.client import ClientError
    from penstock.client.patience import Pauses, is_away
    from penstock.client.work import new_attempt

    reached, pauses, attempt = False, None, new_attempt()
    while True:
        try:
            messages = client.claim(queue, limit, hold_ms, limits.WAIT_MS if reached else 0, attempt)
        except ClientError as error:
            if not (reached and is_away(error)):
                raise
            if pauses is None:
                pauses = Pauses(client.patience)
                note(f"{error}; goes on when the server is back")
            time.sleep(pauses.after(error))
            continue
        reached, pauses, attempt = True, None, new_attempt()
        if messages:
            yield messages


def _acked(client: Client, queue: str, messages: list[ClaimedMessage]) -> int | None:
    done = client.ack(queue, messages)
    for message, was_done in zip(messages, done, strict=True):
        if not was_done:
            note(f"not acked: {message.receipt} (its claim has ended)")
    return None if all(done) else NOT_ALL_DONE
