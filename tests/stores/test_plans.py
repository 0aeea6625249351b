"""What SQLite reads for the statements whose cost must not grow with what a store has seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.model import LedgerFilter
from penstock.stores import Unit, open_store
from penstock.stores.sql.apsw_engine import ApswEngine
from tests.stores.conftest import Verbs

HOUR_MS = 60 * 60 * 1000


@pytest.fixture
def verbs(tmp_path: Path) -> Iterator[Verbs]:
    with closing(open_store(f"sqlite:///{tmp_path}/penstock.db")) as store:
        yield Verbs(store)


@pytest.fixture
def scans(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Unit], Any]], list[str]]:
    """The tables that a verb reads from end to end."""

    def scans(verb: Callable[[Unit], Any]) -> list[str]:
        seen: list[tuple[str, Sequence[object]]] = []
        with monkeypatch.context() as patched, verbs.unit() as unit:
            for name in ("rows", "run"):
                method = getattr(ApswEngine, name)

                def spy(engine: ApswEngine, sql: str, params: Sequence[object] = (), method: Any = method) -> Any:
                    seen.append((sql, params))
                    return method(engine, sql, params)

                patched.setattr(ApswEngine, name, spy)
            verb(unit)
        found = []
        with verbs.unit() as unit:
            for sql, params in seen:
                if sql.lstrip().startswith(("SELECT", "UPDATE", "DELETE")):
                    plan = unit.session.engine.rows(f"EXPLAIN QUERY PLAN {sql}", params)
                    found += [step[3] for step in plan if step[3].startswith("SCAN") and "VIRTUAL" not in step[3]]
        return found

    return scans


def test_a_deletion_does_not_read_all_queues(verbs, scans):
    for name in "abc":
        verbs.create(name)
    assert scans(lambda unit: unit.delete_queue("b", verbs.now)) == []


def test_the_sweep_of_deleted_queues_meets_only_those_that_have_work_for_it(verbs):
    for name in ("living", "full", "empty", "last"):
        verbs.create(name)
    verbs.send(b"x", to="full")
    verbs.ack(*verbs.claim(queue="full"))
    for name in ("full", "empty"):
        verbs.delete(name)

    def swept() -> tuple[list[str], list[str]]:
        """The queues there are rows for, and those that the next sweep looks at."""
        verbs.sweep()
        with verbs.unit(write=False) as unit:
            rows = unit.session.engine.rows("SELECT name, due_at FROM queue ORDER BY number")
        return [name for name, _ in rows], [name for name, due_at in rows if due_at is not None and due_at <= verbs.now]

    assert swept() == (["living", "full", "empty", "last"], [])
    verbs.now += 2 * HOUR_MS
    assert swept() == (["living", "full", "last"], [])  # the ledger still names one of them
    verbs.now += 2 * HOUR_MS
    verbs.sweep(ledger_before=verbs.now)
    verbs.now += 2 * HOUR_MS
    assert swept() == (["living", "last"], [])
    with verbs.unit(write=False) as unit:
        assert unit.session.engine.rows("SELECT queue FROM tally ORDER BY queue") == [(0,), (1,), (4,)]


@pytest.mark.parametrize(
    "wanted",
    [
        LedgerFilter(queue="q"),
        LedgerFilter(since=5),
        LedgerFilter(queue="q", before=5),
        LedgerFilter(id="00000000-0000-7000-8000-000000000001"),
    ],
)
def test_a_filtered_page_does_not_read_the_ledger_from_its_start(verbs, scans, wanted):
    verbs.create()
    verbs.send(*(b"%d" % number for number in range(20)))
    verbs.ack(*verbs.claim())
    tables = [step for step in scans(lambda unit: unit.ledger.rows(0, 10, wanted)) if step != "SCAN part"]
    assert tables == []
