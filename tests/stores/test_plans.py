"""What the databases read for our statements: none of them reads a whole table that grows.

Every statement with a name is asked for its plan, on tables that are full enough for a planner to care, with the
settings that the store gives its connections.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest

from penstock.stores import open_store
from penstock.stores.sql.engine import RawSql
from penstock.stores.transfer import tables
from penstock.stores.transfer.side import Side, open_side
from penstock.stores.transfer.tables import Table
from tests.stores.conftest import Verbs
from tests.stores.test_statements import all_statements

HOUR_MS = 60 * 60 * 1000
ROWS = 2_000
QUEUES = 40
NOW = 1_000_000

# Statements that read a table from end to end, or in the order of an index until their LIMIT is reached.
EVERYWHERE = {
    "QueueSql.page": "queue: a page in the order of creation; it ends with its LIMIT",
    "QueueSql.count": "queue: how many there are, which a page of them tells",
    "SweepSql.queues_due": "queue: the sweep looks at every living queue, and at one message of each",
    "SweepSql.queues_expired": "queue: the same",
    "LedgerSql.oldest": "ledger: the first rows by number; it ends with its LIMIT",
    "ExportSql.page": "export: a page of all consumers; it ends with its LIMIT",
    "ConsumerSql.dead": "consumer: one row for each process at work",
    "KeySql.count": "api_key: at most a thousand",
    "KeySql.all": "api_key: the same",
    "MoveSql.forget": "move: those of one day",
}
# What MariaDB reads by an index of another shape.
NOT_ON_MARIADB = {
    "ShipmentSql.not_ended": "shipment: all that are in the index of open ones",
    "TwinSql.queues": "collapse: keys with twins left over, of which there are few; it ends with its LIMIT",
    "MoveSql.under_way": "move: all that are in the index of unfinished ones",
    "MoveSql.unfinished": "move: the same",
    "MoveSql.latest": "move: those of one day",
}
PERMITTED: dict[str, dict[str, str]] = {
    "sqlite": EVERYWHERE
    | NOT_ON_MARIADB
    | {"SqliteSql.empty_queues": "queue: asked when another process has changed the store, which does not say where"},
    "postgresql": EVERYWHERE | NOT_ON_MARIADB,
    "mariadb": EVERYWHERE
    | {
        "MariaSql.writers": "ledger_writer: a row for each of the last units that have written into the ledger",
        "MariaSql.writers_since": "ledger_writer: the same",
    },
}

# What only MariaDB has: a copy of a store leaves these out.
MARIADB_ALONE = {"ticket": ("seq",), "ledger_writer": ("entry", "since")}

# What is there for a parameter, by the column it is compared with. Elsewhere it is a number.
SAMPLES: dict[str, Any] = {
    "name": "q7",
    "api_key": "k7",
    "what": "w7",
    "queue_name": "q7",
    "consumer": "c7",
    "send_key": b"k7",
    "dedup_key": b"d7",
    "attempt_key": b"a7",
    "grp": b"g7",
    "state": "settled",
    "tablename": "message",
    "table_name": "message",
}
SAMPLES_BELOW = {"name": "q9"}
BOUNDS = {"=": 7, "<>": 7, "+": 7, ">": 100, ">=": 100, "<": 1_500, "<=": 1_500}


# What a row of a table is filled with. Columns that are not here hold the number of the row.
TEXTS = {
    "api_key": "k{}",
    "by_key": "k{}",
    "by_via": "native",
    "detail": "{{}}",
    "via": "native",
    "what": "w{}",
    "queue_name": "q{}",
    "consumer": "c{}",
    "delivery": "at_least_once",
    "held": "[]",
    "holder": "h{}",
    "holding": "[]",
    "name": "q{}",
    "rules": "[]",
    "runs": "[1,1]",
    "source": "q{}",
    "state": "settled",
    "status": "COMPLETE",
    "stored_in": "a lake",
    "target": "q{}",
}
OCTETS = {
    "attempt_key": b"a%d",
    "body": b"b%d",
    "body_hash": b"h%d",
    "dedup_key": b"d%d",
    "digest": b"g%d",
    "grp": b"g%d",
    "old_digest": b"o%d",
    "send_key": b"k%d",
}
EMPTY = {
    "attributes",
    "came_from",
    "content_type",
    "deadline_at",
    "deleted_at",
    "ended_sessions",
    "error",
    "labels",
    "revoked_at",
    "terms",
}


def value(table: Table, column: str, number: int) -> object:
    if column in EMPTY or (table is tables.QUEUE and column in ("dead_letter_queue", "due_at")):
        return None
    if column in OCTETS:
        return OCTETS[column] % number
    if column in TEXTS:
        return TEXTS[column].format(number)
    if column == "id" and table.key_is_text:
        return f"x{number}"
    if column == "queue" and table is not tables.TALLY:
        return (number - 1) % QUEUES + 1
    if column == "ready_at":
        return 0 if number % 2 else NOW + number
    return number


def fill(side: Side) -> None:
    for table in tables.ALL:
        columns = (*table.columns, "slot") if table is tables.TALLY and side.dialect.has_slots else table.columns
        count = QUEUES if table in (tables.QUEUE, tables.TALLY) else ROWS
        rows = [tuple(value(table, column, number) for column in columns) for number in range(1, count + 1)]
        with side.write() as raw:
            side.dialect.insert(raw, table.name, columns, rows)
    with side.write() as raw:
        for name, columns in MARIADB_ALONE.items():
            if raw.has_table(name):
                side.dialect.insert(raw, name, columns, [(number,) * len(columns) for number in range(1, ROWS + 1)])


def asked(text: str) -> list[str]:
    """The statements of a text that read something before they answer or write. Some texts have several."""
    parts = [part.strip() for part in text.split(";")]
    return [part for part in parts if re.match(r"SELECT|WITH|UPDATE|DELETE|INSERT\b.*\bSELECT\b", part, re.DOTALL)]


def parameters(text: str, sign: str) -> Iterator[tuple[str, Any]]:
    """Of a statement: what stands before each parameter, and what may well be given for it."""
    is_by_name = re.search(r"\b(move|consumer) (SET .*)?\s*WHERE id\b", text, re.DOTALL)
    before = text.split(sign)
    for part in before[:-1]:
        if re.search(r"\bANY\($|unnest\($|\], $", part):
            yield part, [1, 2, 3]
        elif re.search(r"carray\($", part):
            yield part, None
        elif re.search(r"\bIN $", part):
            yield part, (1, 2, 3)
        elif part.endswith("BETWEEN "):
            yield part, BOUNDS[">"]
        elif part == " AND ":
            yield part, BOUNDS["<"]
        else:
            found = re.search(r"(\w+)\)? (=|<>|<|<=|>|>=|\+) $", part)
            column, how = found.groups() if found else ("", "=")
            sample = SAMPLES_BELOW.get(column) if how == "<" else None
            yield part, "x7" if column == "id" and is_by_name else sample or SAMPLES.get(column, BOUNDS[how])


class Planner(Protocol):
    def scans(self, text: str) -> set[str]:
        """The tables that a statement reads from end to end."""


def named_tables(text: str, found: set[str]) -> set[str]:
    """Tables for their aliases in a statement. Only those that are ours count: what is derived from them is not."""
    aliases = dict(reversed(pair) for pair in re.findall(r"\b(\w+) AS (\w+)", text))  # type: ignore[misc]
    ours = {table.name for table in tables.ALL} | set(MARIADB_ALONE)
    return {aliases.get(name, name) for name in found} & ours


class SqlitePlanner:
    def __init__(self, raw: RawSql[Any]) -> None:
        self.engine = raw.engine

    def scans(self, text: str) -> set[str]:
        params = [sample for _, sample in parameters(text, "?")]
        steps = [detail for *_, detail in self.engine.rows(f"EXPLAIN QUERY PLAN {text}", params)]
        return {step.split()[1] for step in steps if step.startswith("SCAN")}


class PostgresPlanner:
    """Of a plan for any parameters: the store wants no others."""

    def __init__(self, raw: RawSql[Any]) -> None:
        raw.run("ANALYZE")
        self.connection: psycopg.Connection[Any] = raw.engine.connection
        self.first_columns: dict[str, str] = dict(
            raw.rows("SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid, 1, true) FROM pg_index")
        )

    def scans(self, text: str) -> set[str]:
        parts = text.replace("%%", "%").split("%s")
        numbered = "".join(f"{part}${number}" for number, part in enumerate(parts[:-1], 1)) + parts[-1]
        nulls = ", ".join(["NULL"] * (len(parts) - 1))
        self.connection.execute(f"PREPARE asked AS {numbered}".encode())
        [(plan,)] = self.connection.execute(
            f"EXPLAIN (FORMAT JSON) EXECUTE asked{f'({nulls})' if nulls else ''}".encode()
        )
        self.connection.execute("DEALLOCATE asked")
        return set(self.read_whole(plan[0]["Plan"]))

    def read_whole(self, node: dict[str, Any], relation: str = "") -> Iterator[str]:
        """An index is read whole where no condition is on its first column."""
        relation = node.get("Relation Name", relation)
        first_column = self.first_columns.get(node.get("Index Name", ""))
        if node["Node Type"] == "Seq Scan" or (first_column and first_column not in node.get("Index Cond", "")):
            yield relation
        for below in node.get("Plans", []):
            yield from self.read_whole(below, relation)


class MariaPlanner:
    def __init__(self, raw: RawSql[Any]) -> None:
        self.engine = raw.engine
        for name in (*(table.name for table in tables.ALL), *MARIADB_ALONE):
            raw.rows(f"ANALYZE TABLE {name}")

    def scans(self, text: str) -> set[str]:
        params = [sample for _, sample in parameters(text, "%s")]
        plan = self.engine.rows(f"EXPLAIN {text}", params)
        # Else it has found out that there is nothing to read, and says nothing about how it would.
        assert "1 = 0" in text or not any("Impossible" in (extra or "") for *_, extra in plan), (text, params)
        return {table for _, _, table, kind, *_ in plan if kind in ("ALL", "index")}


PLANNERS: dict[str, Callable[[RawSql[Any]], Planner]] = {
    "sqlite": SqlitePlanner,
    "postgresql": PostgresPlanner,
    "mariadb": MariaPlanner,
}


@pytest.mark.parametrize("database", PLANNERS)
def test_no_statement_reads_a_table_that_grows(database, request, tmp_path):
    fixture = {"postgresql": "postgres_url", "mariadb": "mariadb_url"}.get(database)
    url = request.getfixturevalue(fixture) if fixture else f"sqlite:///{tmp_path}/penstock.db"
    side = open_side(url, must_exist=False)
    with closing(side.store):
        fill(side)
        with side.write() as raw:
            planner = PLANNERS[database](raw)
            found = {
                name: scanned
                for name, text in all_statements(database).items()
                if (scanned := named_tables(text, set().union(*map(planner.scans, asked(text)))))
            }
    permitted = {name: {reason.partition(":")[0]} for name, reason in PERMITTED[database].items()}
    assert {name: scanned for name, scanned in found.items() if scanned != permitted.get(name)} == {}
    assert set(permitted) <= set(found)  # else the exception is not needed any more


@pytest.fixture
def verbs(tmp_path: Path) -> Iterator[Verbs]:
    with closing(open_store(f"sqlite:///{tmp_path}/penstock.db")) as store:
        yield Verbs(store)


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
