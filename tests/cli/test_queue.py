"""`penstock queue`."""

from __future__ import annotations

import pytest


def test_list_says_so_when_there_are_none(run):
    result = run("queue", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "penstock: there are no queues yet; 'penstock queue create NAME' makes one\n"


def test_create_and_list(run):
    assert run("queue", "create", "dead").stdout == "created queue dead\n"
    words = (
        "--visibility",
        "1m30s",
        "--retention",
        "4d",
        "--delay",
        "500ms",
        "--dedup",
        "send",
        "--ledger",
        "off",
    )
    assert run("queue", "create", "jobs", *words, "--max-receives", "3", "--dead-letter-queue", "dead").exit_code == 0
    lines = sorted(run("queue", "list", "--settings").stdout.splitlines())
    assert [line.split(maxsplit=6) for line in lines] == [
        ["NAME", "VISIBILITY", "RETENTION", "DELAY", "DEDUP", "LEDGER", "REDRIVE"],
        ["dead", "30s", "forever", "0s", "off", "outcomes", "off"],
        ["jobs", "1m30s", "4d", "500ms", "send", "off", "to dead after 3 receives"],
    ]


def test_create_twice_is_refused(run):
    run("queue", "create", "jobs")
    result = run("queue", "create", "jobs")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == "penstock: queue 'jobs' already exists\n"


def test_redrive_takes_both_its_options(run):
    result = run("queue", "create", "jobs", "--max-receives", "3")
    assert result.exit_code == 2
    assert "--max-receives and --dead-letter-queue go together" in result.stderr


def test_update_changes_only_what_is_named(run, run_json):
    run("queue", "create", "dead")
    run("queue", "create", "jobs", "--delay", "5s")
    updated = run_json("queue", "update", "jobs", "--max-receives", "3", "--dead-letter-queue", "dead")
    assert updated["settings"]["redrive"] == {"max_receives": 3, "dead_letter_queue": "dead"}
    assert run_json("queue", "update", "jobs", "--no-redrive")["settings"]["redrive"] is None
    assert run_json("queue", "show", "jobs")["settings"]["delay_ms"] == 5000
    assert run("queue", "update", "jobs").exit_code == 2


def test_show_counts(run, run_json):
    run("queue", "create", "jobs")
    assert "oldest      none" in run("queue", "show", "jobs").stdout
    run("send", "jobs", "a")
    run("send", "jobs", "b", "--delay", "1h")
    rows = dict(line.split(maxsplit=1) for line in run("queue", "show", "jobs").stdout.splitlines())
    assert (rows["name"], rows["messages"], rows["ready"], rows["delayed"]) == ("jobs", "2", "1", "1")
    assert run_json("queue", "show", "jobs")["count"]["total"] == 2


def test_a_missing_queue_is_one_line(run):
    for words in (
        ("queue", "show"),
        ("queue", "pause"),
        ("queue", "resume"),
        ("queue", "delete", "--yes"),
        ("peek",),
        ("claim",),
        ("purge", "--yes"),
    ):
        result = run(*words, "nope")
        assert (result.exit_code, result.stdout) == (3, "")
        assert result.stderr == "penstock: queue 'nope' does not exist\n"


def test_delete_wants_a_yes(run, run_json):
    run("queue", "create", "jobs")
    result = run("queue", "delete", "jobs")
    assert result.exit_code == 2
    assert "add --yes" in result.stderr
    assert run("queue", "delete", "jobs", "--yes").stdout == "deleted queue jobs\n"
    assert run_json("queue", "list") == {"total": 0, "queues": []}


@pytest.mark.parametrize("words", [("create", "new"), ("update", "jobs")])
def test_a_backoff_that_shrinks_is_wrong_usage(run, words):
    run("queue", "create", "jobs")
    result = run("queue", *words, "--backoff", "5s", "--backoff-most", "1s")
    assert result.exit_code == 2
    assert "--backoff-most cannot be shorter than --backoff, which is 5s" in result.stderr


def test_backoff(run, run_json):
    created = run_json("queue", "create", "jobs", "--backoff", "5s")
    assert created["settings"]["backoff"] == {"first_ms": 5_000, "most_ms": 3_600_000}
    updated = run_json("queue", "update", "jobs", "--backoff", "1s", "--backoff-most", "1m")
    assert updated["settings"]["backoff"] == {"first_ms": 1_000, "most_ms": 60_000}
    assert "backoff     1s up to 1m\n" in run("queue", "show", "jobs").stdout
    for bad in (("--backoff-most", "1m"), ("--backoff", "1s", "--no-backoff")):
        assert run("queue", "update", "jobs", *bad).exit_code == 2
    assert run_json("queue", "update", "jobs", "--no-backoff")["settings"]["backoff"] is None
    assert "backoff     off\n" in run("queue", "show", "jobs").stdout


def test_groups_and_a_window(run, run_json):
    words = ("--groups", "fifo", "--dedup", "window", "--dedup-window", "1h", "--dedup-scope", "group")
    settings = run_json("queue", "create", "line", *words)["settings"]
    assert (settings["groups"], settings["dedup"]) == ("fifo", "window")
    assert (settings["dedup_window_ms"], settings["dedup_scope"]) == (3_600_000, "group")
    shown = run("queue", "show", "line").stdout
    assert "groups      fifo\n" in shown
    assert "dedup       window of 1h, in each group\n" in shown
    assert "labels      none\n" in shown
    assert "modified" not in shown
    assert run_json("queue", "update", "line", "--dedup-scope", "queue")["settings"]["dedup_scope"] == "queue"
    assert "dedup       window of 1h\n" in run("queue", "show", "line").stdout
    assert run("queue", "update", "line", "--groups", "off").exit_code == 2
    for window in ("999ms", "25h", "forever"):
        assert run("queue", "update", "line", "--dedup-window", window).exit_code == 2


def test_labels(run, run_json, server):
    created = run_json("queue", "create", "jobs", "--label", "team=payments", "--label", "stage=a=b", "--label", "x=")
    assert created["settings"]["labels"] == {"team": "payments", "stage": "a=b", "x": ""}
    server.clock.advance(60)
    updated = run_json("queue", "update", "jobs", "--label", "team=Zürich", "--remove-label", "x")
    assert updated["settings"]["labels"] == {"team": "Zürich", "stage": "a=b"}
    shown = run("queue", "show", "jobs").stdout
    assert "labels      stage=a=b, team=Zürich\n" in shown or "labels      team=Zürich, stage=a=b\n" in shown
    assert "modified    " in shown
    for words in (("--label", "team"), ("--label", "=x"), ("--label", "x=1", "--remove-label", "x")):
        assert run("queue", "update", "jobs", *words).exit_code == 2
    refused = run("queue", "update", "jobs", "--label", "aws:x=1")
    assert refused.exit_code == 3
    assert refused.stderr == "penstock: labels that begin with aws: are reserved: 'aws:x'\n"


def test_a_queue_that_is_there_with_other_labels_or_groups(run):
    run("queue", "create", "jobs", "--label", "team=payments", "--label", "stage=test")
    same = run("queue", "create", "jobs", "--if-missing", "--label", "team=payments", "--groups", "off")
    assert (same.exit_code, same.stderr) == (0, "")
    other = run("queue", "create", "jobs", "--if-missing", "--label", "team=x", "--groups", "fifo", "--delay", "1s")
    assert other.stderr == (
        "penstock: it was created with other --groups, which cannot be changed\n"
        "penstock: it was created with another --delay, --label; 'penstock queue update' changes it\n"
    )


def test_pause_and_resume(run, run_json):
    run("queue", "create", "jobs")
    run("queue", "create", "mail")
    run("send", "jobs", "a")
    assert "PAUSED" not in run("queue", "list").stdout
    assert run("queue", "pause", "jobs").stdout == "paused queue jobs\n"
    result = run("claim", "jobs")
    assert (result.exit_code, result.stderr) == (1, "penstock: queue jobs is paused\n")
    rows = dict(line.split(maxsplit=1) for line in run("queue", "show", "jobs").stdout.splitlines())
    assert rows["paused"].startswith("since 20")
    for options in ((), ("--settings",)):
        header, jobs, mail = run("queue", "list", *options).stdout.splitlines()
        assert header.endswith("PAUSED")
        assert jobs[header.index("PAUSED") :].startswith("for ")
        assert "for" not in mail.split()
    paused_at = run_json("queue", "pause", "jobs")["paused_at"]
    assert [one.get("paused_at") for one in run_json("queue", "list")["queues"]] == [paused_at, None]
    assert run("queue", "resume", "jobs").stdout == "resumed queue jobs\n"
    assert "PAUSED" not in run("queue", "list").stdout
    assert not any(line.startswith("paused") for line in run("queue", "show", "jobs").stdout.splitlines())
    assert "paused_at" not in run_json("queue", "resume", "jobs")
    assert run("claim", "jobs").exit_code == 0
