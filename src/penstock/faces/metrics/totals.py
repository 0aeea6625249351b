"""What a process has counted since it began: plain numbers by family and labels, which can be added up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from penstock.broker import LocalBroker
from penstock.edge.http import Traffic

# By the key of a family, then by the values of its labels. A counter is one number; a histogram has one for each
# bucket, which counts what is in no bucket before it, and then the sum of all that was observed.
Numbers: TypeAlias = Mapping[tuple[str, ...], Sequence[float]]
ProcessTotals: TypeAlias = Mapping[str, Numbers]

REQUESTS = "requests"
REQUEST_SECONDS = "request_seconds"
WAIT_SECONDS = "wait_seconds"
UNIT_OPERATIONS = "unit_operations"
UNIT_SECONDS = "unit_seconds"
COMMIT_SECONDS = "commit_seconds"
SYNC_SECONDS = "sync_seconds"
UNITS_WRITTEN = "units_written"
STORE_ERRORS = "store_errors"
RETURNED_BYTES = "store_returned_bytes"
# Told even if there were none, so that the first is seen as a change.
_ERRORS = ("StoreBusy", "StoreFull", "StoreUnavailable", "StoreCorrupt", "StoreReadOnly", "other")


def total_of(parts: Iterable[ProcessTotals]) -> dict[str, dict[tuple[str, ...], list[float]]]:
    """All of them together."""
    whole: dict[str, dict[tuple[str, ...], list[float]]] = {}
    for part in parts:
        for key, numbers in part.items():
            family = whole.setdefault(key, {})
            for labels, more in numbers.items():
                known = family.get(labels)
                family[labels] = list(more) if known is None else [a + b for a, b in zip(known, more, strict=True)]
    return whole


def traffic_totals(traffics: Iterable[Traffic]) -> ProcessTotals:
    """Those that have been asked for: a route that no one uses has no series."""
    return total_of(map(_totals, _with_parts(traffics)))


def broker_totals(broker: LocalBroker) -> ProcessTotals:
    """What the broker of this process has asked of its store."""
    nothing: tuple[str, ...] = ()
    errors = {**dict.fromkeys(_ERRORS, 0), **broker.store_errors()}
    return {
        UNIT_OPERATIONS: {nothing: (*broker.unit_sizes(), broker.operations())},
        UNIT_SECONDS: {nothing: (broker.unit_seconds(),)},
        COMMIT_SECONDS: {nothing: (broker.commit_seconds(),)},
        SYNC_SECONDS: {nothing: (broker.sync_seconds(),)},
        UNITS_WRITTEN: {nothing: (broker.units_written(),)},
        RETURNED_BYTES: {nothing: (broker.returned_bytes(),)},
        STORE_ERRORS: {(kind,): (count,) for kind, count in errors.items()},
    }


def _totals(traffic: Traffic) -> ProcessTotals:
    labels = (traffic.api, traffic.method, traffic.route)
    return {
        REQUESTS: {(*labels, str(status)): (count,) for status, count in traffic.statuses.items()},
        REQUEST_SECONDS: {labels: (*traffic.buckets, traffic.seconds)} if any(traffic.buckets) else {},
        WAIT_SECONDS: {labels: (*traffic.wait_buckets, traffic.wait_seconds)} if any(traffic.wait_buckets) else {},
    }


def _with_parts(traffics: Iterable[Traffic]) -> Iterable[Traffic]:
    for traffic in traffics:
        yield traffic
        yield from traffic.parts.values()
