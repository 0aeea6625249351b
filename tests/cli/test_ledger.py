"""`penstock ledger`."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def finished(run):
    """Two messages of `jobs` and one of `mail`, all done with."""
    run("queue", "create", "jobs", "--ledger", "bodies")
    run("queue", "create", "mail")
    for body in (b"a", b"\xff"):
        run("send", "jobs", "-", stdin=body)
    run("claim", "jobs", "--limit", "2", "--ack")
    run("send", "mail", "hello")
    run("purge", "mail", "--yes")
    return run


def rows_of(result):
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_table(finished):
    header, *lines = finished("ledger").stdout.splitlines()
    assert header.split() == ["NUMBER", "FINISHED", "QUEUE", "ID", "OUTCOME", "RECEIVES", "SIZE"]
    assert [line.split()[4] for line in lines] == ["jobs", "jobs", "mail"]
    assert [line.split()[-3:] for line in lines] == [*[["processed", "1", "1"]] * 2, ["purged", "0", "5"]]


def test_json_lines_in_the_words_of_the_api(finished):
    first, second, third = rows_of(finished("ledger", "--json"))
    assert (first["queue"], first["outcome"], first["body"]) == ("jobs", "processed", "a")
    assert second["body_base64"] == "/w=="
    assert "body" not in second
    assert third.keys().isdisjoint({"body", "body_base64"})
    assert rows_of(finished("ledger", "--json", "--limit", "2")) == [first, second]
    assert rows_of(finished("ledger", "--json", "--after", str(second["number"]))) == [third]


def test_filters(finished):
    first, second, third = rows_of(finished("ledger", "--json"))
    assert rows_of(finished("ledger", "--json", "--queue", "mail")) == [third]
    assert rows_of(finished("ledger", "--json", "--id", second["id"], "--queue", "jobs")) == [second]
    assert rows_of(finished("ledger", "--json", "--since", "1d")) == [first, second, third]
    assert rows_of(finished("ledger", "--json", "--before", "9999-01-01T00:00Z")) == [first, second, third]
    for words in (("--before", "1d"), ("--since", "9999-01-01"), ("--queue", "none"), ("--id", "none")):
        nothing = finished("ledger", *words)
        assert (nothing.exit_code, nothing.stdout) == (1, "")
        assert nothing.stderr == "penstock: the ledger has no such rows\n"


def test_an_empty_ledger(run):
    nothing = run("ledger")
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (1, "", "penstock: the ledger is empty\n")


@pytest.mark.parametrize("words", [("--since", "soon"), ("--limit", "0"), ("--after", "-1")])
def test_wrong_usage(run, words):
    assert run("ledger", *words).exit_code == 2
