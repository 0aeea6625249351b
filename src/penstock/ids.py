"""Message ids: UUIDs that carry their own sequence number.

    0199a8c2-51f4-7abc-9def-00000000002a
    └── sent_at ┘ └origin─┘ └── seq ───┘

The layout is UUIDv7: 48 bits of milliseconds, then 26 bits that name the store the message was born in,
then the store's 48-bit sequence number. Because the number is inside, a message is found by its primary
key and needs no second index; because the origin is inside, an id of another store is known as foreign
without a look-up, and two stores never hand out the same id.
"""

from __future__ import annotations

import re
from random import Random

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)

SEQ_MAX = 2**48 - 1


def new_origin(random: Random) -> str:
    """The two middle groups of every id of one store: version 7, variant 1, 26 random bits."""
    return f"7{random.getrandbits(12):03x}-{0x8000 | random.getrandbits(14):04x}"


def make_id(origin: str, sent_at: int, seq: int) -> str:
    return f"{sent_at >> 16:08x}-{sent_at & 0xFFFF:04x}-{origin}-{seq:012x}"


def seq_of(message_id: str) -> int | None:
    """The sequence number inside an id, or None where the text is no id at all.

    Only a number to look up: whoever finds a row compares its full id with the text that was given.
    """
    if len(message_id) != 36 or _UUID.fullmatch(message_id) is None:
        return None
    return int(message_id[24:], 16)


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None
