"""A command that sends a message once more, through the native API."""

from __future__ import annotations

import json
import shlex
from typing import Final
from urllib.parse import quote

from penstock.faces.native.messages import body_texts
from penstock.model import Message

# A program is given no longer word than 128 KiB, the zero at its end included.
_LONGEST: Final = 120_000


def curl_command(message: Message, server: str, asks_for_keys: bool) -> str | None:
    """For a POSIX shell. What is sent stands in it, in ASCII and between quotes that nothing in it can end. Where it is
    too long for that, the body is taken from the file that the console hands out as a download; None where even the
    attributes are too long."""
    address = f"{server}/v1/queues/{quote(message.queue, safe='')}/messages"
    words = ["curl", "-sS", "--fail-with-body", shlex.quote(address), "-H", "'Content-Type: application/json'"]
    if asks_for_keys:
        words += ["-H", '"Authorization: Bearer $PENSTOCK_KEY"']
    told: dict[str, object] = {}
    if message.content_type is not None:
        told["content_type"] = message.content_type
    if message.attributes:
        told["attributes"] = message.attributes
    if message.group is not None:
        told["group"] = message.group
    if len(message.body) <= _LONGEST:
        text, in_base64 = body_texts(message.body)
        whole = {"body": text} if isinstance(text, str) else {"body_base64": in_base64}
        sent = shlex.quote(json.dumps({"messages": [{**told, **whole}]}))
        if len(sent) <= _LONGEST:
            return " ".join([*words, "--data-binary", sent])
    before, after = json.dumps({"messages": [{**told, "body_base64": "\x00"}]}).split("\\u0000")
    if len(before) > _LONGEST:
        return None
    file = shlex.quote(file_name(message.id))
    made = f"{{ printf %s {shlex.quote(before)}; base64 < {file} | tr -d '\\n'; printf %s {shlex.quote(after)}; }}"
    return " ".join([made, "|", *words, "--data-binary", "@-"])


def is_by_file(command: str) -> bool:
    return command.startswith("{")


def file_name(message_id: str) -> str:
    return f"{message_id}.body"
