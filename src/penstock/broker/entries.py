"""Entries in the log of actions: how a task writes down what it has done.

Tasks that administer have a field `by`. What they do is written down by the unit that does it, so that neither stands
without the other, and after it has succeeded, so that what fails leaves no entry. A store that keeps no such log is
administered all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from penstock import limits
from penstock.model import WHOLE, ActionKind, Actor, Move, Settings
from penstock.stores.protocol import Unit

_PLAIN = Settings()


def write_down(
    unit: Unit,
    by: Actor | None,
    what: ActionKind,
    now: int,
    queue: str | None = None,
    count: int | None = None,
    detail: str | None = None,
) -> None:
    """Where it is known who has done it, and the store keeps such a log."""
    if by is not None and unit.actions is not None:
        if detail is not None and len(detail) > limits.ACTION_DETAIL_LENGTH:
            detail = detail[: limits.ACTION_DETAIL_LENGTH - 1] + "…"
        unit.actions.record(by, what, now, queue, count, detail)


def detail_of(values: Mapping[str, object]) -> str | None:
    """As JSON; None where there is nothing to say."""
    return msgspec.json.encode(values).decode() if values else None


def settings_detail(settings: Settings) -> str | None:
    """What a new queue has otherwise than one that nothing was said about."""
    return detail_of({name: after for name, (_, after) in _changed(_PLAIN, settings).items()})


def change_detail(before: Settings, after: Settings) -> str | None:
    """Each setting that has changed, with its value before and after; None where none has."""
    return detail_of({name: {"from": old, "to": new} for name, (old, new) in _changed(before, after).items()})


def _changed(before: Settings, after: Settings) -> dict[str, tuple[object, object]]:
    """Of labels, only the keys are told: their values may be long, and may be secret."""
    found: dict[str, tuple[object, object]] = {}
    for name in Settings.__struct_fields__:
        old, new = getattr(before, name), getattr(after, name)
        if old == new:
            continue
        if name == "labels":
            keys = sorted(key for key in {**old, **new} if old.get(key) != new.get(key))
            found[name] = [key for key in keys if key in old], [key for key in keys if key in new]
        else:
            found[name] = _word(old), _word(new)
    return found


def _word(value: object) -> object:
    return value.name.lower() if isinstance(value, IntEnum) else value


def start_detail(move: Move) -> str | None:
    terms = {} if move.terms == WHOLE else {"terms": move.terms}
    claimed = {"claimed": True} if move.claimed else {}
    return detail_of({"move": move.id, "target": move.target, **terms, **claimed})


def end_detail(move: Move) -> str | None:
    error = {} if move.error is None else {"error": move.error}
    return detail_of({"move": move.id, "target": move.target, "status": move.status, "matched": move.matched, **error})
