"""Errors on their way from the committer to an edge: each by its name, with its text and what else it knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock import errors
from penstock.bridge.calls import Failure
from penstock.errors import PenstockError


def _all(kind: type[PenstockError]) -> Iterator[type[PenstockError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _all(narrower)


_KINDS = {kind.__name__: kind for kind in _all(PenstockError) if kind.__module__ == errors.__name__}
_UNFORESEEN = ""


class Unforeseen(Exception):
    """An error that no one has foreseen. It was logged where it happened."""


def failure(number: int, error: Exception) -> Failure:
    name = type(error).__name__
    if _KINDS.get(name) is not type(error):
        return Failure(number, _UNFORESEEN, name, {})
    facts: dict[str, Any] = vars(error)
    return Failure(number, name, str(error), facts)


def error_of(failed: Failure) -> Exception:
    kind = _KINDS.get(failed.kind)
    if kind is None:
        return Unforeseen(failed.text)
    # Not by its constructor, which would make a text of a text.
    error: PenstockError = kind.__new__(kind)
    error.args = (failed.text,)
    vars(error).update(failed.facts)
    return error
