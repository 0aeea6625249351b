"""How the commands write messages."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from penstock.cli.output import print_table
from penstock.cli.text import age, body, number
from penstock.clock import system_clock

if TYPE_CHECKING:
    from penstock.client import ClaimedMessage, Message


def message_as_json(message: Message) -> dict[str, object]:
    """As the native API writes it: bytes that are no text become `body_base64`."""
    value = asdict(message)
    try:
        value["body"] = message.text
    except UnicodeDecodeError:
        del value["body"]
        value["body_base64"] = base64.b64encode(message.body).decode()
    return value


def print_claimed(messages: Sequence[ClaimedMessage]) -> None:
    _print(["receipt"], [[message.receipt] for message in messages], messages)


def print_peeked(messages: Sequence[Message]) -> None:
    now = system_clock()
    _print(["id", "ready"], [[message.id, _ready(message.ready_at, now)] for message in messages], messages)


def _print(header: list[str], starts: list[list[str]], messages: Sequence[Message]) -> None:
    now = system_clock()
    columns: dict[str, list[str]] = {
        "receives": [number(message.receives) for message in messages],
        "age": [age(message.sent_at, now) for message in messages],
    }
    if any(message.attributes for message in messages):
        columns["attributes"] = [_attributes(message) for message in messages]
    columns["body"] = [body(message.body) for message in messages]
    rows = [start + list(row) for start, row in zip(starts, zip(*columns.values(), strict=True), strict=True)]
    print_table(rows, [*header, *columns], right=("receives", "age"), narrow=("attributes",))


def _ready(ready_at: int, now: int) -> str:
    return f"in {age(now, ready_at)}" if ready_at > now else "now"


def _attributes(message: Message) -> str:
    return " ".join(f"{key}={value}" for key, value in message.attributes.items())
