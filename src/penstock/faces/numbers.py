"""Numbers that a caller writes as text."""

from __future__ import annotations


def is_number(text: str) -> bool:
    """Whether a text is a whole number that is not negative and fits into 64 bits.

    `isdecimal()` alone takes the digits of every script, and `int()` takes signs, spaces and underscores.
    """
    return text.isascii() and text.isdecimal() and len(text) < 19
