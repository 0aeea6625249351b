"""The filter of messages: read from a query, by the checks of the native API, and written into links and forms."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from penstock import durations
from penstock.errors import InvalidRequest
from penstock.faces.bodies import unreadable
from penstock.faces.console.forms import Form, whole_number
from penstock.faces.native.filters import FilterJson, MoveFilter, ages_of, selection_of
from penstock.limits import INT32_MAX
from penstock.model import Ages, MessageState, Selection

# The fields, in the order of the form.
FIELDS: Final = (
    *("text", "path", "value", "attribute", "attribute_value", "state", "older_than", "newer_than"),
    *("min_receives", "max_receives", "content_type"),
)
STATES: Final = tuple(state.value for state in MessageState)


class MessageFilter:
    """As it was asked for. Where something is wrong with it, `form` says what, and nothing is meant."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = {name: given[name] for name in FIELDS if given.get(name, "").strip()}
        self.form = Form({name: [value] for name, value in self.given.items()})
        self.selection = Selection()
        self.ages = Ages()
        read = self._read()
        if not self.form.errors:
            self.selection, self.ages = selection_of(read), ages_of(read)

    @property
    def is_wrong(self) -> bool:
        return bool(self.form.errors)

    @property
    def is_empty(self) -> bool:
        return not self.given

    def words(self) -> list[tuple[str, str]]:
        """What is asked for, for people."""
        given, told = self.given, []
        if "text" in given:
            told.append(("body has", given["text"]))
        if "path" in given:
            told.append((given["path"].strip(), f"= {given.get('value', '')}"))
        if "attribute" in given:
            told.append((f"attribute {given['attribute']}", f"= {given.get('attribute_value') or 'anything'}"))
        names = {"older_than": "older than", "newer_than": "newer than", "min_receives": "receives at least"}
        names |= {"max_receives": "receives at most", "content_type": "content type", "state": "state"}
        return told + [(words, given[name]) for name, words in names.items() if name in given]

    def _read(self) -> MoveFilter:
        form, values = self.form, dict[str, Any]()
        for name in ("older_than", "newer_than"):
            if name in self.given:
                values[f"{name}_ms"] = form.read(name, partial(_age, name))
        for name in ("min_receives", "max_receives"):
            if name in self.given:
                values[name] = form.read(name, lambda text: whole_number(text, "it", 0, INT32_MAX))
        for name in ("text", "content_type", "state"):
            if name in self.given:
                values[name] = form.read(name, partial(_checked, name))
        self._read_pairs(values)
        return MoveFilter() if form.errors else msgspec.convert(values, MoveFilter)

    def _read_pairs(self, values: dict[str, Any]) -> None:
        """A path or a name, each with a value of its own."""
        form = self.form
        if "path" in self.given:
            form.read("path", self._json_at)
            values["json"] = {"path": self.given["path"].strip(), "value": _scalar(self.given.get("value", ""))}
        elif "value" in self.given:
            form.refuse("path", "say where the value stands, as in $.order.id")
        if "attribute" in self.given:
            wanted = {"name": self.given["attribute"], "value": self.given.get("attribute_value")}
            form.read("attribute", lambda _text: _checked("attribute", wanted))
            values["attribute"] = wanted
        elif "attribute_value" in self.given:
            form.refuse("attribute", "name the attribute that has this value")

    def _json_at(self, path: str) -> Selection:
        value = _scalar(self.given.get("value", ""))
        return selection_of(MoveFilter(json=FilterJson(path.strip(), value)))


def _age(name: str, text: str) -> int:
    try:
        ms = durations.parse_duration(text)
    except (ValueError, ArithmeticError) as error:
        raise InvalidRequest("write it like 30s, 5m, 2h or 1d") from error
    _checked(f"{name}_ms", ms)
    return ms


def _checked(name: str, value: object) -> Any:
    """A value as the native API takes it in a field of its filter."""
    try:
        return getattr(msgspec.convert({name: value}, MoveFilter), name)
    except msgspec.ValidationError as error:
        raise unreadable("this does", MoveFilter, error) from error


def _scalar(text: str) -> str | int | float | bool | None:
    """What was typed, as JSON where it is a number, a boolean, null or a text in quotes; else it is a text itself."""
    try:
        return msgspec.json.decode(text.strip(), type=str | int | float | bool | None)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text.strip()
