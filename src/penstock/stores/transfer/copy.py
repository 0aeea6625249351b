"""The copy of one store, from the first mark to the last comparison.

    mark both ──► messages and ledger, page by page ──► all the rest, at once ──► compare everything ──► lift the mark

The mark on the source keeps servers from opening it, during the copy and after it; the one on the target does so until
the copy is complete. With the marks in place, programs that already have one of the two open are looked for.

It may be killed at any point. Rows are copied in the order of their keys, so the last row in the target says where to
continue. What has been copied is only good while the source stays as it was: the mark holds a fingerprint of the
source, and if that has changed, everything is copied again. At the end every row of both stores is read and compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Protocol

from penstock.clock import system_clock
from penstock.errors import InvalidSetting, MigrationFailed, PenstockError
from penstock.stores.sql.engine import Engine, RawSql, Row
from penstock.stores.transfer import marks
from penstock.stores.transfer.comparison import count, digest, fingerprint
from penstock.stores.transfer.marks import HANDOVER, MIGRATION, SPOILT, Handover, Migration, without_password
from penstock.stores.transfer.side import Paging, Side, open_side
from penstock.stores.transfer.tables import ALL, LONG, SHORT, TALLY, Table, pages


class Observer(Protocol):
    """It is told how far the copy is."""

    def say(self, text: str) -> None: ...

    def task(self, doing: str, total: int, done: int) -> AbstractContextManager[Callable[[int], None]]:
        """A part of the work, `total` rows long. It gives a function to call with the number of rows just done."""


@dataclass(frozen=True)
class Summary:
    """How many rows of each table have been copied, including those that earlier runs copied."""

    rows: dict[Table, int]
    seconds: float


def take_back(source_url: str) -> None:
    """Let servers open a store again that is being copied, or was. Raises InvalidSetting if it is neither."""
    source = open_side(source_url, must_exist=True)
    with closing(source.store), source.write() as raw:
        if HANDOVER.find(raw) is None:
            raise InvalidSetting("that store has not been copied: there is nothing to take back")
        HANDOVER.lift(raw)


def migrate(source_url: str, target_url: str, observer: Observer, paging: Paging = Paging()) -> Summary:
    """Copy everything in a store into an empty one, or finish doing so. A finished copy is compared again.

    Raises InvalidSetting if the two cannot be a source and a target, or one of them is in use, and then nothing was
    copied; MigrationFailed if the source has changed meanwhile, or the copy is not right, and then the next run starts
    over. After any other error the next run continues.
    """
    started_at = time.monotonic()
    source = open_side(source_url, must_exist=True, paging=paging)
    with closing(source.store):
        target = open_side(target_url, must_exist=False, paging=paging)
        with closing(target.store):
            rows = _Copy(source, target, observer).run()
    return Summary(rows, time.monotonic() - started_at)


class _Copy:
    def __init__(self, source: Side, target: Side, observer: Observer) -> None:
        self._source = source
        self._target = target
        self._observer = observer
        self._run = token_hex(16)
        self._address = without_password(target.store.url)
        self._begun = False

    def run(self) -> dict[Table, int]:
        with self._source.write() as raw:
            earlier = HANDOVER.find(raw)
            HANDOVER.put(raw, replace(earlier or Handover(self._address, ""), run=self._run))
        try:
            self._refuse_other_users()
            with self._target.read() as raw:
                found = MIGRATION.find(raw)
            if found is None and self._source.identity == self._target.identity:
                return self._compare_again(earlier)
            return self._copy_all(found, earlier)
        except BaseException:
            if earlier is None and not self._begun:
                with suppress(PenstockError), self._source.write() as raw:
                    HANDOVER.lift(raw)
            raise

    def _refuse_other_users(self) -> None:
        """A process that opens the source from now on sees the mark; one that has it open already is found here."""
        with self._target.read() as raw:
            there = HANDOVER.find(raw)
        if there is not None and there.run == self._run:
            raise InvalidSetting("both are the same store")
        if self._source.store.probe_other_users():
            raise InvalidSetting(
                "a server or another program has the first store open: stop it before the store is copied; nothing was "
                "copied"
            )

    def _refuse_other_users_of_target(self) -> None:
        """The target has its mark now, so no server opens it any more. One that has it open already would know neither
        the keys nor the ids of what is copied."""
        if not self._target.store.probe_other_users():
            return
        with self._writing() as raw:
            MIGRATION.lift(raw)
        self._begun = False
        raise InvalidSetting(
            "a server or another program has the second store open: stop it before anything is copied there; nothing "
            "was copied"
        )

    def _compare_again(self, earlier: Handover | None) -> dict[Table, int]:
        """The target is complete and may be in use already: nothing is written to it."""
        self._observer.say("the second store is a finished copy of the first: comparing them again")
        self._before = fingerprint(self._source)
        copied, wrong = self._differences()
        if not wrong:
            self._hand_over()
            return copied
        if earlier is not None and earlier.fingerprint == self._before.text:
            raise InvalidSetting(
                "the second store is a finished copy of the first and has been used since; nothing is missing in it"
            )
        raise MigrationFailed(
            f"the first store has changed since it was copied to the second (which has {', '.join(wrong)}): if the "
            "second has not been used yet, drop it and run the command again, else send what it lacks once more; "
            "nothing was changed"
        )

    def _hand_over(self) -> None:
        done = Handover(self._address, self._run, self._before.text, system_clock())
        with self._source.write() as raw:
            HANDOVER.put(raw, done)

    def _copy_all(self, found: Migration | None, earlier: Handover | None) -> dict[Table, int]:
        self._refuse(found)
        if found is None and earlier is not None and earlier.finished_at:
            raise InvalidSetting(
                f"the first store was copied to {earlier.target} already; to copy it again, take it back first with "
                f"'penstock migrate-store --take-back {without_password(self._source.store.url)}'"
            )
        self._observer.say("looking at the source")
        self._before = fingerprint(self._source)
        if self._before.is_of_nothing:
            raise InvalidSetting("there is nothing to copy: no queue, no message and no API key is in that store")
        self._take(found)
        if found is None:
            self._refuse_other_users_of_target()
        for table, rows in zip(LONG, (self._before.messages, self._before.ledger), strict=True):
            self._copy(table, rows)
        self._copy_short_tables()
        copied = self._compare()
        # In this order: between the two, neither store can be used, and never can both.
        self._hand_over()
        with self._writing() as raw:
            MIGRATION.lift(raw)
        return copied

    def _refuse(self, found: Migration | None) -> None:
        if found is None:
            with self._target.read() as raw:
                self._refuse_full(raw)
        elif found.source != self._source.identity:
            raise InvalidSetting(f"the target holds the unfinished copy of another store, {found.address}")

    @staticmethod
    def _refuse_full(raw: RawSql[Engine]) -> None:
        for table in ALL:
            if raw.rows(f"SELECT 1 FROM {table.source} LIMIT 1"):
                raise InvalidSetting(
                    f"the target is not empty: it holds at least one {table.noun}; nothing was changed"
                )

    def _take(self, found: Migration | None) -> None:
        """Make this run the one that fills the target, and drop what an earlier run copied from another state."""
        self._begun = True
        target, now = self._target, self._before.text
        if found is None:
            with target.write() as raw:
                self._refuse_full(raw)
                address = without_password(self._source.store.url)
                MIGRATION.put(raw, Migration(self._source.identity, address, now, self._run))
            return
        with target.write() as raw:
            marks.take_over(raw, self._run)
            if found.fingerprint != now:
                marks.note_fingerprint(raw, SPOILT)
        if found.fingerprint == now:
            self._observer.say("going on where an earlier run ended")
            return
        self._observer.say("the source has changed since the last run: starting over")
        for table in LONG:
            with self._writing() as raw:
                raw.run(f"{target.dialect.emptying} {table.name}")
        with self._writing() as raw:
            marks.note_fingerprint(raw, now)

    @contextmanager
    def _writing(self) -> Iterator[RawSql[Engine]]:
        with self._target.write() as raw:
            marks.hold(raw, self._run)
            yield raw

    def _copy(self, table: Table, rows: int) -> None:
        target = self._target
        with target.read() as raw:
            [(last,)] = raw.rows(f"SELECT coalesce(max({table.columns[0]}), 0) FROM {table.name}")
        done = count(target, table) if last else 0
        with self._observer.task(f"copying {table.noun}s", rows, done) as advance:
            for page in pages(self._source, table, last):
                self._notice_sends()
                with self._writing() as raw:
                    self._insert(raw, table, page)
                advance(len(page))

    def _insert(self, raw: RawSql[Engine], table: Table, page: list[Row]) -> None:
        dialect, columns = self._target.dialect, table.columns
        if table is TALLY and dialect.has_slots:
            columns, page = (*columns, "slot"), [(*row, 0) for row in page]
        dialect.insert(raw, table.name, columns, page)

    def _notice_sends(self) -> None:
        """Now rather than after hours. All other changes are found at the end."""
        with self._source.read() as raw:
            if raw.last_seq() != self._before.counters.seq:
                raise self._spoilt("the source has changed")

    def _copy_short_tables(self) -> None:
        target = self._target
        with self._writing() as raw:
            for table in SHORT:
                raw.run(f"DELETE FROM {table.name}")
                for page in pages(self._source, table):
                    self._insert(raw, table, page)
            raw.run("UPDATE store SET origin = ?, secret = ?", (self._source.origin, self._source.secret))
        with self._writing() as raw:
            target.dialect.go_on_after(raw, self._before.counters)

    def _compare(self) -> dict[Table, int]:
        """The source must still be as it was after its last row was read."""
        copied, wrong = self._differences()
        if fingerprint(self._source) != self._before:
            raise self._spoilt("the source has changed")
        if wrong:
            raise self._spoilt(f"the copy is not right ({', '.join(wrong)})")
        return copied

    def _differences(self) -> tuple[dict[Table, int], list[str]]:
        """Read every row of both stores. Returns how many the target has, and what is not the same."""
        copied = {}
        wrong = []
        rows = self._before.messages + self._before.ledger + sum(count(self._target, table) for table in LONG)
        with self._observer.task("comparing rows", rows, 0) as advance:
            for table in ALL:
                there = digest(self._source, table, advance if table in LONG else None)
                here = digest(self._target, table, advance if table in LONG else None)
                copied[table] = here.rows
                if here != there:
                    wrong.append(f"{here.rows} of {there.rows} {table.noun}s")
        with self._target.read() as raw:
            counters = self._target.dialect.counters(raw)
        if counters.seq < self._before.counters.seq or counters.ledger < self._before.counters.ledger:
            wrong.append("its counters")
        return copied, wrong

    def _spoilt(self, what: str) -> MigrationFailed:
        with self._writing() as raw:
            marks.note_fingerprint(raw, SPOILT)
        return MigrationFailed(
            f"{what}: stop every server and every program that uses one of the two stores, and run the command again; "
            "it starts over"
        )
