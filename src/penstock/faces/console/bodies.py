"""How bodies and words of messages are shown: as far as a page goes, and so that nothing in them can act.

What a browser would obey and no one would see, such as marks that turn the direction of text, is shown as its number.
Every form is made in time and space that its beginning bounds, whatever a body consists of.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

# How much of a body a page shows; the rest can be downloaded.
SHOWN_BYTES: Final = 64 * 1024
HEX_BYTES: Final = 16 * 1024
_PREVIEW_BYTES: Final = 400
_PREVIEW_LENGTH: Final = 120
_HEX_WIDTH: Final = 16
# Deeper values are not set in further: a line would be nothing but blanks.
_DEEPEST_INDENT: Final = 32

# Control characters but tab and new line, halves of characters, and whatever steers text without being seen. Joiners
# stay: scripts and emoji are made with them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_LINE_ENDS = re.compile("[\t\n]")
_BLANKS = re.compile(r"\s+")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{},:]|[^\s"\[\]{},:]+', re.DOTALL)


class BodyForm(StrEnum):
    JSON = "json"
    TEXT = "text"
    HEX = "hex"


class BodyView(Struct, frozen=True):
    """`cut` says that the body goes on. `forms` are those in which this body can be shown."""

    form: BodyForm
    forms: tuple[BodyForm, ...]
    text: str
    size: int
    cut: bool
    is_text: bool


def visible(text: str) -> str:
    """The text, with what cannot be seen as numbers: harmless in a page, and honest."""
    return _UNSEEN.sub(_number, text)


def one_line(text: str) -> str:
    return _LINE_ENDS.sub(_number, visible(text))


def _number(found: re.Match[str]) -> str:
    return f"⟨U+{ord(found[0]):04X}⟩"


def is_json_type(content_type: str | None) -> bool:
    media = (content_type or "").partition(";")[0].strip().lower()
    return media in ("application/json", "text/json") or media.endswith("+json")


def is_plain(body: bytes) -> bool:
    """Whether a form in a page brings it back as it was: text with nothing unseen in it, and with plain line ends."""
    text = _text(body)
    return text is not None and _UNSEEN.search(text) is None


def preview(body: bytes) -> str:
    """The beginning, on one line."""
    start = body[:_PREVIEW_BYTES]
    text = _text(start, len(body) > len(start))
    if text is None or "\x00" in text:
        return start[:_HEX_WIDTH].hex(" ") + (" …" if len(body) > _HEX_WIDTH else "")
    shown = visible(_BLANKS.sub(" ", text).strip())
    return shown if len(shown) <= _PREVIEW_LENGTH and len(body) == len(start) else shown[:_PREVIEW_LENGTH] + "…"


def view(body: bytes, content_type: str | None, wanted: str = "") -> BodyView:
    """In the form that is wanted, if the body has it, else in the one that tells most."""
    text = _text(body)
    is_json = text is not None and _is_json(body)
    forms = (BodyForm.JSON, BodyForm.TEXT, BodyForm.HEX) if is_json else (BodyForm.TEXT, BodyForm.HEX)
    form = next((one for one in forms if one == wanted), None) or _usual(body, text, content_type, is_json)
    shown, cut = _MAKERS[form](body)
    return BodyView(form, forms, shown, len(body), cut, text is not None)


def _usual(body: bytes, text: str | None, content_type: str | None, is_json: bool) -> BodyForm:
    if is_json and (is_json_type(content_type) or body.lstrip()[:1] in (b"{", b"[")):
        return BodyForm.JSON
    return BodyForm.HEX if text is None or "\x00" in text else BodyForm.TEXT


def _text(body: bytes, cut: bool = False) -> str | None:
    """As UTF-8, None where it is something else. One that was `cut` may end within a character."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        if cut and error.start >= len(body) - 3 and error.reason == "unexpected end of data":
            return body[: error.start].decode()
        return None


def _is_json(body: bytes) -> bool:
    return why_no_json(body) is None


def why_no_json(body: bytes) -> str | None:
    """What is wrong with a JSON text; None where it is one."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    return None


def _as_text(body: bytes) -> tuple[str, bool]:
    return visible(body[:SHOWN_BYTES].decode("utf-8", "replace")), len(body) > SHOWN_BYTES


def _as_hex(body: bytes) -> tuple[str, bool]:
    lines = []
    for start in range(0, min(len(body), HEX_BYTES), _HEX_WIDTH):
        row = body[start : start + _HEX_WIDTH]
        seen = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"{start:08x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  {seen}")
    return "\n".join(lines), len(body) > HEX_BYTES


def _as_json(body: bytes) -> tuple[str, bool]:
    """Set in, piece by piece, until there is enough of it: numbers stay as they are written, and a body that is made
    of brackets cannot become a million times as long."""
    pieces: list[str] = []
    length, depth, last = 0, 0, ""
    for found in _TOKEN.finditer(body.decode("utf-8", "replace")):
        piece = found[0]
        is_empty = piece in "]}" and last in ("[", "{")
        depth -= piece in "]}"
        if (last in ("[", "{", ",") and not is_empty) or (piece in "]}" and not is_empty):
            pieces.append("\n" + "  " * min(depth, _DEEPEST_INDENT))
        elif last == ":":
            pieces.append(" ")
        pieces.append(piece)
        depth += piece in "[{"
        last = piece
        length += len(piece) + 2 * min(depth, _DEEPEST_INDENT)
        if length > SHOWN_BYTES:
            return visible("".join(pieces)[:SHOWN_BYTES]), True
    return visible("".join(pieces)), False


_MAKERS: Final[dict[BodyForm, Callable[[bytes], tuple[str, bool]]]] = {
    BodyForm.JSON: _as_json,
    BodyForm.TEXT: _as_text,
    BodyForm.HEX: _as_hex,
}
