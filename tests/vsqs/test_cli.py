"""`penstock vsqs`."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.vsqs import Queue


@pytest.fixture
def run(path):
    def run(verb: str, *words: str, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(main, ["vsqs", verb, str(path), *words], input=stdin)

    return run


def test_a_message_from_end_to_end(run, path):
    id_ = run("publish", "hello").stdout.strip()
    assert run("size").stdout == "1\n"
    received = run("receive", "--visibility", "1m", "--wait", "1s")
    assert (received.stdout, received.stderr, received.exit_code) == ("hello", f"{id_}\n", 0)
    deleted = run("delete", id_)
    assert (deleted.stdout, deleted.exit_code) == (f"deleted {id_}\n", 0)
    assert run("size").stdout == "0\n"


def test_bodies_come_from_an_argument_a_file_or_standard_input(run, path, tmp_path):
    (tmp_path / "body").write_bytes(b"\xff\0")
    assert run("publish", "-", stdin=b"typed\n").exit_code == 0
    assert run("publish", "--file", str(tmp_path / "body")).exit_code == 0
    assert run("publish", "both", "--file", "x").exit_code == 2
    with Queue(path) as queue:
        assert [queue.receive()[1], queue.receive()[1]] == [b"typed\n", b"\xff\0"]


def test_json(run):
    id_ = json.loads(run("publish", "x", "--json").stdout)["id"]
    assert json.loads(run("receive", "--visibility", "1h", "--json").stdout) == {"id": id_, "body": "x"}
    run("publish", "-", stdin=b"\xff")
    assert json.loads(run("receive", "--visibility", "1h", "--json").stdout)["body_base64"] == "/w=="
    assert json.loads(run("size", "--json").stdout) == {"size": 2}
    assert json.loads(run("delete", id_, "--json").stdout) == {"deleted": True}


def test_a_message_is_for_its_publisher_alone_unless_a_mode_says_otherwise(run, path):
    before = os.umask(0)
    try:
        id_ = run("publish", "x").stdout.strip()
        assert (path / id_).stat().st_mode & 0o777 == 0o600
        assert path.stat().st_mode & 0o777 == 0o700
        id_ = run("publish", "x", "--mode", "660").stdout.strip()
        assert (path / id_).stat().st_mode & 0o777 == 0o660
    finally:
        os.umask(before)
    for wrong in ("400", "8", "1777", "rw"):
        assert run("publish", "x", "--mode", wrong).exit_code == 2
    assert run("size").stdout == "2\n"


def test_nothing_there(run, path):
    path.mkdir()
    empty = run("receive")
    assert (empty.exit_code, empty.stdout) == (1, "")
    assert empty.stderr.startswith("penstock: no message is ready in ")
    assert run("delete", "5").exit_code == 1
    assert run("delete", "nonsense").exit_code == 2


def test_a_mistyped_path_is_not_made(run, path):
    for words in (["receive"], ["size"], ["delete", "5"]):
        result = run(*words)
        assert result.exit_code == 3
        assert "there is no queue at" in result.stderr
    assert not path.exists()
