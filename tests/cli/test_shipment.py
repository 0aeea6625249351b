"""`penstock shipment`."""

from __future__ import annotations

import json
import re

import pytest


@pytest.fixture
def jobs(run):
    run("queue", "create", "jobs")
    run("send", "jobs", "--lines", stdin="a\nb\nc\n")
    return run


def test_the_life_of_a_shipment(jobs, run_json):
    claimed = jobs("shipment", "claim", "jobs", "lake", "--limit", "2", "--hold", "10m")
    assert claimed.exit_code == 0
    assert claimed.stdout.startswith("claimed shipment 1 of lake: 2 messages until ")
    header, *lines = jobs("shipment", "read", "jobs", "lake", "1").stdout.splitlines()
    assert header.split() == ["ID", "RECEIVES", "AGE", "GROUP", "ATTRIBUTES", "BODY"]
    assert [line.split()[-1] for line in lines] == ["a", "b"]
    shown = dict(line.split(maxsplit=1) for line in jobs("shipment", "show", "jobs", "lake", "1").stdout.splitlines())
    assert (shown["state"], shown["messages"], shown["bytes"]) == ("open", "2", "2")
    assert "until" in shown
    held = jobs("shipment", "heartbeat", "jobs", "lake", "1", "--hold", "2h")
    assert held.stdout.startswith("held shipment 1 of lake: 2 messages until ")
    assert jobs("shipment", "settle", "jobs", "lake", "1", "--keep").stdout == (
        "settled shipment 1 of lake: 2 messages\n"
    )
    assert run_json("shipment", "claim", "jobs", "lake")["number"] == 2
    assert jobs("shipment", "release", "jobs", "lake", "2").stdout == "released shipment 2 of lake: 1 message\n"
    assert run_json("shipment", "show", "jobs", "lake", "2")["state"] == "released"


def test_by_bytes(jobs, run_json):
    assert run_json("shipment", "claim", "jobs", "lake", "--max-bytes", "2")["bytes"] == 2


def test_it_shows_where_it_is_stored(jobs, run_json):
    jobs("shipment", "claim", "jobs", "lake")
    assert "stored in" not in jobs("shipment", "show", "jobs", "lake", "1").stdout
    jobs("shipment", "settle", "jobs", "lake", "1", "--stored-in", "s3://lake/jobs")
    assert run_json("shipment", "show", "jobs", "lake", "1")["stored_in"] == "s3://lake/jobs"
    shown = jobs("shipment", "show", "jobs", "lake", "1").stdout
    assert re.search(r"^stored in +s3://lake/jobs$", shown, re.MULTILINE)


def test_peek_says_what_is_in_a_shipment(jobs):
    jobs("shipment", "claim", "jobs", "lake", "--limit", "2")
    header, *rows = jobs("peek", "jobs").stdout.splitlines()
    ready, receives = header.index("READY"), header.index("RECEIVES")
    shown = [(row.split()[-1], row[ready:receives].strip()) for row in rows]
    assert sorted(shown) == [("a", "in a shipment"), ("b", "in a shipment"), ("c", "now")]


def test_a_number_of_ones_own_is_the_same_again(jobs, run_json):
    first = run_json("shipment", "claim", "jobs", "lake", "--number", "1")
    assert run_json("shipment", "claim", "jobs", "lake")["claimed_at"] == first["claimed_at"]
    other = jobs("shipment", "claim", "jobs", "lake", "--number", "2")
    assert (other.exit_code, other.stdout) == (3, "")
    assert other.stderr == "penstock: number 2 of 'lake': number 1 was expected\n"


def test_messages_as_json_lines_by_position(jobs):
    jobs("shipment", "claim", "jobs", "lake")

    def bodies(*words: str) -> list[str]:
        printed = jobs("shipment", "read", "jobs", "lake", "1", "--json", *words).stdout
        return [json.loads(line)["body"] for line in printed.splitlines()]

    assert bodies() == ["a", "b", "c"]
    assert bodies("--start", "1") == ["b", "c"]
    assert bodies("--start", "1", "--limit", "1") == ["b"]
    behind = jobs("shipment", "read", "jobs", "lake", "1", "--start", "3")
    assert (behind.exit_code, behind.stdout) == (1, "")


def test_list(jobs, run_json):
    none = jobs("shipment", "list", "jobs")
    assert (none.exit_code, none.stderr) == (1, "penstock: queue jobs has no shipments\n")
    for consumer in ("lake", "copy"):
        jobs("shipment", "claim", "jobs", consumer, "--limit", "1")
    header, *lines = jobs("shipment", "list", "jobs").stdout.splitlines()
    assert header.split()[:5] == ["CONSUMER", "NUMBER", "STATE", "MESSAGES", "BYTES"]
    assert [line.split()[:4] for line in lines] == [["copy", "1", "open", "1"], ["lake", "1", "open", "1"]]
    [listed] = run_json("shipment", "list", "jobs", "--consumer", "lake")["shipments"]
    assert (listed["consumer"], listed["number"]) == ("lake", 1)


def test_nothing_ready_is_code_1(run):
    run("queue", "create", "jobs")
    result = run("shipment", "claim", "jobs", "lake")
    assert (result.exit_code, result.stderr) == (1, "penstock: no message is ready in queue jobs\n")


def test_refusals(jobs):
    jobs("shipment", "claim", "jobs", "lake")
    jobs("shipment", "settle", "jobs", "lake", "1")
    for verb in ("release", "read", "heartbeat"):
        ended = jobs("shipment", verb, "jobs", "lake", "1")
        assert (ended.exit_code, ended.stderr) == (3, "penstock: number 1 of 'lake' has ended: it was settled\n")
    for verb in ("show", "settle", "release", "read", "heartbeat"):
        assert jobs("shipment", verb, "jobs", "lake", "7").exit_code == 3
    assert jobs("shipment", "claim", "nowhere", "lake").exit_code == 3
    assert jobs("shipment", "claim", "jobs", "no name").exit_code == 3


@pytest.mark.parametrize("words", ["show jobs lake 0", "show jobs lake x", "claim jobs lake --hold 1ms", "read jobs"])
def test_wrong_usage(run, words):
    assert run("shipment", *words.split()).exit_code == 2
