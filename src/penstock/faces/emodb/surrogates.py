r"""Lone surrogates: `"\ud800"` is a JSON string, but no text, and the parser refuses it.

Escapes of that kind are hidden from the parser behind a mark that does not occur in the document, and put back, digit
by digit as they came, into what it hands out.
"""

from __future__ import annotations

import re
from itertools import count

# A pair is one character, and any other escape hides what looks like one behind it: only a surrogate alone is a group.
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u([dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
# No name of a queue and no id of a message has such signs. The first and the last differ, so that none begins inside
# another.
_MARKS = re.compile(rb"~([0-9]{1,9})!")


def hide(document: bytes, fold: bool = False) -> tuple[bytes, bytes]:
    """The document without lone surrogates, and the mark they are hidden behind: empty where there are none. With
    `fold`, small and capital digits are the same."""
    if b"\\ud" not in document and b"\\uD" not in document:
        return document, b""
    taken = {int(number) for number in _MARKS.findall(document)}
    mark = b"~%d!" % next(number for number in count() if number not in taken)

    def put(found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            return found[0]
        return mark + (found[1].lower() if fold else found[1])

    hidden = _ESCAPES.sub(put, document)
    return (document, b"") if hidden == document else (hidden, mark)


def restore(part: bytes, mark: bytes) -> bytes:
    """A part of the document as it came."""
    return part.replace(mark, b"\\u") if mark else part
