"""The ledger: what became of messages, page by page, or handed over in numbered exports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from penstock.broker import pages
from penstock.broker.commit import Commit
from penstock.broker.operations import Again
from penstock.errors import ShipmentNotFound
from penstock.limits import Limits
from penstock.model import ClaimedExport, Counted, Export, ExportRef, LedgerFilter, LedgerRow, LedgerScan, Outcome
from penstock.pending import Pending
from penstock.stores.protocol import Unit, needed


class Ledger:
    def __init__(self, commit: Commit) -> None:
        self._commit = commit

    def rows(self, after: int, limit: int, wanted: LedgerFilter | None = None) -> Pending[list[LedgerRow]]:
        return self._commit.work(ListRows(after, limit, wanted))

    def latest(
        self,
        limit: int,
        wanted: LedgerFilter,
        outcomes: Sequence[Outcome] | None = None,
        below: int | None = None,
    ) -> Pending[LedgerScan]:
        return self._commit.work(ScanLedger(limit, wanted, outcomes, LedgerScan([], 0, below)))


class Exports:
    """What is older than the retention of the ledger is not read, whether or not it was swept."""

    def __init__(self, commit: Commit, ledger_retention_ms: int) -> None:
        self._commit = commit
        self._ledger_retention_ms = ledger_retention_ms

    def claim(self, ref: ExportRef, limit: int) -> Pending[ClaimedExport]:
        return self._commit.work(ClaimExport(ref, limit))

    def find(self, ref: ExportRef) -> Pending[Export]:
        return self._commit.work(FindExport(ref))

    def list(self, consumer: str | None, after: int, limit: int) -> Pending[Sequence[Export]]:
        return self._commit.work(ListExports(consumer, after, limit))

    def read(self, ref: ExportRef, after: int, limit: int) -> Pending[Sequence[LedgerRow]]:
        return self._commit.work(ReadExport(ref, after, limit, self._ledger_retention_ms))

    def settle(self, ref: ExportRef) -> Pending[Export]:
        return self._commit.work(SettleExport(ref))


class ListRows(Struct, frozen=True):
    """In steps, `so_far` from the one before. Those of one message are few."""

    after: int
    limit: int
    wanted: LedgerFilter | None
    so_far: Sequence[LedgerRow] = ()
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, limits: Limits) -> list[LedgerRow] | Again:
        ledger, wanted = needed(unit.ledger, "ledger"), self.wanted
        if wanted is not None and wanted.id is not None:
            return ledger.rows(self.after, self.limit, wanted)
        rows = pages.step_rows(self.limit, self.so_far, limits)
        read = ledger.rows(self.after, rows, wanted)
        page = [*self.so_far, *read]
        if pages.is_last(read, rows, page, self.limit, limits):
            return page
        return Again(ListRows(read[-1].number, self.limit, wanted, page))


class ScanLedger(Struct, frozen=True):
    """In steps, until enough is found, or enough was looked at."""

    limit: int
    wanted: LedgerFilter
    outcomes: Sequence[Outcome] | None
    so_far: LedgerScan
    writes: ClassVar[bool] = False

    def apply(self, unit: Unit, _now: int, limits: Limits) -> LedgerScan | Again:
        so_far = self.so_far
        limit = self.limit - len(so_far.rows)
        rows = min(limits.step_rows, limits.scan_rows - so_far.examined)
        ledger = needed(unit.ledger, "ledger")
        step = ledger.latest(so_far.below, limit, rows, self.wanted, self.outcomes)
        scan = LedgerScan([*so_far.rows, *step.rows], so_far.examined + step.examined, step.below)
        is_enough = len(scan.rows) >= self.limit or scan.examined >= limits.scan_rows
        if scan.below is None or is_enough or sum(len(row.body or b"") for row in scan.rows) >= limits.claim_bytes:
            return scan
        return Again(ScanLedger(self.limit, self.wanted, self.outcomes, scan))


class ClaimExport(Struct, frozen=True):
    """`counted` is how far its rows have been counted."""

    ref: ExportRef
    limit: int
    counted: Counted | None = None
    writes: ClassVar[bool] = True
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, limits: Limits) -> ClaimedExport | Again:
        ref = self.ref
        repeated = _find(unit, ref, now) is not None
        claimed = needed(unit.exports, "exports").claim(ref, self.limit, now, self.counted, limits.export_count_rows)
        if isinstance(claimed, Counted):
            return Again(ClaimExport(ref, self.limit, claimed))
        return ClaimedExport(claimed, repeated)


class FindExport(Struct, frozen=True):
    ref: ExportRef
    writes: ClassVar[bool] = False
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Export:
        export = _find(unit, self.ref, now)
        if export is None:
            raise ShipmentNotFound(self.ref)
        return export


class ListExports(Struct, frozen=True):
    consumer: str | None
    after: int
    limit: int
    writes: ClassVar[bool] = False
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Sequence[Export]:
        return needed(unit.exports, "exports").list(self.consumer, self.after, self.limit, now)


class ReadExport(Struct, frozen=True):
    """In steps, `so_far` from the one before."""

    ref: ExportRef
    after: int
    limit: int
    ledger_retention_ms: int
    so_far: Sequence[LedgerRow] = ()
    writes: ClassVar[bool] = False
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, limits: Limits) -> Sequence[LedgerRow] | Again:
        rows = pages.step_rows(self.limit, self.so_far, limits)
        ledger_before = now - self.ledger_retention_ms
        read = needed(unit.exports, "exports").read(self.ref, self.after, rows, now, ledger_before)
        page = [*self.so_far, *read]
        if pages.is_last(read, rows, page, self.limit, limits):
            return page
        return Again(ReadExport(self.ref, read[-1].number, self.limit, self.ledger_retention_ms, page))


class SettleExport(Struct, frozen=True):
    ref: ExportRef
    writes: ClassVar[bool] = True
    is_bulk: ClassVar[bool] = True

    def apply(self, unit: Unit, now: int, _limits: Limits) -> Export:
        return needed(unit.exports, "exports").settle(self.ref, now)


def _find(unit: Unit, ref: ExportRef, now: int) -> Export | None:
    after = needed(unit.exports, "exports").list(ref.consumer, ref.number - 1, 1, now)
    return next((export for export in after if export.number == ref.number), None)
