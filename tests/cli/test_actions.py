"""`penstock actions`."""

from __future__ import annotations

import json

from click.testing import CliRunner

from penstock.cli import main
from penstock.stores import open_store


def lines_of(result):
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_there_are_none(run):
    result = run("actions")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "penstock: there are no actions\n")
    assert run("actions", "--queue", "none").stderr == "penstock: there are no such actions\n"


def test_a_kind_that_is_not_one(run):
    result = run("actions", "--what", "bogus")
    assert result.exit_code == 3
    assert result.stderr.startswith("penstock: --what must be one of queue.create, queue.update, ")
    assert "key.create" in result.stderr
    assert "--key.create" not in result.stderr


def test_a_table(run):
    run("queue", "create", "jobs", "--delay", "5s")
    run("send", "jobs", "hello")
    run("purge", "jobs", "--yes")
    header, purge, create = run("actions").stdout.splitlines()
    assert header.split() == ["NUMBER", "AT", "KEY", "VIA", "WHAT", "QUEUE", "COUNT", "DETAIL"]
    assert purge.split()[-4:] == ["native", "queue.purge", "jobs", "1"]
    assert create.split()[-4:] == ["native", "queue.create", "jobs", '{"delay_ms":5000}']


def test_json_lines_and_filters(run):
    for name in ("a", "b"):
        run("queue", "create", name)
    run("queue", "delete", "a", "--yes")
    delete, second, first = lines_of(run("actions", "--json"))
    assert (delete["what"], delete["queue"], delete["key"], delete["count"]) == ("queue.delete", "a", None, None)
    assert lines_of(run("actions", "--json", "--queue", "a")) == [delete, first]
    assert lines_of(run("actions", "--json", "--what", "queue.create")) == [second, first]
    assert lines_of(run("actions", "--json", "--limit", "1")) == [delete]
    assert lines_of(run("actions", "--json", "--since", "1h", "--until", "9999-01-01")) == [delete, second, first]
    assert run("actions", "--key", "ops").exit_code == 1


def test_a_kind_that_there_is_not(run):
    result = run("actions", "--what", "anything")
    assert result.exit_code == 3
    assert "queue.purge" in result.stderr


def test_keys_made_without_a_server_are_written_down(tmp_path):
    url = f"sqlite:///{tmp_path}/penstock.db"
    for words in (["create", "--name", "ops", "--allow", "queue|*|*"], ["revoke", "ops"], ["revoke", "ops"]):
        result = CliRunner().invoke(main, ["key", *words, "--store", url])
        assert result.exit_code == 0, result.output
    store = open_store(url)
    with store.unit(write=False) as unit:
        found = [(one.what.value, one.key, one.via, one.detail) for one in unit.actions.list(None, 10)]
    store.close()
    assert found == [
        ("key.revoke", None, "command line", '{"name":"ops"}'),
        ("key.create", None, "command line", '{"name":"ops","rules":["queue|*|*"]}'),
    ]
