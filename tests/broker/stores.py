"""A real store that keeps a record of its units, and fails where a test tells it to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.model import Happened
from penstock.stores.protocol import EVERYWHERE, NOUNS, Figures, Store, Unit

Verb = tuple[str, tuple[object, ...]]


@dataclass
class UnitRecord:
    """One unit: which verbs it was asked for, and whether it ended well."""

    number: int
    write: bool
    verbs: list[Verb] = field(default_factory=list)
    kept: bool = False

    def asked(self, name: str) -> list[tuple[object, ...]]:
        return [args for verb, args in self.verbs if verb == name]


class RecordedUnit:
    def __init__(self, unit: Unit, record: UnitRecord, on_verb: Callable[[UnitRecord, str, tuple], None]) -> None:
        self._unit = unit
        self._record = record
        self._on_verb = on_verb

    @property
    def stirred(self) -> set[str]:
        return self._unit.stirred

    @property
    def happened(self) -> Happened:
        return self._unit.happened

    @property
    def figures(self) -> Figures:
        """They are kept beside whatever a test is about, and leave no record."""
        return self._unit.figures

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._unit, name)
        if name in ("take_turns", "find_queue"):
            return verb  # they change nothing, and are asked where it helps
        if name in NOUNS:
            return RecordedUnit(verb, self._record, self._on_verb)

        def call(*args: object, **named: object) -> object:
            self._record.verbs.append((name, args))
            self._on_verb(self._record, name, args)
            return verb(*args, **named)

        return call


class RecordedStore:
    """The hooks raise to make a unit fail: before it begins, when it is asked for a verb, or at its very end."""

    def __init__(self, store: Store, inline: bool = True, lanes: int = 1) -> None:
        self.url = store.url
        self.limits = store.limits
        self.inline = inline
        self.lanes = lanes
        self.ahead_ms = 0
        self.units: list[UnitRecord] = []
        self.room = True
        self.changed = False
        self.overlaps = 0
        self.on_begin: Callable[[UnitRecord], None] = lambda _unit: None
        self.on_verb: Callable[[UnitRecord, str, tuple], None] = lambda _unit, _verb, _args: None
        self.on_end: Callable[[UnitRecord], None] = lambda _unit: None
        self._store = store
        self._in_use = threading.Lock()

    @property
    def sync_seconds(self) -> float:
        return self._store.sync_seconds

    @contextmanager
    def unit(self, write: bool = True) -> Iterator[Unit]:
        record = UnitRecord(len(self.units) + 1, write)
        self.units.append(record)
        with self._alone():
            self.on_begin(record)
            with self._store.unit(write) as unit:
                yield RecordedUnit(unit, record, self.on_verb)
                self.on_end(record)
            record.kept = True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._in_use.acquire(blocking=False):
            self.overlaps += 1
            raise AssertionError("a store is used from one thread at a time")
        try:
            yield
        finally:
            self._in_use.release()

    def has_room(self) -> bool:
        with self._alone():
            return self.room

    def tidy(self) -> None:
        self._store.tidy()

    def changed_elsewhere(self) -> Container[str]:
        with self._alone():
            changed, self.changed = self.changed, False
            return EVERYWHERE if changed else ()

    def close(self) -> None:
        self._store.close()

    def kept(self) -> list[UnitRecord]:
        return [unit for unit in self.units if unit.kept]


def failing(error: Exception, *numbers: int) -> Callable[[UnitRecord], None]:
    """A hook that raises in the units of these numbers."""

    def fail(unit: UnitRecord) -> None:
        if unit.number in numbers:
            raise error

    return fail


def failing_on_body(error: Exception, body: bytes) -> Callable[[UnitRecord, str, tuple], None]:
    """A hook that raises in every unit that is asked to send this body."""

    def fail(_unit: UnitRecord, verb: str, args: tuple) -> None:
        if verb == "send" and any(draft.body == body for draft in args[1]):
            raise error

    return fail
