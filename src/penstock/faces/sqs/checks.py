"""What SQS allows, and how it refuses the rest.

The tests of a body are cheap ones on its bytes: every message that is sent or received passes through here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from penstock.faces.sqs.errors import (
    CONTENTS,
    EMPTY_BATCH,
    ENTRY_ID,
    LARGE_BATCH,
    LONG_BATCH,
    SAME_IDS,
    Rejection,
    missing,
    wrong,
    wrong_value,
)

NAME_LENGTH: Final = 80
FIFO_SUFFIX: Final = ".fifo"
MESSAGE_BYTES: Final = 1024 * 1024
# No queue has a lower limit than this: a message that is no longer needs no look at its queue.
LEAST_MESSAGE_BYTES: Final = 1024
BATCH_ENTRIES: Final = 10
RECEIVED_AT_ONCE: Final = 10
ATTRIBUTES: Final = 10
ATTRIBUTE_NAME_LENGTH: Final = 256
ID_LENGTH: Final = 128
VISIBILITY_S: Final = 12 * 60 * 60
DELAY_S: Final = 900
RETENTION_S: Final = (60, 14 * 24 * 60 * 60)
WAIT_S: Final = 20
LIST_RESULTS: Final = 1_000
TASK_RESULTS: Final = 10
TASK_RATE: Final = 500
TAGS: Final = 50
TAG_KEY_LENGTH: Final = 128
TAG_VALUE_LENGTH: Final = 256

# Of names of queues and ids of entries.
_WORD: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_CONTROLS: Final = bytes([*range(9), 11, 12, *range(14, 32)])
_NOT_CHARACTERS: Final = ("\ufffe".encode(), "\uffff".encode())
_CHARACTERS_TEXT: Final = (
    "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | "
    "#x10000 to #x10FFFF"
)
_ENTRY_ID_TEXT: Final = (
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters "
    "long."
)
_NAME_TEXT: Final = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
_FIFO_NAME_TEXT: Final = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo "
    "suffix and be 1 to 80 in length"
)
_ATTRIBUTE_NAME_TEXT: Final = (
    "Message (user) attributes name can only contain upper and lower score characters, digits, periods, hyphens and "
    "underscores. "
)
_RESERVED_NAME_TEXT: Final = (
    "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. These strings are reserved for internal "
    "use. Additionally, they cannot start or end with '.'."
)


class Entry(Protocol):
    """Of a batch."""

    id: str | None


E = TypeVar("E", bound=Entry)


def is_plain(text: bytes) -> bool:
    """Whether UTF-8 holds only characters that SQS and XML have."""
    if len(text.translate(None, _CONTROLS)) != len(text):
        return False
    return text.isascii() or not (_NOT_CHARACTERS[0] in text or _NOT_CHARACTERS[1] in text)


def body_bytes(body: str | None) -> bytes:
    if not body:
        raise missing("MessageBody")
    encoded = body.encode()
    if not is_plain(encoded):
        raise Rejection(CONTENTS, _CHARACTERS_TEXT)
    return encoded


def check_value(value: str) -> int:
    """How many bytes the text of an attribute takes."""
    encoded = value.encode()
    if not is_plain(encoded):
        raise wrong(_CHARACTERS_TEXT)
    return len(encoded)


def check_size(size: int, most: int, in_batch: bool = False) -> None:
    if size > most:
        are_wrong = "cannot be validated" if in_batch else "are invalid"
        raise wrong(f"One or more parameters {are_wrong}. Reason: Message must be shorter than {most} bytes.")


def check_id(value: str | None, parameter: str) -> None:
    """Of a group, a message that must not be sent twice, or an attempt to receive."""
    if value is not None and not (
        0 < len(value) <= ID_LENGTH and value.isascii() and value.isprintable() and " " not in value
    ):
        raise wrong_value(
            value,
            parameter,
            f"{parameter} can only include alphanumeric and punctuation characters. 1 to {ID_LENGTH} in length.",
        )


def check_delay(seconds: int | None) -> None:
    if seconds is not None and not 0 <= seconds <= DELAY_S:
        raise wrong_value(seconds, "DelaySeconds", f"DelaySeconds must be >= 0 and <= {DELAY_S}.")


def check_visibility(seconds: int | None) -> None:
    if seconds is not None and not 0 <= seconds <= VISIBILITY_S:
        raise wrong_value(seconds, "VisibilityTimeout", f"Must be >= 0 and <= {VISIBILITY_S}, if provided.")


def check_wait(seconds: int | None) -> None:
    if seconds is not None and not 0 <= seconds <= WAIT_S:
        raise wrong_value(seconds, "WaitTimeSeconds", f"Must be >= 0 and <= {WAIT_S}, if provided.")


def within(value: int, parameter: str, most: int) -> int:
    """A count from 1 on."""
    if not 1 <= value <= most:
        raise wrong_value(value, parameter, f"Must be between 1 and {most}, if provided.")
    return value


def check_name(name: str, is_fifo: bool) -> None:
    """What a queue that is made here may be called; other APIs allow more."""
    stem = name.removesuffix(FIFO_SUFFIX) if is_fifo else name
    good = _WORD.fullmatch(stem) is not None and len(name) <= NAME_LENGTH
    if not good or is_fifo != name.endswith(FIFO_SUFFIX):
        raise wrong(_FIFO_NAME_TEXT if is_fifo else _NAME_TEXT)


def check_attribute_name(name: str) -> None:
    if len(name) > ATTRIBUTE_NAME_LENGTH:
        raise wrong(f"Message (user) attribute names must be shorter than {ATTRIBUTE_NAME_LENGTH} Bytes")
    if not name or not all(one.isalpha() or one in "0123456789_-." for one in name):
        raise wrong(_ATTRIBUTE_NAME_TEXT)
    if name.lower().startswith(("aws.", "amazon.", ".")) or name.endswith(".") or ".." in name:
        raise wrong(_RESERVED_NAME_TEXT)


def is_number(value: str) -> bool:
    return len(value) <= ATTRIBUTE_NAME_LENGTH and _NUMBER.fullmatch(value) is not None


def checked_entries(entries: Sequence[E] | None, operation: str) -> Sequence[E]:
    """Those of a batch. What is wrong with all of them is an error; what is wrong with one is told in the answer."""
    if not entries:
        raise Rejection(EMPTY_BATCH, f"There should be at least one {operation}RequestEntry in the request.")
    if len(entries) > BATCH_ENTRIES:
        raise too_many_entries(len(entries))
    seen: set[str | None] = set()
    for entry in entries:
        if entry.id is None or _WORD.fullmatch(entry.id) is None:
            raise Rejection(ENTRY_ID, _ENTRY_ID_TEXT)
        if entry.id in seen:
            raise Rejection(SAME_IDS, f"Id {entry.id} repeated.")
        seen.add(entry.id)
    return entries


def too_many_entries(count: int | None = None) -> Rejection:
    """Without a count where they were too many to be read."""
    sent = "more" if count is None else str(count)
    return Rejection(LONG_BATCH, f"Maximum number of entries per request are {BATCH_ENTRIES}. You have sent {sent}.")


def check_batch_size(size: int) -> None:
    if size > MESSAGE_BYTES:
        raise Rejection(
            LARGE_BATCH, f"Batch requests cannot be longer than {MESSAGE_BYTES} bytes. You have sent {size} bytes."
        )
