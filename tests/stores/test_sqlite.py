"""What only the SQLite store has: a file that may be somebody else's, damaged, shared, or on a full device."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest

from penstock.errors import (
    InvalidSetting,
    OperatorError,
    StoreBusy,
    StoreCorrupt,
    StoreForeign,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    TryAgain,
)
from penstock.model import Draft, Receipt, Settings
from penstock.stores import Store, open_store
from penstock.stores.sql import schema
from penstock.stores.sql.engines import sqlite, sqlite_file
from penstock.stores.sql.engines.sqlite import SqliteStore

NOW = 1_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "penstock.db"


@pytest.fixture
def opened(path: Path) -> Iterator[Store]:
    store = reopen(path)
    yield store
    store.close()


def reopen(path: Path, patience_ms: int = 0) -> Store:
    return open_store(f"sqlite:///{path}", patience_ms)


def fill(store: Store, messages: int = 100, size: int = 200) -> None:
    with store.unit() as unit:
        unit.create_queue("q", Settings(), NOW)
        unit.send("q", [Draft(b"%0*d" % (size, n)) for n in range(messages)], NOW)


def bodies(store: Store) -> list[int]:
    with store.unit(write=False) as unit:
        return [int(message.body) for message in unit.messages.peek("q", 10_000)]


def pragma(store: Store, name: str) -> object:
    [(value,)] = store._connection.execute(f"PRAGMA {name}").fetchall()
    return value


def foreign(path: Path, *statements: str) -> apsw.Connection:
    """A database that somebody else has made, still open."""
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement).fetchall()
    return connection


def folder_of(path: Path) -> dict[str, bytes]:
    """Every file beside the store that holds anything."""
    found = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    return {name: content for name, content in found.items() if content and not name.endswith("-shm")}


def rows_seen_elsewhere(path: Path) -> int:
    """By a process of its own, with the SQLite inside Python."""
    look = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM message").fetchone()[0])
connection.close()"""
    return int(subprocess.run([sys.executable, "-c", look, str(path)], check=True, capture_output=True).stdout)


