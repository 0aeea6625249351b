"""`penstock send`: one message, or one a line, from the command line, a file or standard input."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from penstock.cli.lines import BadLine, LineSender, lines_of
from penstock.cli.options import Duration, KeyValue, queue_argument, talks_to_server
from penstock.cli.output import note, print_json

if TYPE_CHECKING:
    from penstock.client import Client, Draft


@click.command()
@queue_argument
@click.argument("body", required=False)
@click.option("--file", "files", multiple=True, metavar="PATH", help="Send what this file holds.")
@click.option("--lines", "form", flag_value="lines", help="Send each line as a message; --file may be repeated.")
@click.option("--ndjson", "form", flag_value="ndjson", help="The same, and every line must be a JSON value.")
@click.option("--content-type", metavar="TYPE", help="What the body is, such as application/json.")
@click.option("--attribute", "attributes", type=KeyValue(), multiple=True, help="Attach a value; may be repeated.")
@click.option(
    "--delay",
    "delay_ms",
    type=Duration(),
    help="Make the message ready only after this time.  [default: as the queue is set]",
)
@click.option("--group", metavar="NAME", help="To which others the message belongs.")
@click.option(
    "--dedup-id",
    metavar="ID",
    help="What makes the message a twin of others, in a queue with --dedup.  [default: its body]",
)
@talks_to_server
def send(
    client: Client,
    queue: str,
    body: str | None,
    files: tuple[str, ...],
    form: str | None,
    content_type: str | None,
    attributes: tuple[tuple[str, str], ...],
    delay_ms: int | None,
    group: str | None,
    dedup_id: str | None,
    as_json: bool,
) -> None:
    """Send one message and print its id, or one a line and print how many.

    BODY is the text itself. With '-', or without any, the body is read from standard input. With --lines or --ndjson
    many are sent in few requests, while lines come; blank lines are messages to --lines, and nothing to --ndjson.
    """
    from penstock.client import Draft

    if form is not None:
        if body not in (None, "-"):
            raise click.UsageError(f"--{form} reads standard input or --file, not a BODY")
        if dedup_id is not None:
            raise click.UsageError(f"--dedup-id is for one message: with it, all but the first of --{form} are twins")
        read = _line_reader(form, Draft(b"", content_type, dict(attributes), delay_ms, group))
        sender = LineSender(client, queue, read)
        sender.send_all(lines_of(files))
        sender.report(as_json)
        return
    if len(files) > 1:
        raise click.UsageError("one message comes from one --file: several need --lines or --ndjson")
    data = read_body(body, files[0] if files else None)
    [sent] = client.send_many(queue, [Draft(data, content_type, dict(attributes), delay_ms, group, dedup_id)])
    if as_json:
        print_json(asdict(sent))
        return
    click.echo(sent.id)
    if not sent.stored:
        note("an equal message was sent before; this is its id")


def _line_reader(form: str, like: Draft) -> Callable[[bytes], Draft | None]:
    """Makes messages of lines, with all but the body as in the one that is given."""

    def line(text: bytes) -> Draft:
        return replace(like, body=text)

    def json_line(text: bytes) -> Draft | None:
        text = text.strip()
        if not text:
            return None
        try:
            json.loads(text)
        except ValueError as error:
            raise BadLine(f"not JSON: {error}") from error
        return replace(like, body=text, content_type=like.content_type or "application/json")

    return line if form == "lines" else json_line


def read_body(body: str | None, file: str | None) -> bytes:
    """The body that a command was given, in one of the three ways. Raises UsageError."""
    if file is not None:
        if body is not None:
            raise click.UsageError("give a BODY or --file, not both")
        try:
            with open(file, "rb") as opened:
                return opened.read()
        except OSError as error:
            raise click.UsageError(f"file {file} cannot be read: {error.strerror or error}") from error
    if body is not None and body != "-":
        # The very bytes that were typed, even where they are not text.
        return os.fsencode(body)
    if sys.stdin is None or (body is None and sys.stdin.isatty()):
        raise click.UsageError("give a BODY, --file, or '-' to type it")
    return sys.stdin.buffer.read()
