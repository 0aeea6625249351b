"""The whole verification of one store: what its database says of itself, every rule, and what takes more than a
statement."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256

import msgspec

from penstock import keys
from penstock.errors import InvalidRequest, StoreCorrupt
from penstock.stores.sql import runs
from penstock.stores.sql.engine import Row
from penstock.stores.sql.keys import read_rules, still_known
from penstock.stores.sql.runs import Run
from penstock.stores.verification import rules
from penstock.stores.verification.snapshot import Snapshot, snapshot

# Messages that are looked at together; their bodies may be large.
_PAGE_ROWS = 10_000
_BODY_ROWS = 64

CHECKS = (
    "file", "store", "queues", "messages", "tallies", "ledger", "numbers", "lines", "shipments", "moves",
    "dead letters", "keys", "bodies",
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """`queue` is where, if it is in one."""

    check: str
    queue: str | None
    text: str


@dataclass
class Soundness:
    checks: tuple[str, ...]
    counts: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_sound(self) -> bool:
        return not self.findings


def verify(url: str, note: Callable[[str], None], *, bodies: bool = False) -> Soundness:
    """Read one moment of the store. `note` is told what is looked at next. With `bodies`, every body is read, too."""
    started_at = time.monotonic()
    try:
        with snapshot(url) as shot:
            verdict = _Verification(shot, note).run(bodies)
    except StoreCorrupt as error:
        # Where it says which tables it has, so that nothing else can be asked.
        verdict = Soundness(("file",), findings=[Finding("file", None, f"it could not be read: {error}")])
    verdict.seconds = time.monotonic() - started_at
    return verdict


class _Verification:
    def __init__(self, shot: Snapshot, note: Callable[[str], None]) -> None:
        self._shot = shot
        self._note = note
        self._findings: list[Finding] = []

    def run(self, bodies: bool) -> Soundness:
        parts: dict[str, list[Callable[[], None]]] = defaultdict(list)
        parts["file"].append(self._ask_database)
        for rule in rules.RULES:
            parts[rule.check].append(lambda rule=rule: self._apply(rule))  # type: ignore[misc]
        parts["numbers"].append(self._compare_numbers)
        parts["shipments"].append(self._compare_shipments)
        parts["keys"].append(self._read_keys)
        if bodies:
            parts["bodies"].append(self._read_bodies)
        checks = tuple(check for check in CHECKS if check in parts)
        counts: dict[str, int] = {}
        for check in checks:
            self._note(check)
            self._try(check, *parts[check])
        self._try("file", lambda: counts.update({name: self._number(sql) for name, sql in rules.COUNTS.items()}))
        return Soundness(checks, counts, self._findings)

    def _try(self, check: str, *parts: Callable[[], None]) -> None:
        """A damaged page stops one statement, and the others still tell something."""
        for part in parts:
            try:
                part()
            except StoreCorrupt as error:
                self._find(check, None, f"it could not be read: {error}")

    def _find(self, check: str, queue: str | None, text: str) -> None:
        self._findings.append(Finding(check, queue, text))

    def _number(self, sql: str) -> int:
        [(number,)] = self._shot.rows(sql)
        return int(number)

    def _ask_database(self) -> None:
        for complaint in self._shot.own_complaints():
            self._find("file", None, complaint)

    def _apply(self, rule: rules.Rule) -> None:
        for queue, *values in self._shot.rows(f"{rule.sql} LIMIT {rules.MOST_FOUND}"):
            told = [int(value) if isinstance(value, Decimal) else value for value in values]
            self._find(rule.check, queue, rule.text.format(*told))

    def _compare_numbers(self) -> None:
        given = self._number(self._shot.last_seq)
        for noun, sql in rules.NUMBERED.items():
            highest = self._number(sql)
            if highest > given:
                self._find("numbers", None, f"{noun} have the sequence number {highest:,}, but the last is {given:,}")
        given = self._number(self._shot.last_ledger_number)
        for noun, sql in rules.LEDGER_NUMBERED.items():
            highest = self._number(sql)
            if highest > given:
                self._find("numbers", None, f"{noun} have row {highest:,} of the ledger, but the last is {given:,}")

    def _compare_shipments(self) -> None:
        """A message that says it is in a shipment must be in one, or nothing will ever make it ready again."""
        held: defaultdict[int, list[Run]] = defaultdict(list)
        for queue, name, consumer, number, state, messages, cleared, kept, text in self._shot.rows(rules.HOLDING):
            try:
                which = runs.decode(text)
            except (ValueError, msgspec.MsgspecError):
                self._find("shipments", name, f"the messages of shipment {number} of {consumer!r} cannot be read")
                continue
            count = sum(last - first + 1 for first, last in which)
            if count != messages:
                text = f"shipment {number} of the consumer {consumer!r} has {messages:,} messages, but names {count:,}"
                self._find("shipments", name, text)
            if state in ("gathering", "open") or cleared < messages or kept:
                held[queue] += which
        for intervals in held.values():
            intervals.sort()
        stray: Counter[str] = Counter()
        for seq, queue, name in self._pages(rules.SHIPPED, _PAGE_ROWS):
            intervals = held[queue]
            place = bisect_right(intervals, (seq, 1 << 62)) - 1
            if place < 0 or intervals[place][1] < seq:
                stray[name] += 1
        for name, lost in sorted(stray.items()):
            self._find("shipments", name, f"{lost:,} messages are in a shipment that does not exist")

    def _read_keys(self) -> None:
        """A server reads them all at its start, so one that cannot be read is the end of all others."""
        for name, text, ended in self._shot.rows(rules.KEYS):
            try:
                keys.check_name(name)
                keys.check_rules(read_rules(text))
                still_known(ended, 0, 0)
            except (ValueError, msgspec.MsgspecError, InvalidRequest) as error:
                self._find("keys", None, f"the API key {name[:80]!r} cannot be read: {error}")

    def _read_bodies(self) -> None:
        wrong: Counter[str | None] = Counter()
        for _, name, body_hash, body in self._pages(rules.BODIES, _BODY_ROWS):
            if sha256(body).digest() != bytes(body_hash):
                wrong[name] += 1
        for queue, count in wrong.items():
            self._find("bodies", queue, f"{count:,} bodies differ from their hashes")

    def _pages(self, sql: str, limit: int) -> Iterator[Row]:
        """Rows whose first column is a sequence number, in its order."""
        after = 0
        while page := self._shot.rows(sql.format(after=after, limit=limit)):
            yield from page
            after = page[-1][0]
