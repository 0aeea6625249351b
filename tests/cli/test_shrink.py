"""`penstock shrink`: by a server, or of a file that no server has open."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from penstock.model import Draft, Settings
from penstock.stores import open_store
from penstock.stores.protocol import needed
from penstock.stores.verification.verification import verify


@pytest.fixture
def old(tmp_path: Path) -> str:
    """A store as an earlier version has made it, whose free pages stay in the file."""
    path = tmp_path / "old.db"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; CREATE TABLE t (x); DROP TABLE t")
    connection.close()
    url = f"sqlite:///{path}"
    with closing(open_store(url)) as store:
        with store.unit() as unit:
            unit.create_queue("q", Settings(), 1)
            unit.send("q", [Draft(b"stays")], 1)
            unit.create_queue("bulk", Settings(), 1)
            unit.send("bulk", [Draft(bytes(4_000))] * 1_000, 1)
        with store.unit() as unit:
            needed(unit.messages, "messages").purge("bulk", 1, 2_000, 10_000)
    return url


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def sizes(url: str) -> tuple[int, bool]:
    with closing(open_store(url)) as store, store.unit(write=False) as unit:
        found = unit.figures.sizes()
        return found.unused_bytes or 0, found.shrinks


def test_a_file_is_rebuilt_and_can_shrink_from_then_on(run, old):
    before = path_of(old).stat().st_size
    assert before > 4_000_000
    assert sizes(old)[1] is False
    result = run("shrink", "--store", old, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["bytes_before"], told["bytes_after"]) == (before, path_of(old).stat().st_size)
    assert told["bytes_after"] < 1_000_000
    assert sizes(old) == (0, True)
    assert verify(old, lambda _part: None, bodies=True).is_sound
    with closing(open_store(old)) as store, store.unit() as unit:
        assert [message.body for message in unit.claim("q", 1, 2, None).messages] == [b"stays"]
    assert run("shrink", "--store", old).stdout.startswith("rebuilt in ")


def test_a_file_in_use_is_left_alone(run, old):
    with closing(open_store(old)):
        result = run("shrink", "--store", old)
        assert result.exit_code == 4
        assert "stop every server and program that uses it first" in result.stderr
    assert sizes(old)[1] is False


def test_what_is_no_file(run, tmp_path):
    assert run("shrink", "--store", f"sqlite:///{tmp_path}/none.db").exit_code == 2
    result = run("shrink", "--store", "postgresql://nobody@127.0.0.1:1/none")
    assert (result.exit_code, "VACUUM FULL" in result.stderr) == (2, True)
    assert not (tmp_path / "none.db").exists()


def test_a_server_is_asked(run):
    run("queue", "create", "jobs")
    result = run("shrink")
    assert result.exit_code == 0
    assert result.stdout.startswith("gave back ")
    assert json.loads(run("shrink", "--json").stdout)["returned_bytes"] >= 0
