"""`penstock migrate-store`: what it prints, how it ends, and what becomes of a store that is half done."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.cli.migrate import Shown
from penstock.model import Draft, Key, Settings
from penstock.stores import open_sql_store, open_store
from penstock.stores.transfer import copy
from penstock.terminal import Lines
from tests.servers import SERVE
from tests.stores.transfer.observers import Died, Quiet, die

PENSTOCK = [sys.executable, "-m", "penstock"]


@pytest.fixture
def source(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/old.db"
    with closing(open_store(url)) as store, store.unit() as unit:
        unit.create_queue("jobs", Settings(), 1)
        unit.send("jobs", [Draft(b"%d" % n) for n in range(1_234)], 1)
        unit.messages.purge("jobs", 1, 1, 1)
        unit.keys.create(Key("me", bytes(32), ("queue|*|*",), 1))
    return url


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/new.db"


@pytest.fixture
def half(source: str, target: str) -> str:
    """A target that was left when all was copied and nothing compared."""
    with pytest.raises(Died):
        copy.migrate(source, target, Quiet("comparing rows", die))
    return target


def migrate(*words: str) -> Result:
    return CliRunner().invoke(main, ["migrate-store", *words])


def test_it_says_what_it_has_done(source, target, monkeypatch):
    monkeypatch.setattr("penstock.cli.migrate.fitting", lambda: Lines(every_s=3600))
    result = migrate(source, target)
    assert result.exit_code == 0, result.output
    assert re.fullmatch(
        r"copied 1 queue, 1 API key, 0 actions, 0 moves, 0 consumers, 0 shipments, 0 leases, 0 exports, "
        r"0 keyed sends, 0 dedup keys, 0 attempts, 0 collapsed keys, 0 figure buckets, 1,233 messages, "
        r"1 ledger row in \d+\.\d s; all of it was compared\n",
        result.stdout,
    )
    assert result.stderr.splitlines() == [
        "penstock: looking at the source",
        "penstock: copying messages: 1,233 of 1,233",
        "penstock: copying ledger rows: 1 of 1",
        "penstock: comparing rows: 2,468 of 2,468",
    ]
    with closing(open_store(target)) as store, store.unit(write=False) as unit:
        assert unit.count("jobs", 1, 10).total == 1_233


def test_json(source, target):
    result = migrate(source, target, "--json")
    printed = json.loads(result.stdout)
    assert printed.pop("seconds") > 0
    assert printed == {
        "copied": {
            "queue": 1,
            "api_key": 1,
            "action": 0,
            "move": 0,
            "consumer": 0,
            "shipment": 0,
            "lease": 0,
            "export": 0,
            "sending": 0,
            "seen": 0,
            "attempt": 0,
            "collapse": 0,
            "figure": 0,
            "message": 1_233,
            "ledger": 1,
        }
    }


def test_a_log_hears_of_it_every_few_seconds(source, target):
    log = io.StringIO()
    copy.migrate(source, target, Shown(Lines(log, every_s=0)))
    lines = log.getvalue().splitlines()
    assert "penstock: copying messages: 16 of 1,233" in lines
    assert "penstock: copying messages: 48 of 1,233" in lines


def test_a_terminal_shows_bars(source, target):
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*PENSTOCK, "migrate-store", source, target], stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # how a terminal says that its other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    text = shown.decode()
    assert re.search(r"\[#+\] copying messages: 1,233 of 1,233", text), text
    assert "####] comparing rows: " in text
    assert "copied 1 queue, " in text


def test_it_goes_on(source, half):
    result = migrate(source, half)
    assert result.exit_code == 0
    assert "penstock: going on where an earlier run ended\n" in result.stderr
    assert (
        "0 keyed sends, 0 dedup keys, 0 attempts, 0 collapsed keys, 0 figure buckets, 1,233 messages, 1 ledger row"
        in result.stdout
    )


@pytest.mark.parametrize(
    "words", [["serve", "--port", "0"], ["key", "list"], ["key", "create", "--name", "n", "--allow", "queue|*|*"]]
)
def test_nothing_else_opens_the_half_of_a_copy(words, source, half, tmp_path):
    done = subprocess.run([*PENSTOCK, *words, "--store", half], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        f"penstock: this store is the unfinished copy of {source}: "
        f"finish it with 'penstock migrate-store {source} {half}'\n"
    )


def refusals() -> dict[str, tuple[str, str, int, str]]:
    old, new = "sqlite:///{folder}/old.db", "sqlite:///{folder}/new.db"
    return {
        "memory": ("memory://", new, 2, "a store of the kind 'memory' cannot be migrated"),
        "mqcore": (old, "mqcore:///{folder}/mq", 2, "a store of the kind 'mqcore' cannot be migrated"),
        "no URL": (old, "new.db", 2, "a store of the kind 'new.db' cannot be migrated"),
        "not there": ("sqlite:///{folder}/odl.db", new, 2, "there is no store at sqlite:///"),
        "same": (old, old, 2, "both are the same store"),
        "not empty": (old, "sqlite:///{folder}/other.db", 2, "the target is not empty: it holds at least one queue"),
        "foreign": (old, "sqlite:///{folder}/text", 4, "is not a SQLite database; nothing was changed in it"),
        "no server": (old, "postgresql://127.0.0.1:1/db", 4, "the database cannot be reached"),
        "no MariaDB": (old, "mariadb://127.0.0.1:1/db", 4, "the database cannot be reached"),
        "no database": (old, "mariadb://127.0.0.1", 2, "a MariaDB store is mariadb://"),
    }


@pytest.mark.parametrize("case", refusals())
def test_a_refusal_is_one_line_and_a_code(case: str, source: str, tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/other.db")) as store, store.unit() as unit:
        unit.create_queue("here", Settings(), 1)
    (tmp_path / "text").write_text("something else " * 100)
    first, second, code, line = refusals()[case]
    result = migrate(first.format(folder=tmp_path), second.format(folder=tmp_path))
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("penstock: ")
    assert result.stderr.count("\n") == 1
    assert line in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if "-" not in path.name) == ["old.db", "other.db", "text"]


def test_a_source_that_changes_is_code_4(source, target, monkeypatch):
    fingerprint: Callable[..., object] = copy.fingerprint
    looks = []

    def look(side):
        looks.append(1)
        if len(looks) == 2:
            with closing(open_sql_store(source)) as store, store.unit() as unit:
                unit.claim("jobs", 1, 5, None)
        return fingerprint(side)

    monkeypatch.setattr(copy, "fingerprint", look)
    result = migrate(source, target)
    assert (result.exit_code, result.stdout) == (4, "")
    assert "penstock: the source has changed: stop every server and every program that uses one of" in result.stderr
    assert "penstock: the source has changed since the last run: starting over\n" in migrate(source, target).stderr


def test_a_server_at_work_is_noticed_and_one_that_is_started_later_says_so(source, target, serve):
    server = serve("--store", source)
    refused = migrate(source, target)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "a server or another program has the first store open: stop it" in refused.stderr
    with server.talk() as talk:
        assert talk("GET", "/health").body == b"green"
    server.terminate()
    assert migrate(source, target).exit_code == 0
    ended = subprocess.run([*SERVE, "--port", "0", "--store", source], capture_output=True, text=True)
    assert ended.returncode == 4
    assert f"penstock: this store was copied to {target} at " in ended.stderr
    again = migrate(source, target)
    assert again.exit_code == 0
    assert "comparing them again" in again.stderr


def test_taking_back(source, target):
    assert migrate("--take-back", source).exit_code == 2
    migrate(source, target)
    assert migrate("--take-back", source, target).exit_code == 2
    assert migrate(source).exit_code == 2
    assert migrate("--take-back", source).stdout == "servers may open it again\n"
    open_store(source).close()
    migrate(source, target)
    assert json.loads(migrate("--take-back", source, "--json").stdout) == {"taken_back": True}
