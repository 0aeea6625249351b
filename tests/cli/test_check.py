"""`penstock check`: what it prints, and how it ends."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.model import Draft, Settings
from penstock.stores import open_store


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/live.db"
    with closing(open_store(url)) as opened, opened.unit() as unit:
        unit.create_queue("jobs", Settings(), 1)
        unit.send("jobs", [Draft(b"%d" % n) for n in range(1_234)], 1)
    return url


def run(*words: str, **environ: str) -> Result:
    return CliRunner(env=environ).invoke(main, ["check", *words])


def lose_one(folder: Path) -> None:
    with closing(apsw.Connection(f"{folder}/live.db")) as connection:
        connection.execute("DELETE FROM message WHERE seq = 7")


def test_a_sound_store(store):
    result = run(store)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["CHECK", "RESULT"]
    assert ["tallies", "sound"] in [line.split() for line in lines]
    assert lines[-1] == "sound: 1 queues, 1,234 messages, 0 ledger rows"


def test_a_problem_is_code_1(store, tmp_path):
    lose_one(tmp_path)
    result = run(store)
    assert result.exit_code == 1
    assert "tallies  jobs   1,234 messages have arrived and 0 have departed, but 1,233 are there" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 problem: 1 queues, 1,233 messages, 0 ledger rows"


def test_json(store, tmp_path):
    lose_one(tmp_path)
    result = run(store, "--json", "--bodies")
    assert (result.exit_code, result.stderr) == (1, "")
    printed = json.loads(result.stdout)
    assert printed.pop("seconds") > 0
    assert (printed["is_sound"], printed["checks"]["tallies"], printed["checks"]["bodies"]) == (False, 1, 0)
    assert printed["findings"] == [
        {
            "check": "tallies",
            "queue": "jobs",
            "text": "1,234 messages have arrived and 0 have departed, but 1,233 are there",
        }
    ]


def test_without_a_store_it_is_that_of_the_settings(store):
    assert "1,234 messages" in run(PENSTOCK_STORE=store).stdout


def test_the_store_of_a_server_at_work(server, tmp_path):
    with server.talk() as talk:
        for number in range(20):
            talk("POST", "/messages/q", b"%d" % number)
        assert run(f"sqlite:///{tmp_path}/data/penstock.db").exit_code == 0
        assert talk("GET", "/health").body == b"green"


@pytest.mark.parametrize(
    ("url", "code", "line"),
    [
        ("memory://", 2, "a memory:// store cannot be checked"),
        ("sqlite:///{folder}/odl.db", 2, "there is no store at sqlite:///"),
        ("sqlite:///{folder}/text", 4, "is not a SQLite database"),
        ("postgresql://127.0.0.1:1/db", 4, "the database cannot be reached"),
        ("mariadb://127.0.0.1:1/db", 4, "the database cannot be reached"),
    ],
)
def test_a_refusal_is_one_line_and_a_code(url, code, line, tmp_path):
    (tmp_path / "text").write_text("something else " * 100)
    result = run(url.format(folder=tmp_path))
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("penstock: ")
    assert result.stderr.count("\n") == 1
    assert line in result.stderr