@pytest.fixture
def stranger() -> Iterator[Path]:
    """A folder that every user can reach."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@contextmanager
def as_stranger() -> Iterator[None]:
    """As a user without privileges: root may read and write anything."""
    if os.getuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


class TestDurability:
    def test_every_commit_is_synced(self, opened):
        assert pragma(opened, "journal_mode") == "wal"
        assert pragma(opened, "synchronous") == 2  # FULL

    def test_the_file_says_whose_it_is_and_which_schema_it_has(self, opened, path):
        opened.close()
        header = path.read_bytes()[:100]
        assert struct.unpack(">I", header[68:72]) == (int.from_bytes(b"Pnst", "big"),)
        assert struct.unpack(">I", header[60:64]) == (len(schema.scripts("sqlite")),)

    def test_everything_is_there_after_reopening(self, opened, path):
        fill(opened)
        with opened.unit() as unit:
            unit.claim("q", 2, NOW, 500)
            before = (
                unit.messages.peek("q", 1_000),
                unit.ledger.tally("q"),
                unit.find_queue("q"),
                unit.messages.last_seq(),
            )
        opened.close()
        again = reopen(path)
        with again.unit() as unit:
            assert (
                unit.messages.peek("q", 1_000),
                unit.ledger.tally("q"),
                unit.find_queue("q"),
                unit.messages.last_seq(),
            ) == before
            [sent] = unit.send("q", [Draft(b"1")], NOW)
        assert sent.id[14:23] == before[0][0].id[14:23]  # still the same origin
        again.close()

    def test_a_crash_before_the_first_checkpoint_loses_nothing(self, opened, path, tmp_path):
        fill(opened)
        crashed = tmp_path / "crashed" / "penstock.db"
        crashed.parent.mkdir()
        shutil.copy(path, crashed)
        shutil.copy(f"{path}-wal", f"{crashed}-wal")
        store = reopen(crashed)
        assert bodies(store) == list(range(100))
        store.close()

    def test_a_crash_before_anything_was_stored_leaves_a_store_to_open(self, opened, path, tmp_path):
        """SQLite writes its first page when the journal becomes a WAL, and our tables only after that."""
        crashed = tmp_path / "crashed.db"
        foreign(crashed, "PRAGMA journal_mode = WAL").close()
        assert crashed.stat().st_size > 0
        store = reopen(crashed)
        fill(store)
        assert len(bodies(store)) == 100
        store.close()

    def test_a_wal_that_was_cut_off_ends_at_the_last_whole_unit(self, opened, path, tmp_path):
        fill(opened)
        whole = Path(f"{path}-wal").stat().st_size
        with opened.unit() as unit:
            unit.send("q", [Draft(b"100")], NOW)
        crashed = tmp_path / "crashed.db"
        shutil.copy(path, crashed)
        Path(f"{crashed}-wal").write_bytes(Path(f"{path}-wal").read_bytes()[: whole + 100])
        store = reopen(crashed)
        assert bodies(store) == list(range(100))
        store.close()

    def test_a_connection_in_disorder_is_replaced_and_no_damage(self, opened, caplog):
        """As a failure in the middle of things may leave it."""
        fill(opened)
        opened._connection.execute("BEGIN")
        with pytest.raises(StoreUnavailable, match="within a transaction"), opened.unit():
            pass
        assert len(bodies(opened)) == 100
        assert caplog.text.count("again after a failure") == 1

    def test_a_store_is_good_again_when_it_could_be_written_to(self, opened, caplog, monkeypatch):
        """Reading alone proves nothing, and the log has one line for all that fails meanwhile."""
        fill(opened)
        with pytest.raises(StoreUnavailable), opened.unit():
            raise StoreUnavailable("as if a sync had failed")
        monkeypatch.setattr(apsw, "connection_hooks", [lambda connection: connection.pragma("query_only", True)])
        for write in (True, False, True, False):
            with pytest.raises(StoreUnavailable), opened.unit(write):
                pass
        assert len(caplog.messages) <= 2
        monkeypatch.undo()
        assert len(bodies(opened)) == 100

    def test_after_a_failed_sync_the_files_are_opened_again(self, opened):
        fill(opened)
        connection = opened._connection
        with pytest.raises(StoreUnavailable), opened.unit():
            raise StoreUnavailable("as if a sync had failed")
        assert len(bodies(opened)) == 100
        assert opened._connection is not connection


class TestForeign:
    """A file that is not ours is refused with a clear message and left as it is."""

    def refused(self, path: Path, *words: str) -> None:
        before = folder_of(path)
        with pytest.raises(StoreForeign) as raised:
            reopen(path)
        for word in (str(path), *words):
            assert word in str(raised.value)
        assert folder_of(path) == before

    @pytest.mark.parametrize(
        "content",
        [
            b"x",
            b"SQLite format 3\x00",
            b"SQLite format 3\x00" + bytes(84),
            b"just a text file\n" * 100,
            bytes(range(256)) * 64,
            bytes(8_192),
        ],
    )
    def test_no_database_at_all(self, path, content):
        path.write_bytes(content)
        self.refused(path)

    @pytest.mark.parametrize("journal", ["DELETE", "WAL"])
    def test_the_database_of_another_program(self, path, journal):
        foreign(path, f"PRAGMA journal_mode = {journal}", "CREATE TABLE theirs (x)").close()
        self.refused(path, "not one of Penstock's")

    def test_the_database_of_another_program_that_is_using_it(self, path):
        connection = foreign(path, "PRAGMA journal_mode = WAL", "CREATE TABLE theirs (x)")
        assert Path(f"{path}-wal").stat().st_size > 0
        self.refused(path, "not one of Penstock's")
        connection.execute("INSERT INTO theirs VALUES (1)")
        connection.close()

    @pytest.mark.parametrize("settings", [[], ["PRAGMA user_version = 1"], ["PRAGMA application_id = 77"]])
    def test_the_database_of_another_program_that_crashed(self, path, tmp_path, settings):
        running = tmp_path / "running.db"
        connection = foreign(running, "PRAGMA journal_mode = WAL", "CREATE TABLE theirs (x)", *settings)
        folder = tmp_path / "crashed"
        folder.mkdir()
        crashed = folder / "theirs.db"
        shutil.copy(running, crashed)
        shutil.copy(f"{running}-wal", f"{crashed}-wal")
        self.refused(crashed, "not one of Penstock's")
        connection.close()

    def test_another_programs_application_id(self, path):
        foreign(path, "PRAGMA application_id = 77", "PRAGMA user_version = 1").close()
        self.refused(path, "not one of Penstock's")

    def test_a_newer_schema(self, opened, path):
        fill(opened)
        newer = len(schema.scripts("sqlite")) + 1
        opened._connection.execute(f"PRAGMA user_version = {newer}")
        opened.close()
        before = folder_of(path)
        with pytest.raises(StoreForeign, match=f"schema version {newer}.*newer Penstock"):
            reopen(path)
        assert folder_of(path) == before

    def test_a_newer_schema_that_is_still_in_the_wal(self, opened, path, tmp_path):
        opened._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        newer = len(schema.scripts("sqlite")) + 1
        opened._connection.execute(f"PRAGMA user_version = {newer}")
        folder = tmp_path / "crashed"
        folder.mkdir()
        crashed = folder / "penstock.db"
        shutil.copy(path, crashed)
        shutil.copy(f"{path}-wal", f"{crashed}-wal")
        before = folder_of(crashed)
        with pytest.raises(StoreForeign, match="newer Penstock"):
            reopen(crashed)
        assert folder_of(crashed) == before


class TestPaths:
    def test_an_empty_file_is_a_new_store(self, path):
        path.touch()
        store = reopen(path)
        fill(store)
        assert len(bodies(store)) == 100
        store.close()

    def test_folders_are_made(self, tmp_path):
        path = tmp_path / "a" / "b" / "penstock.db"
        reopen(path).close()
        assert path.exists()

    def test_a_path_is_relative_to_where_the_program_was_started(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        open_store("sqlite:///data/penstock.db").close()
        assert (tmp_path / "data" / "penstock.db").exists()

    def test_no_name_means_that_nothing_is_kept(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        open_store("sqlite:///:memory:").close()
        assert (tmp_path / ":memory:").exists()

    def test_a_folder(self, tmp_path):
        with pytest.raises(StoreUnavailable, match="directory"):
            reopen(tmp_path)

    def test_a_path_below_a_file(self, tmp_path):
        (tmp_path / "file").write_text("text")
        with pytest.raises(StoreUnavailable, match="file"):
            reopen(tmp_path / "file" / "penstock.db")
        assert (tmp_path / "file").read_text() == "text"

    def test_a_place_where_no_file_can_be_made(self):
        with pytest.raises(StoreUnavailable, match="cannot be made"):
            reopen(Path("/proc/penstock.db"))

    def test_a_path_that_leads_in_circles(self, tmp_path):
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        with pytest.raises(StoreUnavailable, match="loop"):
            reopen(tmp_path / "loop")

    def test_a_file_that_may_not_be_read(self, stranger):
        path = stranger / "penstock.db"
        path.write_bytes(b"secret")
        path.chmod(0)
        with as_stranger(), pytest.raises(StoreUnavailable, match="Permission denied"):
            reopen(path)

    def test_a_file_that_may_only_be_read(self, stranger):
        path = stranger / "penstock.db"
        reopen(path).close()
        path.chmod(0o444)
        before = path.read_bytes()
        with as_stranger(), pytest.raises(StoreReadOnly, match="may only be read"):
            reopen(path)
        assert path.read_bytes() == before

    @pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite://relative.db", "penstock.db", "redis://x"])
    def test_a_url_that_names_no_store(self, url):
        with pytest.raises(InvalidSetting):
            open_store(url)


class TestModes:
    """What is in a queue is for the user who runs it."""

    def modes(self, path: Path) -> set[int]:
        return {file.stat().st_mode & 0o777 for file in path.parent.iterdir() if file.name.startswith(path.name)}

    def test_new_files_are_for_their_owner_alone(self, path):
        before = os.umask(0)
        try:
            store = reopen(path)
            fill(store)
        finally:
            os.umask(before)
        assert len(list(path.parent.iterdir())) == 3
        assert self.modes(path) == {0o600}
        store.close()

    def test_through_a_link_to_a_file_that_is_not_there_yet(self, path, tmp_path):
        (tmp_path / "elsewhere").mkdir()
        path.symlink_to(tmp_path / "elsewhere" / "real.db")
        store = reopen(path)
        assert self.modes(tmp_path / "elsewhere" / "real.db") == {0o600}
        fill(store)
        assert len(bodies(store)) == 100
        store.close()

    def test_a_file_keeps_the_mode_it_was_given_and_its_log_has_the_same(self, path):
        path.touch()
        path.chmod(0o640)
        store = reopen(path)
        fill(store)
        assert self.modes(path) == {0o640}
        store.close()


class TestGone:
    """A file that is deleted, moved or replaced while it is in use."""

    @pytest.fixture
    def filled(self, path) -> Iterator[Store]:
        """One that looks for its files before every unit."""
        with closing(SqliteStore(f"sqlite:///{path}", path, look_s=0.0)) as store:
            fill(store)
            yield store

    @pytest.mark.parametrize("end", ["", "-wal", "-shm"])
    def test_nothing_is_confirmed_once_it_is_gone(self, filled, path, end, caplog):
        Path(f"{path}{end}").unlink()
        for write in (True, False, True):
            with (
                pytest.raises(StoreUnavailable, match="deleted or moved while the store was in use"),
                filled.unit(write),
            ):
                pass
        assert [f"{path}{end}" in line for line in caplog.messages] == [True]

    def test_a_file_that_is_put_back_goes_on(self, filled, path, tmp_path):
        path.rename(tmp_path / "moved.db")
        with pytest.raises(StoreUnavailable), filled.unit():
            pass
        (tmp_path / "moved.db").rename(path)
        assert len(bodies(filled)) == 100

    def test_another_file_in_its_place_is_not_touched(self, filled, path, tmp_path):
        other = tmp_path / "other" / "penstock.db"
        store = reopen(other)
        fill(store, messages=7)
        for end in ("", "-wal", "-shm"):
            Path(f"{path}{end}").unlink()
            shutil.copy(f"{other}{end}", f"{path}{end}")
        store.close()
        with pytest.raises(StoreUnavailable, match="has been replaced"), filled.unit():
            pass
        filled.close()
        again = reopen(path)
        assert bodies(again) == list(range(7))
        again.close()

    def test_after_a_failure_no_new_store_takes_its_place(self, filled, path):
        with pytest.raises(StoreUnavailable), filled.unit():
            raise StoreUnavailable("as if a sync had failed")
        for file in path.parent.glob("penstock.db*"):
            file.unlink()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="deleted or moved"), filled.unit():
                pass
        assert list(path.parent.glob("penstock.db*")) == []

    def test_a_log_that_was_deleted_is_saved_by_an_orderly_end(self, filled, path):
        Path(f"{path}-wal").unlink()
        with pytest.raises(StoreUnavailable), filled.unit():
            pass
        filled.close()
        again = reopen(path)
        assert len(bodies(again)) == 100
        again.close()

    def test_it_is_looked_for_once_a_second(self, path, tmp_path):
        now = [0.0]
        with closing(SqliteStore(f"sqlite:///{path}", path, monotonic=lambda: now[0])) as store:
            fill(store)
            for _ in range(2):
                path.rename(tmp_path / "moved.db")
                for _ in range(100):
                    assert len(bodies(store)) == 100  # not noticed: the second is not over
                (tmp_path / "moved.db").rename(path)
                now[0] += 1.5
                assert len(bodies(store)) == 100  # looked for, and found
            path.rename(tmp_path / "moved.db")
            now[0] += 1.5
            with pytest.raises(StoreUnavailable, match="deleted or moved"):
                bodies(store)


class TestDamage:
    @pytest.fixture
    def closed(self, opened, path) -> Path:
        fill(opened, messages=2_000)
        opened.close()
        return path

    def use(self, path: Path) -> None:
        store = reopen(path)
        try:
            bodies(store)
            with store.unit() as unit:
                unit.claim("q", 1_000, NOW, None)
        finally:
            store.close()

    def damaged(self, path: Path) -> None:
        before = path.read_bytes()
        with pytest.raises((StoreCorrupt, StoreForeign)) as raised:
            self.use(path)
        assert str(raised.value)
        assert path.read_bytes() == before

    def test_cut_off(self, closed):
        content = closed.read_bytes()
        closed.write_bytes(content[: len(content) // 2])
        self.damaged(closed)

    def test_cut_off_after_the_first_page(self, closed):
        closed.write_bytes(closed.read_bytes()[:4_096])
        self.damaged(closed)

    @pytest.mark.parametrize("first", [0, 1, 5])
    def test_overwritten_pages(self, closed, first):
        content = bytearray(closed.read_bytes())
        start = max(first * 4_096, 100)  # the header stays: else it is not a database at all
        content[start:] = b"\xa5" * (len(content) - start)
        closed.write_bytes(content)
        self.damaged(closed)

    def test_an_overwritten_header(self, closed):
        content = closed.read_bytes()
        closed.write_bytes(b"\xa5" * 100 + content[100:])
        self.damaged(closed)

    def test_ours_by_its_header_but_without_tables(self, path):
        ours = f"PRAGMA application_id = {sqlite_file.APPLICATION_ID}"
        foreign(path, "PRAGMA journal_mode = WAL", ours, "PRAGMA user_version = 1").close()
        self.damaged(path)

    @pytest.mark.parametrize("page", range(1, 40, 3))
    def test_one_bad_page_is_an_error_of_ours_or_does_not_matter(self, closed, page):
        content = bytearray(closed.read_bytes())
        content[page * 4_096 : (page + 1) * 4_096] = b"\x5a" * 4_096
        closed.write_bytes(content)
        with suppress(OperatorError, TryAgain):
            self.use(closed)


class TestSharing:
    @pytest.fixture
    def other(self, opened, path) -> Iterator[Store]:
        store = reopen(path)
        yield store
        store.close()

    def test_two_stores_on_one_file_see_each_other(self, opened, other):
        fill(opened)
        assert len(bodies(other)) == 100
        with other.unit() as unit:
            unit.messages.purge("q", NOW, 1_000, unit.messages.last_seq())
        assert bodies(opened) == []

    def test_nothing_is_remembered_that_another_has_changed(self, opened, other):
        fill(opened)
        bodies(other)
        with opened.unit() as unit:
            unit.update_queue("q", Settings(visibility_ms=5), 0)
            unit.send("q", [Draft(b"100")], NOW)
        with other.unit() as unit:
            [message] = unit.claim("q", 1, NOW, None).messages
            assert message.ready_at == NOW + 5
            unit.send("q", [Draft(b"101")], NOW)
            assert unit.messages.last_seq() == 102
        with opened.unit() as unit:
            unit.delete_queue("q", NOW)
        with other.unit(write=False) as unit:
            assert unit.find_queue("q") is None

    def test_a_change_by_another_is_noticed_once(self, opened, other):
        assert not opened.changed_elsewhere()
        fill(other)
        assert opened.changed_elsewhere()
        assert not opened.changed_elsewhere()
        assert not other.changed_elsewhere()

    def test_a_queue_that_holds_no_message_has_not_changed(self, opened, other):
        with other.unit() as unit:
            for name in ("idle", "emptied", "busy", "deleted"):
                unit.create_queue(name, Settings(), NOW)
        opened.changed_elsewhere()
        with other.unit() as unit:
            for name in ("emptied", "busy", "deleted"):
                unit.send(name, [Draft(b"x")], NOW)
            unit.ack([Receipt(message.id) for message in unit.claim("emptied", 1, NOW, 1_000).messages], NOW)
            unit.claim("busy", 1, NOW, 1_000)
            unit.delete_queue("deleted", NOW)
        changed = opened.changed_elsewhere()
        looked_for = {name for name in ("idle", "emptied", "busy", "deleted", "never made") if name in changed}
        assert looked_for == {"busy", "deleted", "never made"}

    def test_ones_own_changes_and_the_reading_of_others_are_none(self, opened, other):
        fill(opened)
        bodies(other)
        assert not opened.changed_elsewhere()

    def test_what_another_lost_is_not_a_change(self, opened, other):
        with pytest.raises(ZeroDivisionError), other.unit() as unit:
            unit.create_queue("q", Settings(), 1 // 0)
        assert not opened.changed_elsewhere()

    def test_a_writer_that_does_not_let_go_is_busy_after_the_patience(self, opened, other):
        fill(opened)
        with opened.unit() as unit:
            unit.send("q", [Draft(b"100")], NOW)
            with pytest.raises(StoreBusy, match="another process"), other.unit():
                pass
        with other.unit() as unit:
            unit.send("q", [Draft(b"101")], NOW)
        assert bodies(opened)[-2:] == [100, 101]

    def test_patience_is_waited_out(self, opened, path):
        waited = []
        patient = SqliteStore(f"sqlite:///{path}", path, 50, monotonic=lambda: sum(waited), sleep=waited.append)
        with opened.unit(), pytest.raises(StoreBusy), patient.unit():
            pass
        assert sum(waited) >= 0.050
        patient.close()

    def test_readers_do_not_wait_for_a_writer(self, opened, other):
        fill(opened)
        with opened.unit() as unit:
            unit.send("q", [Draft(b"100")], NOW)
            assert len(bodies(other)) == 100
        assert len(bodies(other)) == 101

    def test_a_writer_does_not_wait_for_readers(self, opened, other):
        fill(opened)
        with other.unit(write=False) as reading:
            assert len(reading.messages.peek("q", 1_000)) == 100
            with opened.unit() as unit:
                unit.send("q", [Draft(b"100")], NOW)
            assert len(reading.messages.peek("q", 1_000)) == 100  # one unit sees one state

    def test_another_store_in_this_process_drops_no_lock(self, opened, path):
        """A process that only looks, and finds no lock, would fold the log into the file and delete it."""
        fill(opened)
        for number in range(100, 104):
            reopen(path).close()
            assert rows_seen_elsewhere(path) == number
            with opened.unit() as unit:
                unit.send("q", [Draft(b"%d" % number)], NOW)
        assert rows_seen_elsewhere(path) == 104

    def test_a_store_that_is_refused_drops_no_lock(self, path):
        connection = foreign(path, "PRAGMA journal_mode = WAL", "CREATE TABLE message (x)")
        for number in range(3):
            with pytest.raises(StoreForeign):
                reopen(path)
            assert rows_seen_elsewhere(path) == number
            connection.execute("INSERT INTO message VALUES (1)")
        assert rows_seen_elsewhere(path) == 3
        connection.close()

    def test_a_store_whose_schema_another_is_making_is_waited_for(self, path):
        first, second = reopen(path), reopen(path)
        fill(first)
        assert len(bodies(second)) == 100
        first.close()
        second.close()


class TestRoom:
    def device(self, monkeypatch, free: int, size: int = 2**40) -> None:
        def statvfs(_path: object) -> os.statvfs_result:
            return os.statvfs_result((4096, 4096, size // 4096, free // 4096, free // 4096, 0, 0, 0, 0, 255))

        monkeypatch.setattr(sqlite.os, "statvfs", statvfs)

    def test_a_full_device_has_no_room_until_something_is_freed(self, opened, monkeypatch):
        self.device(monkeypatch, free=0)
        assert not opened.has_room()
        self.device(monkeypatch, free=2**40)
        assert opened.has_room()

    def test_what_is_kept_for_claims_and_acks_is_not_room(self, opened, monkeypatch):
        self.device(monkeypatch, free=1024 * 1024)
        assert not opened.has_room()

    def test_claims_and_acks_go_on_without_room(self, opened, monkeypatch):
        fill(opened)
        self.device(monkeypatch, free=0)
        with opened.unit() as unit:
            assert len(unit.claim("q", 10, NOW, None).messages) == 10

    def test_what_was_freed_inside_the_file_is_room(self, path, monkeypatch):
        """On a device of four megabytes, of which half a megabyte is kept."""
        self.device(monkeypatch, free=0, size=4_000_000)
        with closing(reopen(path)) as store:
            fill(store, messages=1_000, size=1_000)
            assert not store.has_room()
            with store.unit() as unit:
                unit.messages.purge("q", NOW, 1_000, unit.messages.last_seq())
            assert store.has_room()

    def test_what_is_free_on_the_device_and_inside_the_file_is_room_together(self, path, monkeypatch):
        self.device(monkeypatch, free=300_000, size=4_000_000)
        with closing(reopen(path)) as store:
            fill(store, messages=300, size=1_000)
            assert not store.has_room()
            with store.unit() as unit:
                unit.messages.purge("q", NOW, 1_000, unit.messages.last_seq())
            [(free_pages,)] = store._connection.execute("PRAGMA freelist_count").fetchall()
            assert 200_000 < free_pages * 4096 < 500_000
            assert store.has_room()

    def test_a_database_that_may_not_grow_is_full_and_loses_nothing(self, opened):
        fill(opened)
        [(pages,)] = opened._connection.execute("PRAGMA page_count").fetchall()
        opened._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreFull), opened.unit() as unit:
            unit.send("q", [Draft(bytes(1_000_000))], NOW)
        assert bodies(opened) == list(range(100))


class TestUnitBeside:
    """For another thread than the one that units run on."""

    def test_sees_what_is_committed_and_nothing_later(self, opened):
        fill(opened)
        with opened.unit_beside() as beside:
            before = beside.count("q", NOW, 1000).total
            with opened.unit() as unit:
                unit.send("q", [Draft(b"later")], NOW)
            assert beside.count("q", NOW, 1000).total == before
        with opened.unit_beside() as beside:
            assert beside.count("q", NOW, 1000).total == before + 1

    def test_changes_nothing(self, opened):
        fill(opened)
        with pytest.raises(StoreUnavailable), opened.unit_beside() as beside:
            beside.send("q", [Draft(b"x")], NOW)

    def test_its_failure_is_not_the_stores(self, opened):
        fill(opened)
        with pytest.raises(ZeroDivisionError), opened.unit_beside():
            raise ZeroDivisionError
        with opened.unit() as unit:
            assert unit.count("q", NOW, 1000).total

    def test_a_file_that_is_gone_is_not_read(self, opened, path):
        path.rename(path.with_name("elsewhere.db"))
        with pytest.raises(StoreUnavailable), opened.unit_beside():
            pass
