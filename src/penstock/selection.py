"""Which messages of a queue a move or a scan selects: by age, state, receives, content type, attributes, and what is
in the body."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from penstock import limits
from penstock.model import MessageState, Selection

_DOTTED = r"\.(?P<name>[A-Za-z_][A-Za-z0-9_-]*)"
_INDEX = r"\[(?P<index>0|[1-9][0-9]{0,8})\]"
_QUOTED = r'\[(?P<quoted>"(?:[^"\\]|\\.)*")\]'
_STEP = re.compile(f"{_DOTTED}|{_INDEX}|{_QUOTED}")
# A whole path, for those who only describe it: other dialects of patterns spell names of groups differently.
PATH_PATTERN = re.sub(r"\?P<\w+>", "", rf"^\$({_DOTTED}|{_INDEX}|{_QUOTED})*$")

_decode = msgspec.json.Decoder().decode
_MISSING = object()


def parse_path(text: str) -> list[str | int]:
    """The steps of a path such as `$.order.lines[0]["unit price"]`. Raises ValueError."""
    if len(text) > limits.PATH_LENGTH:
        raise ValueError(f"a path has at most {limits.PATH_LENGTH} characters")
    if not text.startswith("$"):
        raise ValueError("a path begins with $, as in $.order.lines[0]")
    steps: list[str | int] = []
    end = 1
    while end < len(text):
        found = _STEP.match(text, end)
        if found is None:
            raise ValueError(
                f"the path cannot be read from {text[end : end + 20]!r} on; it should be like $.order.lines[0]"
            )
        steps.append(_step(found))
        end = found.end()
    if len(steps) > limits.PATH_STEPS:
        raise ValueError(f"a path has at most {limits.PATH_STEPS} steps")
    return steps


def _step(found: re.Match[str]) -> str | int:
    if found["index"] is not None:
        return int(found["index"])
    if found["name"] is not None:
        return found["name"]
    try:
        return msgspec.json.decode(found["quoted"].encode(), type=str)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ValueError(f"{found['quoted']} is not a JSON string") from error


class Selector:
    """A selection, prepared for many messages."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._media_type = None if selection.content_type is None else _media_type(selection.content_type)
        self._text = None if selection.text is None else selection.text.encode("utf-8", "surrogatepass")
        self._path = None if selection.json is None else parse_path(selection.json.path)

    @property
    def reads_bodies(self) -> bool:
        """Whether it takes a message's body or attributes to tell."""
        return self._text is not None or self._path is not None or self._selection.attribute is not None

    def admits(self, sent_at: int, receives: int, content_type: str | None, state: MessageState) -> bool:
        """Whether a message is selected, as far as can be told without its body and attributes."""
        wanted = self._selection
        if wanted.state is not None and state is not wanted.state:
            return False
        if wanted.sent_until is not None and sent_at > wanted.sent_until:
            return False
        if wanted.sent_since is not None and sent_at < wanted.sent_since:
            return False
        if wanted.min_receives is not None and receives < wanted.min_receives:
            return False
        if wanted.max_receives is not None and receives > wanted.max_receives:
            return False
        return self._media_type is None or (content_type is not None and _media_type(content_type) == self._media_type)

    def finds(self, body: bytes, attributes: Mapping[str, str] | None) -> bool:
        """Whether the body and the attributes are selected."""
        wanted = self._selection.attribute
        if wanted is not None:
            value = None if attributes is None else attributes.get(wanted.name)
            if value is None or wanted.value not in (None, value):
                return False
        if self._text is not None and self._text not in body:
            return False
        if self._selection.json is None or self._path is None:
            return True
        return _is_same(_at(body, self._path), self._selection.json.value)


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()


def _at(body: bytes, path: Sequence[str | int]) -> object:
    """The value at a path of a JSON text, or _MISSING."""
    try:
        value = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _MISSING
    for step in path:
        is_index = isinstance(step, int) and isinstance(value, list) and step < len(value)
        is_name = isinstance(step, str) and isinstance(value, dict) and step in value
        if not (is_index or is_name):
            return _MISSING
        value = value[step]
    return value


def _is_same(found: object, wanted: object) -> bool:
    """1 and 1.0 are the same number, but 1 is not true."""
    return isinstance(found, bool) == isinstance(wanted, bool) and found == wanted
