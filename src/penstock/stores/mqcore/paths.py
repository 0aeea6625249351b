"""What things are called on the disk, and which names may be there at all.

    new/queue:id        delay/queue:id        remove/queue:id        queues/queue/id

Only names of these forms are ever opened, moved or unlinked; whatever else lies in the folders is left alone.
"""

from __future__ import annotations

import re
from uuid import UUID

from penstock import names
from penstock.errors import InvalidRequest

SEPARATOR = ":"
_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_ID_LENGTH = 36
# A file name has at most 255 bytes, and that of a message holds its queue, the separator and its id.
QUEUE_LENGTH = 255 - 1 - _ID_LENGTH
# Between the calendar of UUID version 1, in ticks of 100 ns, and the epoch.
_GREGORIAN_TICKS = 0x01B21DD213814000


def is_id(text: str) -> bool:
    return len(text) == _ID_LENGTH and _ID.fullmatch(text) is not None


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
    return (queue, message_id) if is_id(message_id) and is_queue(queue) else None


def sent_at(message_id: str) -> int:
    """When a message was sent, as far as its id tells; 0 where it does not."""
    version = message_id[14]
    if version == "7":
        return int(message_id[:8] + message_id[9:13], 16)
    if version == "1":
        return max(0, (UUID(message_id).time - _GREGORIAN_TICKS) // 10_000)
    return 0
