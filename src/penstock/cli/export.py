"""`penstock export` and `penstock import`: a queue as JSON lines, and back."""

from __future__ import annotations

import base64
import binascii
import json
from typing import IO, TYPE_CHECKING, Any

import click

from penstock import limits
from penstock.cli.lines import BadLine, LineSender, lines_of
from penstock.cli.messages import message_as_json
from penstock.cli.options import queue_argument, talks_to_server
from penstock.cli.output import note
from penstock.cli.text import plural

if TYPE_CHECKING:
    from penstock.client import Client, Draft

_PAGE = 1_000
# What a server assigns: an exported message has these, an imported one gets its own.
_ASSIGNED = frozenset(
    {
        "id",
        "queue",
        "sent_at",
        "ready_at",
        "receives",
        "came_from",
        "receipt",
        "first_claimed_at",
        "behind",
        "state",
        "shipped",
        "claim",
        "last_claimed_at",
    }
)
_RESTORED = frozenset({"body", "body_base64", "content_type", "attributes", "delay_ms", "group", "dedup_id"})


@click.command()
@queue_argument
@click.option("--file", type=click.File("w", lazy=True), default="-", metavar="PATH",
              help="Where to write.  [default: standard output]")  # fmt: skip
@talks_to_server
def export(client: Client, queue: str, file: IO[str], as_json: bool) -> None:  # noqa: ARG001
    """Write every message of a queue as a line of JSON. Nothing is claimed.

    Messages that are claimed or delayed are written too. 'penstock import' reads the lines.
    """
    count, after = 0, None
    while True:
        peeked = client.peek(queue, _PAGE, after)
        for message in peeked.messages:
            file.write(json.dumps(message_as_json(message), separators=(",", ":")) + "\n")
        count += len(peeked.messages)
        after = peeked.after
        if after is None:
            break
    file.flush()
    note(f"exported {plural(count, 'message')}")


@click.command("import")
@queue_argument
@click.argument("files", nargs=-1, metavar="[FILE]...")
@talks_to_server
def import_(client: Client, queue: str, files: tuple[str, ...], as_json: bool) -> None:
    """Send the messages that 'penstock export' has written.

    Each FILE, or standard input, has a JSON object a line: body or body_base64, content_type, attributes, delay_ms,
    group, dedup_id. A message is a new one with a new id: what else export has written is left out.
    """
    sender = LineSender(client, queue, read_message)
    sender.send_all(lines_of(files))
    sender.report(as_json)


def read_message(line: bytes) -> Draft | None:
    """A message of a line of JSON; None of a blank one. Raises BadLine."""
    from penstock.client import Draft

    if not line.strip():
        return None
    try:
        value = json.loads(line)
    except ValueError as error:
        raise BadLine(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadLine("not a JSON object")
    unknown = value.keys() - _RESTORED - _ASSIGNED
    if unknown:
        raise BadLine(f"unknown key {min(unknown)!r}")
    return Draft(
        _body(value),
        _text(value, "content_type"),
        _attributes(value),
        _delay(value),
        _text(value, "group"),
        _text(value, "dedup_id"),
    )


def _body(value: dict[str, Any]) -> bytes:
    text, encoded = value.get("body"), value.get("body_base64")
    if (text is None) == (encoded is None):
        raise BadLine("a message has either body or body_base64")
    written = encoded if text is None else text
    if not isinstance(written, str):
        raise BadLine("the body is a string")
    try:
        return written.encode() if encoded is None else base64.b64decode(written, validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise BadLine(f"the body cannot be read: {error}") from error


def _text(value: dict[str, Any], key: str) -> str | None:
    text = value.get(key)
    if text is not None and not isinstance(text, str):
        raise BadLine(f"{key} is a string")
    return text


def _attributes(value: dict[str, Any]) -> dict[str, str] | None:
    attributes = value.get("attributes")
    if attributes is None:
        return None
    if not isinstance(attributes, dict) or not all(isinstance(one, str) for one in attributes.values()):
        raise BadLine("attributes are an object of strings")
    return attributes


def _delay(value: dict[str, Any]) -> int | None:
    delay = value.get("delay_ms")
    if delay is None:
        return None
    if not isinstance(delay, int) or isinstance(delay, bool) or not 0 <= delay <= limits.DURATION_MS:
        raise BadLine(f"delay_ms is a number of milliseconds up to {limits.DURATION_MS}")
    return delay
