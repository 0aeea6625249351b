"""`verify`: a sound store has nothing to find, and each kind of damage is found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock import limits as bounds
from penstock.errors import InvalidSetting, StoreForeign
from penstock.limits import Limits
from penstock.model import Draft, Groups, KeyUse, Redrive, Settings
from penstock.stores import open_sql_store
from penstock.stores.sql.engine import SqlStore
from penstock.stores.verification.verification import Finding, verify
from tests.stores.conftest import KINDS, Kind, Verbs, new_store

SQL = ("sqlite", "postgresql", "mariadb")


@pytest.fixture(params=SQL)
def store(request: pytest.FixtureRequest, tmp_path: Path, limits: Limits) -> Iterator[SqlStore]:
    """With something in every table that a rule reads. Nothing is verified at the end."""
    kind: Kind = KINDS[request.param]
    with new_store(kind, tmp_path, limits, request, may_be_damaged=True) as store:
        verbs = Verbs(store)
        verbs.create("dead")
        verbs.create(redrive=Redrive(3, "dead"))
        verbs.create("lined", groups=Groups.FIFO)
        verbs.send(b"a", b"bb", b"ccc", b"dddd", b"eeeee")
        for group in ("one", "one", "one", "two"):
            verbs.send(Draft(b"x", group=group), to="lined")
        verbs.ack(*verbs.claim(1))
        verbs.ship(limit=2)
        verbs.leases.take("me")
        verbs.create_key("k1", bytes(32))
        verbs.keys.end_session(name="k1", session="one", until=verbs.now + 10)
        verbs.create_key("k2", b"\x01" * 32)
        verbs.keys.rotate(name="k2", digest=b"\x02" * 32, old_until=verbs.now + 10)
        verbs.keys.note_uses(uses=[KeyUse("k2", b"\x01" * 32, verbs.now)])
        yield store


def findings(store: SqlStore) -> list[tuple[str, str | None]]:
    return [(found.check, found.queue) for found in look(store)]


def look(store: SqlStore) -> list[Finding]:
    return verify(store.url, lambda _part: None, bodies=True).findings


def test_a_sound_store(store):
    verdict = verify(store.url, lambda _part: None, bodies=True)
    assert verdict.is_sound, verdict.findings
    assert verdict.counts == {"queues": 3, "messages": 8, "ledger_rows": 1}


NUMBER = "(SELECT number FROM (SELECT number FROM queue WHERE name = '{}') AS found)"
Q, LINED = NUMBER.format("q"), NUMBER.format("lined")
HIGHEST = "(SELECT seq FROM (SELECT max(seq) AS seq FROM message WHERE queue = {}) AS found)"
LOWEST = "(SELECT seq FROM (SELECT min(seq) AS seq FROM message WHERE queue = {}) AS found)"
DAMAGE = {
    "a message lost": (f"DELETE FROM message WHERE seq = {HIGHEST.format(Q)}", [("tallies", "q")]),
    "a tally too high": (f"UPDATE tally SET arrived = arrived + 1 WHERE queue = {Q}", [("tallies", "q")]),
    "a ledger row too many": (
        "INSERT INTO ledger (queue, seq, sent_at, finished_at, receives, outcome, size, body_hash) "
        "SELECT queue, seq, sent_at, finished_at, receives, outcome, size, body_hash FROM ledger",
        [("ledger", "q")],
    ),
    "departed without a row": (
        f"UPDATE tally SET departed = departed + 1, arrived = arrived + 1 WHERE queue = {Q}",
        [("ledger", "q")],
    ),
    "a ledger counted wrongly": ("UPDATE ledger_size SET amount = 2, through = 1", [("ledger", None)]),
    "an outcome of no kind": ("UPDATE ledger SET outcome = 9", [("ledger", None)]),
    "messages of no queue": (
        f"UPDATE message SET queue = 777 WHERE seq = {HIGHEST.format(Q)}", [("queues", None), ("tallies", "q")]
    ),
    "a shipment of no queue": ("UPDATE shipment SET queue = 777", [("queues", None), ("shipments", "q")]),
    "a lease of no queue": ("UPDATE lease SET queue = 777", [("queues", None)]),
    "an open shipment that is stored": ("UPDATE shipment SET stored_in = 'x'", [("shipments", "q")]),
    "dead letters to nowhere": ("UPDATE queue SET dead_letter_queue = 777 WHERE name = 'q'", [("dead letters", "q")]),
    "a line without its first": (
        f"UPDATE message SET ready_at = {bounds.BEHIND} WHERE seq = {LOWEST.format(LINED)}", [("lines", "lined")]
    ),
    "two of a line ready": (
        f"UPDATE message SET ready_at = 0 WHERE queue = {LINED} AND seq = {LOWEST.format(LINED)} + 1",
        [("lines", "lined")],
    ),
    "behind nobody": (
        f"UPDATE message SET ready_at = {bounds.BEHIND} WHERE seq = {HIGHEST.format(Q)}", [("lines", "q")]
    ),
    "shipped by nobody": (
        f"UPDATE message SET ready_at = {bounds.SHIPPED} WHERE seq = {HIGHEST.format(Q)}", [("shipments", "q")]
    ),
    "kept by nobody": (
        f"UPDATE message SET queue = -777 WHERE seq = {HIGHEST.format(Q)}", [("tallies", "q"), ("shipments", None)]
    ),
    "runs that name too few": ("UPDATE shipment SET messages = messages + 1", [("shipments", "q")]),
    "runs that are not runs": ("UPDATE shipment SET runs = '[1'", [("shipments", "q"), ("shipments", "q")]),
    "more dealt with than there are": ("UPDATE shipment SET cleared = messages + 1", [("shipments", "q")]),
    "a number not yet given": (
        f"UPDATE message SET seq = 1000000 WHERE seq = {HIGHEST.format(Q)}", [("numbers", None)]
    ),
    "a dedup key of the future": (
        f"INSERT INTO seen (queue, dedup_key, seq, sent_at, until) VALUES ({Q}, 'k', 1000000, 1, 1)",
        [("numbers", None)],
    ),
    "a collapsed key of the future": (
        f"INSERT INTO collapse (queue, dedup_key, through) VALUES ({Q}, 'k', 1000000)", [("numbers", None)]
    ),
    "an export of the future": (
        "INSERT INTO export (consumer, number, after_number, through_number, first_number, amount, claimed_at) "
        "VALUES ('c', 1, 0, 1000000, 1, 5, 1)",
        [("numbers", None)],
    ),
    "a move that is over and is not": (
        "INSERT INTO move (id, source, target, through, started_at, moved, status) "
        "VALUES ('m', 'q', 'dead', 1, 1, 0, 'COMPLETE')",
        [("moves", None)],
    ),
    "rules that are no list": ("""UPDATE api_key SET rules = '["queue|*'""", [("keys", None)] * 2),
    "rules of no kind": ("""UPDATE api_key SET rules = '["queue|take|*"]' WHERE name = 'k1'""", [("keys", None)]),
    "a key whose name cannot be": ("UPDATE api_key SET name = 'k 1' WHERE name = 'k1'", [("keys", None)]),
    "sessions without ends": ("UPDATE api_key SET ended_sessions = 'one ' WHERE name = 'k1'", [("keys", None)]),
    "half a digest": ("UPDATE api_key SET digest = 'k' WHERE name = 'k1'", [("keys", None)]),
    "half an old digest": ("UPDATE api_key SET old_digest = 'k' WHERE name = 'k2'", [("keys", None)]),
    "one secret for two keys": (
        "UPDATE api_key SET old_digest = (SELECT digest FROM (SELECT * FROM api_key) AS o WHERE name = 'k1') "
        "WHERE name = 'k2'",
        [("keys", None)],
    ),
    "an old secret of none that was rotated": (
        "UPDATE api_key SET rotated_at = NULL WHERE name = 'k2'", [("keys", None)]
    ),
    "the end of an old secret that is not there": (
        "UPDATE api_key SET old_until = 5 WHERE name = 'k1'", [("keys", None)]
    ),
    "an old secret that had ended before": ("UPDATE api_key SET old_until = rotated_at - 1", [("keys", None)]),
    "an old secret used of a key that was not": (
        "UPDATE api_key SET old_last_used_at = last_used_at + 1", [("keys", None)]
    ),
    "a key of before all time": ("UPDATE api_key SET created_at = -1 WHERE name = 'k1'", [("keys", None)]),
    "numbers below zero": (f"UPDATE message SET receives = -1 WHERE queue = {Q}", [("messages", "q")]),
    "a store without a name": ("DELETE FROM store", [("store", None)]),
    "another body": (f"UPDATE message SET body = 'other' WHERE seq = {HIGHEST.format(Q)}", [("bodies", "q")]),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(DAMAGE.keys() - {"a store without a name", "dead letters to nowhere"}))
def test_damage_is_found(case: str, store: SqlStore) -> None:
    assert_found(case, store)


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_store_without_a_name(store: SqlStore) -> None:
    """The others have the version of the schema in that row, and are not a store without it."""
    assert_found("a store without a name", store)


@pytest.mark.parametrize("store", ["postgresql", "mariadb"], indirect=True)
def test_dead_letters_to_nowhere(store: SqlStore) -> None:
    """SQLite has a constraint: see test_a_reference_that_sqlite_knows_of."""
    assert_found("dead letters to nowhere", store)


def assert_found(case: str, store: SqlStore) -> None:
    sql, expected = DAMAGE[case]
    is_sqlite = store.url.startswith("sqlite")
    with store.raw() as raw:
        if is_sqlite:
            # A hand that damages a table does not ask SQLite's constraints.
            raw.rows("PRAGMA defer_foreign_keys = ON")
            raw.engine.rows("PRAGMA ignore_check_constraints = ON")
            sql = sql.replace("'k'", "x'00'").replace("'other'", "x'00'")
        if store.url.startswith("postgres"):
            sql = sql.replace("'k'", r"'\x00'::bytea").replace("'other'", r"'\x00'::bytea")
        raw.run(sql)
    found = findings(store)
    assert found == expected, look(store)


def test_nothing_is_written(store):
    with store.raw(write=False) as raw:
        before = raw.rows("SELECT queue, arrived FROM tally ORDER BY queue, arrived")
    look(store)
    with store.raw(write=False) as raw:
        assert raw.rows("SELECT queue, arrived FROM tally ORDER BY queue, arrived") == before


def test_it_sees_one_moment_while_others_write(store):
    verbs = Verbs(store)
    looked = []

    def write(part: str) -> None:
        looked.append(part)
        verbs.send(b"meanwhile")
        verbs.ack(*verbs.claim(1))

    assert verify(store.url, write, bodies=True).findings == []
    assert len(looked) > 5


# SQLite


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "penstock.db"
    with closing(open_sql_store(f"sqlite:///{path}")) as store, store.unit() as unit:
        unit.create_queue("q", Settings(), 1)
        unit.send("q", [Draft(bytes(1_000))] * 500, 1)
    return path


def test_a_reference_that_sqlite_knows_of(file):
    import apsw

    with closing(apsw.Connection(str(file))) as connection:
        connection.execute("UPDATE queue SET dead_letter_queue = 777")
    found = verify(f"sqlite:///{file}", lambda _part: None).findings
    assert [(one.check, one.queue) for one in found] == [("file", None), ("dead letters", "q")]


def test_overwritten_pages(file):
    with file.open("r+b") as damaged:
        damaged.seek(40 * 4096)
        damaged.write(b"\xff" * 4096 * 20)
    found = verify(f"sqlite:///{file}", lambda _part: None, bodies=True).findings
    assert found
    assert found[0].check == "file"


def test_a_store_of_another_version_is_left_as_it_is(file):
    import apsw

    with closing(apsw.Connection(str(file))) as connection:
        connection.execute("PRAGMA user_version = 1")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = file.read_bytes()
    with pytest.raises(StoreForeign, match="made by an older Penstock"):
        verify(f"sqlite:///{file}", lambda _part: None)
    assert file.read_bytes() == before


@pytest.mark.parametrize("url", ["memory://", "mqcore:///{folder}/mq", "sqlite:///{folder}/not-there.db"])
def test_what_cannot_be_verified(url, tmp_path):
    with pytest.raises(InvalidSetting):
        verify(url.format(folder=tmp_path), lambda _part: None)
    assert list(tmp_path.iterdir()) == []
