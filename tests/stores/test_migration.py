"""`penstock migrate-store`, without the command around it: everything arrives, from every kind of store in every other,
whatever happens on the way."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from devtools.databases import PASSWORD
from penstock import keys, limits
from penstock.errors import (
    InvalidSetting,
    MigrationFailed,
    MigrationUnfinished,
    ShipmentEnded,
    StoreHandedOver,
    StoreUnavailable,
)
from penstock.limits import Limits
from penstock.model import (
    Backoff,
    Consumer,
    Dedup,
    Delivery,
    Draft,
    JsonValue,
    LedgerMode,
    MoveTerms,
    PeekAfter,
    Receipt,
    Redrive,
    Selection,
)
from penstock.stores import Store, open_sql_store, open_store
from penstock.stores.sql.engines.sqlite import SqliteStore
from penstock.stores.transfer import checking, mark, tables
from penstock.stores.transfer.side import open_side
from penstock.stores.transfer.transfer import migrate, take_back
from tests.stores.conftest import Verbs, check_conservation

KINDS = ("sqlite", "postgresql", "mariadb")
SECRET = "psk_known_to_one"


@pytest.fixture
def new_url(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Where there is no store yet, of the kind asked for."""
    made: list[tuple[Any, str]] = []

    def new_url(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/{len(list(tmp_path.iterdir()))}-{time.monotonic_ns()}.db"
        databases = request.getfixturevalue({"postgresql": "shared_postgres", "mariadb": "shared_mariadb"}[kind])
        made.append((databases, databases.new_url()))
        return made[-1][1]

    yield new_url
    for databases, url in made:
        databases.drop(url)


@pytest.fixture
def source(new_url: Callable[[str], str]) -> str:
    """A store that holds something of everything."""
    url = new_url("sqlite")
    fill(url)
    return url


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PAGE_ROWS", 4)
    monkeypatch.setattr(tables, "_FEWEST_ROWS", 2)
    monkeypatch.setattr(tables, "PAGE_BYTES", 2_000)
    monkeypatch.setattr(checking, "_SPAN_ROWS", 3)


class Quiet:
    """A watch that does something at one of the steps, if asked to."""

    def __init__(self, at: int | str | None = None, act: Callable[[], object] | None = None) -> None:
        self.said: list[str] = []
        self._at = at
        self._act = act
        self._steps = 0
        self._acted = False

    def say(self, text: str) -> None:
        self._step(text)

    @contextmanager
    def task(self, doing: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
        assert 0 <= done <= total
        self._step(doing)

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            self._step("row")

        yield advance
        assert done == total or self._acted

    def _step(self, text: str) -> None:
        self.said.append(text)
        self._steps += 1
        if self._act is not None and not self._acted and self._at in (self._steps, text):
            self._acted = True
            self._act()


class Died(Exception):
    pass


def die() -> None:
    raise Died


def fill(url: str) -> None:
    """Something of everything that a store can hold."""
    with closing(open_store(url)) as store:
        verbs = Verbs(store)
        # A dead-letter queue that is younger than the queue that uses it; one that is its own.
        for name in ("q", "once", "twins", "dead", "gone", "own", "empty"):
            verbs.create(name)
        verbs.update("q", redrive=Redrive(2, "dead"), ledger=LedgerMode.BODIES, delay_ms=0)
        verbs.update("own", redrive=Redrive(5, "own"), visibility_ms=7, backoff=Backoff(3, 9))
        verbs.update("once", dedup=Dedup.SEND)
        verbs.update("twins", dedup=Dedup.CLAIM, ledger=LedgerMode.OFF)

        # Processed with their bodies; then the oldest rows of the ledger go.
        verbs.send(*(b"old %d" % n for n in range(12)))
        verbs.ack(*verbs.claim(6))
        verbs.now += 1_000
        verbs.ack(*verbs.claim(6))
        verbs.sweep(ledger_before=verbs.now)

        # Ready, delayed, claimed, released, run out; with all that a draft can have.
        verbs.send(
            Draft(b"", "text/plain", {"sprache": "grüezi 🚰", "n": "'%s\\"}),
            Draft(bytes(range(256)) * 20),
            Draft(b"later", delay_ms=50_000),
            Draft(b"by then", deadline_at=verbs.now + 99_000),
            Draft(b"zero \x00 byte", content_type="application/octet-stream"),
            *(b"plain %d" % n for n in range(20)),
        )
        verbs.claim(3, 1_000_000)
        verbs.release(*verbs.claim(2, 5_000))
        verbs.claim(1, 10)
        verbs.send(b"letter", to="own")
        verbs.release(*verbs.claim(queue="own"), delay_ms=60_000)
        verbs.send(Draft(b"a", dedup_key=b"\xff key"), b"b", b"b", to="once")
        verbs.send(b"t", b"t", b"t", b"u", to="twins")
        for _ in range(3):
            verbs.release(*verbs.claim(1, 1_000))

        # Twins of which one claim has finished only a part.
        verbs.create("many twins", dedup=Dedup.CLAIM, ledger=LedgerMode.OFF)
        verbs.send(*[b"t"] * 5, to="many twins")
        with closing(open_store(url, limits=Limits(step_rows=2))) as slow:
            Verbs(slow).claim(1, queue="many twins")

        # A deleted queue with messages that nobody has swept, whose name is used again.
        verbs.send(b"1", b"2", b"3", to="gone")
        verbs.ack(*verbs.claim(1, queue="gone"))
        verbs.delete("gone")
        verbs.create("gone", retention_ms=5)
        verbs.send(b"new", to="gone")

        verbs.moves.start("dead", "empty", "whole")
        verbs.moves.step(move_id="whole")
        verbs.moves.step(move_id="whole")
        verbs.moves.start("own", "nowhere", "broken")
        verbs.moves.step(move_id="broken")
        verbs.moves.start("q", "empty", "half")
        verbs.moves.step("half", limit=2)
        terms = MoveTerms(Selection(text="grüezi", json=JsonValue("$.n", 1.5)), limit=9, per_second=5)
        verbs.moves.start("twins", None, "chosen", terms=terms)
        verbs.moves.step("chosen", limit=2)
        verbs.moves.step("chosen", limit=1)

        verbs.create_key("one", keys.digest(store.secret, SECRET.encode()))
        verbs.create_key("two", b"digest", ("queue|post|a", "queue|poll|ü*"))
        verbs.keys.revoke("two")

        with store.unit() as unit:
            for name, delivery in (("cafe", Delivery.AT_MOST_ONCE), ("babe", Delivery.AT_LEAST_ONCE)):
                consumer = Consumer(name, "q", delivery, 60_000)
                unit.consumers.register(consumer, verbs.now)
                claimed = unit.consumers.claim(consumer, 2, verbs.now).messages
                unit.consumers.hold(name, [(message.seq, message.claim) for message in claimed], verbs.now)
        fill_shipments(verbs)


def fill_shipments(verbs: Verbs) -> None:
    """Kept, released but for one message, and open; an export that is settled and one that is not; sends with a key."""
    verbs.create("ship")
    verbs.send(*(b"ship %d" % n for n in range(9)), to="ship")
    verbs.ship(1, limit=2, queue="ship")
    verbs.shipments.settle(1, keep=True, queue="ship")
    verbs.ship(2, limit=3, queue="ship")
    verbs.shipments.release(2, limit=2, queue="ship")
    verbs.ship(3, limit=4, queue="ship")
    for number in (1, 2):
        verbs.claim_export(number, limit=2)
        if number == 1:
            verbs.exports.settle(number)
    verbs.send_once("key of a send", b"1", b"2", to="ship")


def contents(url: str) -> dict[str, object]:
    """All that can be seen of a store, also of one that was copied."""
    with closing(open_sql_store(url)) as store, store.unit(write=False) as unit:
        check_conservation(unit)
        queues = unit.list_queues(0, 1_000).queues
        seen: dict[str, object] = {
            "queues": queues,
            "ledger": unit.ledger.rows(0, 100_000),
            "keys": unit.keys.list(),
            "moves": [unit.moves.find(move_id) for move_id in ("whole", "broken", "half", "chosen", "m")],
            "unfinished": unit.moves.unfinished(),
            "last_seq": unit.messages.last_seq(),
            "secret": store.secret,
            "consumers": unit.session.engine.rows("SELECT * FROM consumer ORDER BY queue, number"),
            "shipments": unit.session.engine.rows("SELECT * FROM shipment ORDER BY id"),
            "exports": unit.session.engine.rows("SELECT * FROM export ORDER BY id"),
            "sends": unit.session.engine.rows("SELECT * FROM sending ORDER BY id"),
            "hidden": unit.session.engine.rows(
                """SELECT seq, queue, first_claimed_at, last_claimed_at, dedup_key, body_hash
                   FROM message ORDER BY seq"""
            ),
            "deleted": unit.session.engine.rows(
                "SELECT number, name, deleted_at FROM queue WHERE deleted_at IS NOT NULL ORDER BY number"
            ),
        }
        for queue in queues:
            messages = page = unit.messages.peek(queue.name, 1_000)
            while page:
                page = unit.messages.peek(queue.name, 1_000, PeekAfter(page[-1].ready_at, page[-1].seq))
                messages = messages + page
            seen[f"messages {queue.name}"] = messages
            seen[f"tally {queue.name}"] = unit.ledger.tally(queue.name)
            seen[f"count {queue.name}"] = unit.count(queue.name, 1_000_000, 100_000)
    return seen


def goes_on(store: Store, before: dict[str, Any]) -> None:
    """New ids, old receipts, old keys."""
    verbs = Verbs(store)
    verbs.now += 2_000
    [held, *_] = [message for message in before["messages q"] if message.ready_at > 1_500_000]
    [sent] = verbs.send(b"fresh", to="empty")
    [message] = [message for message in verbs.peek("empty") if message.id == sent.id]
    assert message.seq > before["last_seq"]
    assert sent.id[14:23] == held.id[14:23]  # the origin
    assert verbs.ack(Receipt(held.id, held.claim - 1, "q"), Receipt(held.id, held.claim, "q")) == [False, True]
    assert verbs.rows(after=before["ledger"][-1].number)[0].id == held.id
    assert verbs.send(b"b", to="once")[0].stored is False
    assert verbs.create("next").number > max(number for number, *_ in before["deleted"])
    assert keys.Keyring(store.secret, verbs.keys.list()).find(SECRET.encode()).name == "one"
    verbs.create_key("three", b"other")
    assert [key.name for key in verbs.keys.list()] == ["one", "two", "three"]
    assert verbs.moves.step(move_id="half").moved > 2
    shipments_go_on(verbs)
    with store.unit() as unit:
        unit.sweep(verbs.now + 10**6, 1_000, 0)
        check_conservation(unit)


def shipments_go_on(verbs: Verbs) -> None:
    assert len(verbs.shipments.read(1, queue="ship")) == 2
    assert len(verbs.shipments.read(3, queue="ship")) == 4
    assert verbs.shipments.settle(3, queue="ship") == 4
    with pytest.raises(ShipmentEnded):
        verbs.shipments.read(1, queue="ship")
    verbs.ship(4, queue="ship")
    verbs.ship(1, consumer="other", queue="once")
    assert verbs.shipments.settle(4, keep=True, queue="ship") > 0
    assert len(verbs.exports.read(2)) == 2
    verbs.exports.settle(2)
    assert verbs.claim_export(3) is not None
    assert verbs.send_once("key of a send", b"1", b"2", to="ship").repeated
    assert not verbs.send_once("another key", b"1", b"2", to="ship").repeated


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("of", KINDS)
def test_everything_arrives(of, to, new_url, small_pages):
    first, second = new_url(of), new_url(to)
    fill(first)
    before = contents(first)
    summary = migrate(first, second, Quiet())
    assert contents(first) == contents(second) == before
    assert {table.name: rows for table, rows in summary.rows.items()} == {
        "queue": 10,
        "tally": 10,
        "api_key": 2,
        "move": 4,
        "consumer": 2,
        "shipment": 3,
        "export": 2,
        "sending": 1,
        "collapse": 1,
        "message": len(before["hidden"]),
        "ledger": len(before["ledger"]),
    }
    with closing(open_store(second)) as store:
        goes_on(store, before)
    with pytest.raises(InvalidSetting, match="a finished copy of the first and has been used since"):
        migrate(first, second, Quiet())


@pytest.mark.parametrize("to", KINDS)
def test_numbers_go_on_where_nothing_is_left(to, new_url):
    """A cursor of the ledger, and an id, must not come to mean something else."""
    first, second = new_url(to), new_url(to)
    with closing(open_store(first)) as store:
        verbs = Verbs(store)
        verbs.create()
        verbs.send(b"1", b"2", b"3")
        verbs.ack(*verbs.claim())
        last = verbs.rows()[-1].number
        verbs.sweep(ledger_before=verbs.now + 1)
        assert verbs.rows() == []
    migrate(first, second, Quiet())
    with closing(open_store(second)) as store:
        verbs = Verbs(store)
        verbs.send(b"4")
        [message] = verbs.claim()
        verbs.ack(message)
        assert message.seq >= 4
        assert [row.id for row in verbs.rows(after=last)] == [message.id]


@pytest.mark.parametrize("name", KINDS)
def test_no_column_is_forgotten(name, new_url):
    """A column that a later schema adds has to be copied too."""
    url = new_url(name)
    with closing(open_store(url)) as store, store.unit(write=False) as unit:
        rows = unit.session.engine.rows
        for table in tables.ALL:
            if name == "sqlite":
                columns = {row[0] for row in rows(f"SELECT name FROM pragma_table_info('{table.name}')")}
            else:
                where = "current_schema()" if name == "postgresql" else "DATABASE()"
                columns = {
                    row[0]
                    for row in rows(
                        f"""SELECT column_name FROM information_schema.columns
                            WHERE table_schema = {where} AND table_name = ?""",
                        (table.name,),
                    )
                }
            assert columns - {"slot", "live_name"} == set(table.columns)
        if name == "sqlite":
            names = {row[0] for row in rows("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            assert names == {table.name for table in tables.ALL} | {"store", "sqlite_sequence"}


def test_pages_are_bounded_in_rows_and_bytes(new_url, monkeypatch):
    url = new_url("sqlite")
    with closing(open_store(url)) as store:
        verbs = Verbs(store)
        verbs.create(ledger=LedgerMode.BODIES)
        for _ in range(6):
            verbs.send(*[b"x" * limits.BODY_BYTES] * 8)
        verbs.send(*[b"x"] * 40_000)
    side = open_side(url, must_exist=True)
    with closing(side.store):
        pages = list(tables.pages(side, tables.MESSAGE))
    assert sum(map(len, pages)) == 40_048
    assert max(map(len, pages)) == tables.PAGE_ROWS
    assert max(sum(len(row[-1]) for row in page) for page in pages) <= tables.PAGE_BYTES
    assert len(pages) < 40


# Interruptions


def test_it_may_die_at_any_step(source, new_url, small_pages):
    before = contents(source)
    for step in count(1):
        target = new_url("sqlite")
        try:
            migrate(source, target, Quiet(step, die))
        except Died:
            pass
        else:
            break
        if step > 1:  # the first is before the mark
            with pytest.raises(MigrationUnfinished, match="finish it with 'penstock migrate-store sqlite://"):
                open_store(target)
        again = Quiet()
        migrate(source, target, again)
        assert contents(target) == before
        assert "the source has changed since the last run: starting over" not in again.said
        take_back(source)
    assert step > 40
    assert contents(source) == before


@pytest.mark.parametrize("to", KINDS)
def test_it_may_die_again_and_again(to, source, new_url, small_pages):
    target = new_url(to)
    for step in count(2):
        try:
            migrate(source, target, Quiet(step, die))
        except Died:
            with pytest.raises(MigrationUnfinished):
                open_store(target)
        else:
            break
    assert step > 10
    assert contents(target) == contents(source)


ROOT = Path(__file__).parents[2]
TELLING = """
import sys
from penstock.stores.transfer.transfer import migrate
from tests.stores.test_migration import Quiet
migrate(sys.argv[1], sys.argv[2], Quiet("copying messages", lambda: print("copying messages", flush=True)))
"""


@pytest.mark.parametrize("to", KINDS)
def test_kill_9(to, new_url):
    first, second = new_url("sqlite"), new_url(to)
    with closing(open_store(first)) as store:
        verbs = Verbs(store)
        verbs.create()
        for _ in range(10):
            verbs.send(*(b"%d" % n + b"x" * 200 for n in range(2_500)))
        verbs.ack(*verbs.claim(1_000))
    running = subprocess.Popen([sys.executable, "-c", TELLING, first, second], stdout=subprocess.PIPE, cwd=ROOT)
    try:
        # Until then, those who have the second store open are looked for, and we would be one of them.
        assert running.stdout.readline() == b"copying messages\n"
        while not copied_so_far(second):
            assert running.poll() is None
            time.sleep(0.001)
    finally:
        running.kill()
        running.communicate()
    command = [sys.executable, "-m", "penstock", "migrate-store", first, second]
    assert 0 < copied_so_far(second) < 24_000
    with pytest.raises(MigrationUnfinished):
        open_store(second)
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "going on where an earlier run ended" in done.stderr
    assert contents(second) == contents(first)


def copied_so_far(url: str) -> int:
    if url.startswith("sqlite") and not Path(url.removeprefix("sqlite:///")).exists():
        return 0
    with closing(open_sql_store(url)) as store, store.raw(write=False) as raw:
        [(count,)] = raw.rows("SELECT count(*) FROM message")
        return int(count)


@pytest.mark.parametrize("to", KINDS)
def test_a_run_that_was_overtaken_changes_nothing_any_more(to, source, new_url, small_pages, monkeypatch):
    """One that had lost sight of the source, or the other would have been refused."""
    monkeypatch.setattr(SqliteStore, "is_used_elsewhere", lambda _self: False)
    target = new_url(to)
    before = contents(source)
    with pytest.raises(MigrationUnfinished, match="taken over"):
        migrate(source, target, Quiet("copying ledger rows", lambda: migrate(source, target, Quiet())))
    assert contents(target) == before


# A source that does not stand still

CHANGES: dict[str, Callable[[Verbs], object]] = {
    "send": lambda verbs: verbs.send(b"more"),
    "claim": lambda verbs: verbs.claim(1),
    "claim for nothing": lambda verbs: verbs.claim(1, 0),
    "ack": lambda verbs: verbs.ack(Receipt(verbs.peek()[0].id)),
    "renew": lambda verbs: verbs.renew(Receipt(verbs.peek()[0].id), until=9_000_000),
    "release": lambda verbs: verbs.release_all(limit=1),
    "purge": lambda verbs: verbs.purge(limit=1),
    "move": lambda verbs: verbs.move("q", "empty", limit=1),
    "step": lambda verbs: verbs.moves.step("half", limit=1),
    "create queue": lambda verbs: verbs.create("another"),
    "update queue": lambda verbs: verbs.update("empty", visibility_ms=1),
    "delete queue": lambda verbs: verbs.delete("empty"),
    "create key": lambda verbs: verbs.create_key("another"),
    "revoke key": lambda verbs: verbs.keys.revoke("one"),
    "sweep": lambda verbs: verbs.sweep(1, ledger_before=10**12),
}


def change(url: str, name: str) -> None:
    """Past the mark, as a program could that knows nothing of it."""
    with closing(open_sql_store(url)) as store:
        verbs = Verbs(store)
        verbs.now += 3_000
        CHANGES[name](verbs)


@pytest.mark.parametrize("of", KINDS)
def test_a_fingerprint_notices_everything(of, new_url, small_pages):
    url = new_url(of)
    fill(url)
    side = open_side(url, must_exist=True)
    with closing(side.store):
        last = checking.fingerprint(side)
        for name in CHANGES:
            assert checking.fingerprint(side) == last, name
            change(url, name)
            assert checking.fingerprint(side).text != last.text, name
            last = checking.fingerprint(side)


@pytest.mark.parametrize("name", ["send", "claim", "ack", "create key"])
@pytest.mark.parametrize("at", ["copying ledger rows", "comparing rows"])
def test_a_source_that_changes_meanwhile(at, name, source, new_url, small_pages):
    target = new_url("sqlite")
    with pytest.raises(MigrationFailed, match="the source has changed: stop every server"):
        migrate(source, target, Quiet(at, lambda: change(source, name)))
    with pytest.raises(MigrationUnfinished):
        open_store(target)
    again = Quiet()
    migrate(source, target, again)
    assert any("starting over" in text for text in again.said)
    assert contents(target) == contents(source)


def test_a_send_is_noticed_at_once(source, new_url, small_pages):
    watch = Quiet("copying messages", lambda: change(source, "send"))
    with pytest.raises(MigrationFailed):
        migrate(source, new_url("sqlite"), watch)
    assert watch.said[-1] == "copying messages"


@pytest.mark.parametrize("to", KINDS)
def test_what_was_acked_between_two_runs_does_not_come_back(to, source, new_url, small_pages):
    target = new_url(to)
    with pytest.raises(Died):
        migrate(source, target, Quiet("comparing rows", die))
    change(source, "ack")
    again = Quiet("the source has changed since the last run: starting over", die)
    with pytest.raises(Died):
        migrate(source, target, again)
    migrate(source, target, Quiet())
    assert contents(target) == contents(source)


@pytest.mark.parametrize("to", KINDS)
def test_a_copy_that_is_not_right_is_found_out(to, source, new_url, small_pages):
    target = new_url(to)

    def damage() -> None:
        with closing(open_sql_store(target)) as store, store.raw() as raw:
            raw.run("UPDATE message SET body = ? WHERE body = ?", (b"other", b"plain 19"))

    with pytest.raises(MigrationFailed, match=r"the copy is not right .*of .* messages"):
        migrate(source, target, Quiet("comparing rows", damage))
    migrate(source, target, Quiet())
    assert contents(target) == contents(source)


# Only one of the two is used


@pytest.mark.parametrize("of", KINDS)
def test_a_store_that_somebody_has_open_is_not_copied(of, new_url):
    """However idle: in this process, or in another."""
    first, second = new_url(of), new_url("sqlite")
    fill(first)
    with closing(open_store(first)), pytest.raises(InvalidSetting, match="a server or another program has the first"):
        migrate(first, second, Quiet())
    hold = """
import sys
from penstock.stores import open_sql_store, open_store
store = open_store(sys.argv[1])
with store.unit(write=False) as unit:
    print(unit.messages.last_seq(), flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", hold, first], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with pytest.raises(InvalidSetting, match="a server or another program has the first"):
            migrate(first, second, Quiet())
        holder.stdin.close()
    open_store(first).close()
    assert migrate(first, second, Quiet()).rows


@pytest.mark.parametrize("of", KINDS)
def test_nothing_is_copied_into_a_store_that_somebody_has_open(of, new_url):
    """A server that goes on with it would know neither the keys nor the ids of what is copied."""
    first, second = new_url("sqlite"), new_url(of)
    fill(first)
    with closing(open_store(second)) as used, pytest.raises(InvalidSetting, match="has the second store open"):
        migrate(first, second, Quiet())
    for url in (first, second):
        open_store(url).close()  # no mark is left on either
    assert used.url == second
    assert migrate(first, second, Quiet()).rows


@pytest.mark.parametrize("of", KINDS)
def test_a_store_that_was_copied_is_not_opened_unless_it_is_taken_back(of, new_url, small_pages):
    first, second = new_url(of), new_url("sqlite")
    fill(first)
    with pytest.raises(Died):
        migrate(first, second, Quiet("copying ledger rows", die))
    with pytest.raises(StoreHandedOver, match="is being copied: finish it with 'penstock migrate-store"):
        open_store(first)
    migrate(first, second, Quiet())
    with pytest.raises(StoreHandedOver, match=r"was copied to sqlite:///.* at 20.* UTC: use that one") as told:
        open_store(first)
    assert PASSWORD not in str(told.value)
    assert "--take-back" in str(told.value)
    open_store(second).close()
    take_back(first)
    open_store(first).close()
    with pytest.raises(InvalidSetting, match="nothing to take back"):
        take_back(first)


@pytest.mark.parametrize("of", KINDS)
def test_a_finished_copy_is_compared_again(of, new_url, small_pages):
    first, second = new_url(of), new_url("sqlite")
    fill(first)
    copied = migrate(first, second, Quiet()).rows
    assert migrate(first, second, Quiet()).rows == copied
    take_back(first)
    change(first, "send")
    with pytest.raises(MigrationFailed, match="the first store has changed since it was copied"):
        migrate(first, second, Quiet())
    open_store(first).close()
    open_store(second).close()


def test_a_store_is_copied_once(source, new_url):
    migrate(source, new_url("sqlite"), Quiet())
    with pytest.raises(InvalidSetting, match=r"was copied to sqlite:///.* already"):
        migrate(source, new_url("sqlite"), Quiet())
    with pytest.raises(StoreHandedOver):
        open_store(source)
    take_back(source)
    migrate(source, new_url("sqlite"), Quiet())


# Refusals


@pytest.mark.parametrize("url", ["memory://", "mqcore:///{folder}/mq", "redis://here", "nonsense"])
def test_only_full_stores(url, source, new_url, tmp_path):
    url = url.format(folder=tmp_path)
    target = new_url("sqlite")
    for pair in ((url, target), (source, url)):
        with pytest.raises(InvalidSetting, match="cannot be migrated"):
            migrate(*pair, Quiet())
    assert not Path(target.removeprefix("sqlite:///")).exists()
    assert not (tmp_path / "mq").exists()


def test_a_source_that_is_not_there(new_url, tmp_path):
    target = new_url("sqlite")
    with pytest.raises(InvalidSetting, match="there is no store at"):
        migrate(f"sqlite:///{tmp_path}/mistyped.db", target, Quiet())
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        migrate("postgresql://127.0.0.1:1/nowhere", target, Quiet())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("of", KINDS)
def test_a_source_without_anything(of, new_url):
    empty, target = new_url(of), new_url("sqlite")
    open_store(empty).close()
    with pytest.raises(InvalidSetting, match="nothing to copy"):
        migrate(empty, target, Quiet())
    open_store(target).close()


def test_the_same_store_twice(source, tmp_path):
    before = contents(source)
    (tmp_path / "link").symlink_to(tmp_path)
    for target in (source, source.replace(str(tmp_path), f"{tmp_path}/link")):
        with pytest.raises(InvalidSetting, match="both are the same store"):
            migrate(source, target, Quiet())
    assert contents(source) == before


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("what", ["queue", "API key"])
def test_a_target_with_something_in_it(what, to, source, new_url):
    target = new_url(to)
    with closing(open_store(target)) as store:
        verbs = Verbs(store)
        if what == "queue":
            verbs.create("q")
            verbs.send(b"here already")
        else:
            verbs.create_key()
    before = contents(target)
    with pytest.raises(InvalidSetting, match=f"the target is not empty: it holds at least one {what}"):
        migrate(source, target, Quiet())
    assert contents(target) == before


def test_the_half_of_another_copy(source, new_url, small_pages):
    other, target = new_url("sqlite"), new_url("sqlite")
    fill(other)
    with pytest.raises(Died):
        migrate(source, target, Quiet("copying ledger rows", die))
    with pytest.raises(InvalidSetting, match="unfinished copy of another store, sqlite:///"):
        migrate(other, target, Quiet())
    with pytest.raises(MigrationUnfinished):
        migrate(target, new_url("sqlite"), Quiet())
    migrate(source, target, Quiet())
    assert contents(target) == contents(source)


def test_a_mark_without_its_row(new_url, source):
    """What a kill leaves in MariaDB, which commits a new table at once."""
    target = new_url("mariadb")
    with closing(open_sql_store(target)) as store, store.raw() as raw:
        mark.make(raw, mark.Mark("", "", "", ""))
        raw.run("DELETE FROM migration")
    with pytest.raises(MigrationUnfinished, match="unfinished copy of FROM"):
        open_store(target)
    migrate(source, target, Quiet())
    assert contents(target) == contents(source)


def test_passwords_stay_out_of_the_mark():
    assert mark.without_password("mariadb://me:secret@db:1/q?ssl_ca=x") == "mariadb://db:1/q"
    assert mark.without_password("sqlite:////ü/a.db") == "sqlite:////\\xfc/a.db"
