"""`penstock move`, `redrive` and `moves`."""

from __future__ import annotations

import pytest


@pytest.fixture
def two(run):
    for name in ("jobs", "there"):
        run("queue", "create", name)
    for body in ('{"n": 1}', '{"n": "x"}', "plain"):
        run("send", "jobs", body)
    return run


def test_move(two, run_json):
    assert two("move", "jobs", "there", "--dry-run").stdout == "would move 3 messages of 3\n"
    assert two("move", "jobs", "there", "--where", "$.n=1").stdout == "moved 1 message\n"
    assert two("move", "jobs", "there", "--where", "$.n=x", "--older-than", "0").stdout == "moved 1 message\n"
    moved = run_json("move", "jobs", "there", "--text", "plain", "--limit", "1", "--per-second", "10")
    assert (moved["status"], moved["moved"], moved["limit"], moved["per_second"]) == ("complete", 1, 1, 10)
    assert run_json("queue", "show", "there")["count"]["total"] == 3


def test_redrive(run, run_json):
    run("queue", "create", "dead")
    run("queue", "create", "jobs", "--max-receives", "1", "--dead-letter-queue", "dead")
    run("send", "jobs", "a")
    run("claim", "jobs", "--hold", "0")
    assert run("claim", "jobs").exit_code == 1
    run("send", "dead", "sent there")
    result = run("redrive", "dead")
    assert (result.exit_code, result.stdout) == (0, "moved 1 message\n")
    assert result.stderr == "penstock: 1 message without a queue to go back to: left in dead\n"
    assert run_json("queue", "show", "jobs")["count"]["ready"] == 1


def test_who_arrives_as_new(two, run_json):
    before = {message["id"] for message in run_json("peek", "jobs")["messages"]}
    kept = run_json("move", "jobs", "there", "--limit", "1")
    anew = run_json("move", "jobs", "there", "--as-new")
    assert [(move["as_new"], move["total"]) for move in (kept, anew)] == [(False, 3), (True, 2)]
    assert len({message["id"] for message in run_json("peek", "there")["messages"]} & before) == 1
    assert run_json("redrive", "there", "--dry-run")["as_new"]
    old = run_json("redrive", "there", "--dry-run", "--keep-age")
    assert not old["as_new"]
    shown = two("moves", "show", old["id"]).stdout
    assert "as new      no\n" in shown
    assert "total       3\n" in shown


def test_the_moves_from_one_queue(two, run_json):
    two("move", "jobs", "there")
    assert [move["source"] for move in run_json("moves", "list", "--source", "jobs")["moves"]] == ["jobs"]
    result = two("moves", "list", "--source", "there")
    assert (result.exit_code, result.stderr) == (1, "penstock: there are no moves from queue there\n")


def test_detached_moves_are_listed_shown_and_cancelled(two, run_json):
    two("send", "jobs", "--lines", stdin="more\n" * 1_000)
    assert two("moves", "list").exit_code == 1
    move_id = two("move", "jobs", "there", "--per-second", "1", "--detach").stdout.strip()
    [header, line] = two("moves", "list").stdout.splitlines()
    assert header.split() == ["ID", "SOURCE", "TARGET", "STATUS", "EXAMINED", "MATCHED", "MOVED"]
    assert line.split()[:4] == [move_id, "jobs", "there", "in-progress"]
    assert "per second  1\n" in two("moves", "show", move_id).stdout
    assert two("moves", "cancel", move_id).stdout.startswith("cancelled: moved ")
    again = two("moves", "cancel", move_id)
    assert (again.exit_code, again.stdout) == (1, "")
    assert again.stderr.startswith("penstock: the move had ended before: cancelled: moved ")
    assert run_json("moves", "show", move_id)["status"] == "cancelled"
    [listed] = run_json("moves", "list")["moves"]
    assert listed["id"] == move_id


def test_one_that_has_ended_cannot_be_cancelled(two):
    two("move", "jobs", "there")
    move_id = two("moves", "list").stdout.splitlines()[1].split()[0]
    result = two("moves", "cancel", move_id)
    assert (result.exit_code, result.stderr) == (1, "penstock: the move had ended before: moved 3 messages\n")


@pytest.mark.parametrize(
    "words",
    [
        ("--where", "$.n"),
        ("--where", "$.n=[1]"),
        ("--where", "n=1"),
        ("--where", "$..n=1"),
        ("--limit", "0"),
        ("--per-second", "0"),
        ("--min-receives", "-1"),
        ("--older-than", "soon"),
    ],
)
def test_wrong_usage(two, words):
    result = two("move", "jobs", "there", *words)
    assert result.exit_code == 2
    assert "filter" not in result.stderr


def test_refusals(two):
    assert two("move", "jobs", "none").exit_code == 3
    assert two("moves", "show", "none").exit_code == 3


def test_what_matches_is_deleted(two, run_json):
    two("send", "jobs", "kind", "--attribute", "kind=test")
    two("claim", "jobs", "--limit", "1")
    dry = two("delete-matching", "jobs", "--state", "claimed", "--dry-run")
    assert dry.stdout == "would delete 1 message of 1\n"
    assert two("delete-matching", "jobs", "--attribute", "kind=test", "--yes").stdout == "deleted 1 message\n"
    assert two("delete-matching", "jobs", "--attribute", "kind", "--yes").stdout == "deleted 0 messages\n"
    assert two("delete-matching", "jobs").exit_code == 2
    assert run_json("delete-matching", "jobs", "--claimed", "--yes")["moved"] == 3
    targets = [move["action"] for move in run_json("moves", "list")["moves"]]
    assert set(targets) == {"delete"}
    assert "(delete)" in two("moves", "list").stdout


def test_claims_on_what_matches_end(two):
    two("claim", "jobs", "--limit", "2")
    assert two("release-matching", "jobs", "--where", "$.n=1").stdout == "released 1 message\n"
    assert two("release-matching", "jobs", "--state", "claimed").stdout == "released 1 message\n"


@pytest.mark.parametrize("words", [("--state", "lost"), ("--attribute", "=x"), ("--as-new",)])
def test_wrong_usage_of_what_matches(two, words):
    assert two("release-matching", "jobs", *words).exit_code == 2
