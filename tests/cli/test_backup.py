"""`penstock backup`: one moment of a store in one file, whatever is written meanwhile."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import re
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.errors import StoreUnavailable
from penstock.model import Draft, Settings
from penstock.stores import backup, open_store
from penstock.stores.backup import back_up
from tests.waiting import wait_until

PENSTOCK = [sys.executable, "-m", "penstock"]


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/live.db"
    with closing(open_store(url)) as opened, opened.unit() as unit:
        unit.create_queue("jobs", Settings(), 1)
        unit.send("jobs", [Draft(b"%d" % n) for n in range(100)], 1)
    return url


@pytest.fixture
def large(store: str) -> str:
    """More than a few steps of a copy."""
    with closing(open_store(store)) as opened:
        for _ in range(20):
            with opened.unit() as unit:
                unit.send("jobs", [Draft(bytes(1_000_000))], 1)
    return store


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["backup", *map(str, words)])


def count(url: str) -> int:
    with closing(open_store(url)) as opened, opened.unit(write=False) as unit:
        return unit.count("jobs", 1, 10_000).total


def quiet(_done: int, _total: int) -> None:
    pass


def test_the_copy_is_a_store_for_its_owner_alone(store, tmp_path):
    copy = tmp_path / "copy.db"
    result = run(store, copy)
    assert result.exit_code == 0, result.output
    assert re.fullmatch(rf"copied [\d,]+ bytes into {copy} in \d+\.\d s\n", result.stdout)
    assert re.fullmatch(r"penstock: copying pages: (\d+) of \1\n", result.stderr)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir() if "copy" in path.name) == ["copy.db"]
    assert count(f"sqlite:///{copy}") == 100


def test_json(store, tmp_path):
    copy = tmp_path / "copy.db"
    printed = json.loads(run(store, copy, "--json").stdout)
    assert printed.pop("seconds") > 0
    assert printed == {"file": str(copy), "bytes": copy.stat().st_size}


def test_messages_that_are_only_in_the_log_are_copied(store, tmp_path):
    with closing(open_store(store)) as opened:
        with opened.unit() as unit:
            unit.send("jobs", [Draft(b"new")], 1)
        assert Path(f"{tmp_path}/live.db-wal").stat().st_size > 0
        assert run(store, tmp_path / "copy.db").exit_code == 0
    assert count(f"sqlite:///{tmp_path}/copy.db") == 101


def test_writers_between_any_two_steps_do_not_make_it_start_over(large, tmp_path):
    steps = []
    with closing(open_store(large)) as opened:

        def advance(done: int, total: int) -> None:
            steps.append((done, total))
            with opened.unit() as unit:
                unit.send("jobs", [Draft(b"meanwhile")], 1)

        back_up(large, tmp_path / "copy.db", advance)
    assert len(steps) > 4
    assert [done for done, _ in steps] == sorted({done for done, _ in steps})
    assert len({total for _, total in steps}) == 1
    assert count(f"sqlite:///{tmp_path}/copy.db") == 120
    assert count(large) == 120 + len(steps)


def test_the_log_starts_over_as_soon_as_the_copy_is_made(large, tmp_path):
    log = tmp_path / "live.db-wal"
    with closing(open_store(large)) as opened:

        def write(*_: int) -> None:
            with opened.unit() as unit:
                unit.send("jobs", [Draft(bytes(1_000_000))], 1)

        back_up(large, tmp_path / "copy.db", write)
        grown = log.stat().st_size

        def starts_over() -> bool:
            """A thread of the store brings it home, so that no one waits for that."""
            write()
            return log.stat().st_size < grown

        wait_until(starts_over)


def test_a_file_that_is_there_is_replaced_only_by_force(store, tmp_path):
    copy = tmp_path / "copy.db"
    copy.write_bytes(b"mine")
    refused = run(store, copy)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == (f"penstock: {copy} is already there: name another file, or add --force to replace it\n")
    assert copy.read_bytes() == b"mine"
    assert run(store, copy, "--force").exit_code == 0
    assert count(f"sqlite:///{copy}") == 100


def test_the_log_of_another_store_never_becomes_that_of_the_copy(store, tmp_path):
    other = f"sqlite:///{tmp_path}/other.db"
    with closing(open_store(other)) as opened:
        with opened.unit() as unit:
            unit.create_queue("other", Settings(), 1)
        refused = run(store, tmp_path / "other.db", "--force")
    assert refused.exit_code == 2
    assert "other.db-wal is there: " in refused.stderr
    with closing(open_store(other)) as opened, opened.unit(write=False) as unit:
        assert unit.find_queue("other") is not None


REFUSALS = {
    "itself": ("sqlite:///{folder}/live.db", "live.db", 2, "cannot be backed up into itself"),
    "its log": ("sqlite:///{folder}/live.db", "live.db-wal", 2, "cannot be backed up into itself"),
    "no store": ("sqlite:///{folder}/odl.db", "copy.db", 2, "there is no store at sqlite:///"),
    "no folder": ("sqlite:///{folder}/live.db", "no/copy.db", 2, "there is no folder "),
    "a folder": ("sqlite:///{folder}/live.db", "folder", 2, "is a folder: name a file in it"),
    "foreign": ("sqlite:///{folder}/text", "copy.db", 4, "is not a SQLite database; nothing was changed in it"),
    "postgresql": ("postgresql://127.0.0.1:1/db", "copy.db", 2, "back up the database with pg_dump"),
    "mariadb": ("mariadb://127.0.0.1:1/db", "copy.db", 2, "back up the database with mariadb-dump"),
    "mqcore": ("mqcore:///{folder}/mq", "copy.db", 2, "its folder can be copied with every server stopped"),
    "memory": ("memory://", "copy.db", 2, "copies SQLite stores, not a memory:// store"),
    "no URL": ("live.db", "copy.db", 2, "a store is a URL such as "),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_is_one_line_and_a_code_and_leaves_nothing(case, store, tmp_path):
    (tmp_path / "text").write_text("something else " * 100)
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    url, name, code, line = REFUSALS[case]
    result = run(url.format(folder=tmp_path), tmp_path / name, "--force")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("penstock: ")
    assert result.stderr.count("\n") == 1
    assert line in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_an_interrupt_leaves_nothing(large, tmp_path):
    def interrupted(_done: int, _total: int) -> None:
        assert (tmp_path / "copy.db.partial").is_file()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_up(large, tmp_path / "copy.db", interrupted)
    assert not [path for path in tmp_path.iterdir() if "copy" in path.name]


def test_an_interrupt_leaves_what_was_there_before(large, tmp_path, monkeypatch):
    (tmp_path / "copy.db").write_bytes(b"mine")
    monkeypatch.setattr("penstock.terminal.Lines.show", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    result = run(large, tmp_path / "copy.db", "--force")
    assert result.exit_code == 130
    assert result.stderr.strip() == "penstock: interrupted: no copy was made"
    assert (tmp_path / "copy.db").read_bytes() == b"mine"
    assert not (tmp_path / "copy.db.partial").exists()


def test_two_at_once_do_not_mix(large, tmp_path):
    seen = []

    def second(_done: int, _total: int) -> None:
        seen.append(run(large, tmp_path / "copy.db"))

    back_up(large, tmp_path / "copy.db", second)
    assert {result.exit_code for result in seen} == {2}
    assert "another 'penstock backup' is writing" in seen[0].stderr
    assert count(f"sqlite:///{tmp_path}/copy.db") == 120


def test_what_a_killed_run_has_left_is_written_over(store, tmp_path):
    left = tmp_path / "copy.db.partial"
    left.write_bytes(b"x" * 10_000_000)
    left.chmod(0o644)
    assert run(store, tmp_path / "copy.db").exit_code == 0
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    assert count(f"sqlite:///{tmp_path}/copy.db") == 100
    assert not left.exists()


def test_a_link_is_not_followed(store, tmp_path):
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "copy.db.partial").symlink_to(tmp_path / "precious")
    result = run(store, tmp_path / "copy.db")
    assert result.exit_code == 2
    assert os.strerror(errno.ELOOP) in result.stderr
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_a_copy_that_would_take_the_last_room_is_not_begun(store, tmp_path, monkeypatch):
    monkeypatch.setattr(backup, "reserve", lambda _folder: 1 << 60)
    with pytest.raises(StoreUnavailable, match=r"no room for the copy .* the store keeps .* free there"):
        back_up(store, tmp_path / "copy.db", quiet)
    assert not (tmp_path / "copy.db.partial").exists()


def test_file_and_folder_are_synced_around_the_rename(store, tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace

    def noting_fsync(descriptor: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def noting_replace(old: Path, new: Path) -> None:
        calls.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(os, "replace", noting_replace)
    back_up(store, tmp_path / "copy.db", quiet)
    assert calls == ["file", "rename", "folder"]


def test_it_reads_where_nothing_can_be_written_beside_the_copy(store, tmp_path):
    folder = tmp_path / "shelf"
    folder.mkdir()
    back_up(store, folder / "copy.db", quiet)
    assert run(f"sqlite:///{folder}/copy.db", tmp_path / "again.db").exit_code == 0
    assert [path.name for path in folder.iterdir()] == ["copy.db"]


def test_a_terminal_shows_a_bar(store, tmp_path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*PENSTOCK, "backup", store, str(tmp_path / "copy.db")], stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # how a terminal says that its other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    assert re.search(r"\[#+\] copying pages: (\d+) of \1", shown.decode())


def test_the_lock_is_gone_with_the_process(store, tmp_path):
    with (tmp_path / "copy.db.partial").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run(store, tmp_path / "copy.db").exit_code == 2
    assert run(store, tmp_path / "copy.db").exit_code == 0
