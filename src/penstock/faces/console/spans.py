"""Spans of time, names and places in a list, as the queries of pages say them."""

from __future__ import annotations

from functools import partial

from penstock import durations
from penstock.errors import InvalidRequest
from penstock.faces.console.forms import Form
from penstock.faces.description import LARGEST
from penstock.faces.native.actions import LONGEST_NAME
from penstock.faces.native.requests import checked_word


def read_span(form: Form, now: int) -> tuple[int | None, int | None]:
    """From `since` until before `until`; None where nothing is said. What is wrong is noted with its field."""
    since, until = (_instant(form, name, now) for name in ("since", "until"))
    if since is not None and until is not None and since >= until:
        form.refuse("until", "this is not after the beginning")
    return since, until


def read_name(form: Form, field: str) -> str | None:
    """The name of a queue or a key, of which nothing is known but that it can be one."""
    if not form.text(field).strip():
        return None
    return form.read(field, lambda text: checked_word("a name", text.strip(), LONGEST_NAME))


def place(text: str | None) -> int | None:
    """A number of a row, from a link. What cannot be one is passed over: a link may be older than the page."""
    given = text or ""
    is_number = given.isascii() and given.isdecimal() and len(given) <= 18
    return int(given) if is_number and 0 < int(given) <= LARGEST else None


def _instant(form: Form, name: str, now: int) -> int | None:
    return form.read(name, partial(_read_instant, now)) if form.text(name).strip() else None


def _read_instant(now: int, text: str) -> int:
    try:
        return min(max(durations.parse_instant(text, now), 0), LARGEST)
    except (ValueError, ArithmeticError) as error:
        raise InvalidRequest("write it like 2h for two hours ago, 2026-05-01 or 2026-05-01T12:30, in UTC") from error
