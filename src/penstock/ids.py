"""Message ids: UUIDs that carry their own sequence number.

    0199a8c2-51f4-7abc-9def-00000000002a
    └── sent_at ┘ └origin─┘ └── seq ───┘

The layout is UUIDv7: 48 bits of milliseconds, then 26 bits that name the store in which the message was first sent,
then the store's 48-bit sequence number. Because the number is inside, a message is found by its primary
key and needs no second index; because the origin is inside, an id from another store is
recognised without a lookup, and two stores never hand out the same id.

Beside them the hashes by which the same body, and the same name that a sender gives, are known again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from random import Random
from uuid import UUID

_CANONICAL = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

SEQ_MAX = 2**48 - 1
HASH_BYTES = 32
# How much of a hash makes a dedup key. No two messages share 128 bits by chance, and the index of the keys, which every
# claim of a queue with twins writes to all over, is half as long.
KEY_BYTES = 16


def new_origin(random: Random) -> str:
    """The two middle groups of every id of one store: version 7, variant 1, 26 random bits."""
    return f"7{random.getrandbits(12):03x}-{0x8000 | random.getrandbits(14):04x}"


def make_id(origin: str, sent_at: int, seq: int) -> str:
    return before_seq(origin, sent_at) + "%012x" % seq  # noqa: UP031 - half the time of an f-string


def make_ids(origin: str, sent_at: int, seqs: Iterable[int]) -> list[str]:
    """Of messages that were sent together."""
    before = before_seq(origin, sent_at)
    return [before + "%012x" % seq for seq in seqs]  # noqa: UP031


@lru_cache(4096)
def before_seq(origin: str, sent_at: int) -> str:
    """What an id begins with, up to its sequence number. Cached, because messages that are sent together are claimed
    and acked together."""
    return f"{sent_at >> 16:08x}-{sent_at & 0xFFFF:04x}-{origin}-"


def seq_of(message_id: str) -> int | None:
    """The sequence number inside an id, or None where the text cannot be one.

    Only a number to look up: the caller then compares the full id of the row it finds with the text that was given.
    """
    if len(message_id) != 36:
        return None
    try:
        return int(message_id[24:], 16)
    except ValueError:
        return None


def canonical(text: str) -> str:
    """A UUID in canonical form, however it was written. Raises ValueError for anything else."""
    # Callers send back what they were given; parsing it would take eight times as long.
    return text if _CANONICAL.fullmatch(text) else str(UUID(text))


def body_hash(body: bytes) -> bytes:
    return sha256(body).digest()


def dedup_key_of(dedup_id: str) -> bytes:
    """The dedup key of a name that a sender gives."""
    return sha256(dedup_id.encode("utf-8", "surrogatepass")).digest()[:KEY_BYTES]
