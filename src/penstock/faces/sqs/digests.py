"""MD5 sums, as every SDK computes them again over what it has sent and received."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import md5
from typing import Final

_TEXT: Final = b"\x01"
_BINARY: Final = b"\x02"


def of_body(body: bytes) -> str:
    return md5(body, usedforsecurity=False).hexdigest()


def of_attributes(attributes: Iterable[tuple[str, str, str | bytes]]) -> str | None:
    """Of names, types and values; None where there are none. Each part is preceded by its length, and each value by
    whether it is binary, which its type says whatever label it has."""
    parts: list[bytes] = []
    for name, data_type, value in sorted(attributes, key=_name):
        parts += _measured(name.encode())
        parts += _measured(data_type.encode())
        parts.append(_BINARY if isinstance(value, bytes) else _TEXT)
        parts += _measured(value if isinstance(value, bytes) else value.encode())
    return md5(b"".join(parts), usedforsecurity=False).hexdigest() if parts else None


def _name(attribute: tuple[str, str, str | bytes]) -> str:
    return attribute[0]


def _measured(part: bytes) -> tuple[bytes, bytes]:
    return len(part).to_bytes(4, "big"), part
