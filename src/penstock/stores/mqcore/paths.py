"""What things are called on the disk, and which names may be there at all.

    new/queue:id        delay/queue:id        remove/queue:id        queues/queue/id

Only names of these forms are ever opened, moved or unlinked; whatever else lies in the folders is left alone. The
messages made here have UUIDs for ids, but any file in the folder of a queue is a message, whatever it is called: its
name is its id.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote, unquote
from uuid import UUID

from penstock import names
from penstock.errors import InvalidRequest

SEPARATOR = ":"
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_UUID_LENGTH = 36
# A file name has at most 255 bytes, and that of a message holds its queue, the separator and its id.
_NAME_BYTES = 255
QUEUE_LENGTH = _NAME_BYTES - 1 - _UUID_LENGTH
# What an NFS client keeps of a file that was deleted while it was open.
_DELETED_ON_NFS = ".nfs"
# Between the calendar of UUID version 1, in ticks of 100 ns, and the epoch.
_GREGORIAN_TICKS = 0x01B21DD213814000


def is_uuid(text: str) -> bool:
    return len(text) == _UUID_LENGTH and _UUID.fullmatch(text) is not None


def is_message(name: str, queue: str) -> bool:
    """Whether a file of this name in the folder of a queue is a message: it must fit into the other folders too."""
    if is_uuid(name):
        return True
    try:
        return _is_plain(name) and len(os.fsencode(name)) <= _NAME_BYTES - 1 - len(queue)
    except UnicodeEncodeError:
        return False


def _is_plain(name: str) -> bool:
    return name not in ("", ".", "..") and not name.startswith(_DELETED_ON_NFS) and "/" not in name and "\0" not in name


def id_of(name: str) -> str:
    """The id of the message in a file: its name, percent-encoded where its bytes are not text."""
    return quote(os.fsencode(name)) if _is_bytes(name) else name


def names_of(message_id: str) -> list[str]:
    """The names that a message with this id may have, the likeliest first."""
    if is_uuid(message_id):
        return list(dict.fromkeys((message_id, message_id.lower())))
    as_bytes = unquote(message_id, errors="surrogateescape") if "%" in message_id else message_id
    return [message_id, as_bytes] if _is_bytes(as_bytes) else [message_id]


def _is_bytes(name: str) -> bool:
    return any("\udc80" <= character <= "\udcff" for character in name)


def is_queue(name: str) -> bool:
    return len(name) <= QUEUE_LENGTH and SEPARATOR not in name and names.is_valid(name)


def check_queue(name: str) -> str:
    names.check(name)
    if not is_queue(name):
        raise InvalidRequest(
            f"a queue name is at most {QUEUE_LENGTH} characters long here, and holds no {SEPARATOR!r}: "
            "it is a part of file names"
        )
    return name


def file_name(queue: str, message_id: str) -> str:
    return f"{queue}{SEPARATOR}{message_id}"


def parse(name: str) -> tuple[str, str] | None:
    """The queue and the id in a file name, or None for a name that is not one of ours."""
    queue, _, message_id = name.partition(SEPARATOR)
    return (queue, message_id) if is_queue(queue) and _is_plain(message_id) else None


def sent_at(message_id: str) -> int:
    """When a message was sent, as far as its id tells; 0 where it does not."""
    version = message_id[14] if is_uuid(message_id) else ""
    if version == "7":
        return int(message_id[:8] + message_id[9:13], 16)
    if version == "1":
        return max(0, (UUID(message_id).time - _GREGORIAN_TICKS) // 10_000)
    return 0
