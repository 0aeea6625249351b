"""`penstock send`, `claim`, `ack`, `renew`, `release`, `peek`, `purge`."""

from __future__ import annotations

import base64
import json
from urllib.request import urlopen

import pytest


@pytest.fixture(autouse=True)
def jobs(run):
    assert run("queue", "create", "jobs").exit_code == 0


def test_a_message_through_its_whole_life(run):
    message_id = run("send", "jobs", "hello").stdout.strip()
    header, row = run("claim", "jobs").stdout.splitlines()
    assert header.split() == ["RECEIPT", "RECEIVES", "AGE", "BODY"]
    receipt, receives, _age, body = row.split()
    assert (receives, body) == ("1", "hello")
    assert receipt.startswith(message_id)
    assert run("ack", "jobs", receipt).stdout == "acked 1 message\n"
    result = run("ack", "jobs", receipt)
    assert (result.exit_code, result.stdout) == (1, "acked 0 messages\n")
    assert result.stderr.startswith(f"penstock: not acked: {receipt} ")


def test_a_claim_of_nothing(run, run_json):
    result = run("claim", "jobs")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "penstock: no message is ready in queue jobs\n"
    assert run_json("claim", "jobs", "--wait", "10ms", code=1) == {"messages": []}


def test_messages_are_written_as_the_native_api_writes_them(run, run_json, server):
    run("send", "jobs", "--attribute", "a=b", "hello")
    with urlopen(f"{server.url}/v1/queues/jobs/messages") as answer:
        assert run_json("peek", "jobs") == json.load(answer)
    [claimed] = run_json("claim", "jobs")["messages"]
    assert {"state", "shipped", "claim", "last_claimed_at", "behind"}.isdisjoint(claimed)


@pytest.mark.parametrize("words", [(), ("-",)])
def test_send_reads_standard_input(run, run_json, words):
    run("send", "jobs", *words, stdin=b"\xff\0binary\n")
    [message] = run_json("claim", "jobs")["messages"]
    assert base64.b64decode(message["body_base64"]) == b"\xff\0binary\n"
    assert "body" not in message


def test_send_reads_a_file(run, run_json, tmp_path):
    path = tmp_path / "body.json"
    path.write_text('{"ä": 1}')
    words = ("--content-type", "application/json", "--attribute", "a=b=c", "--attribute", "x=")
    sent = run_json("send", "jobs", "--file", str(path), *words)
    assert sent["stored"] is True
    [message] = run_json("claim", "jobs", "--hold", "2h")["messages"]
    assert (message["id"], message["body"], message["content_type"]) == (
        sent["id"],
        '{"ä": 1}',
        "application/json",
    )
    assert message["attributes"] == {"a": "b=c", "x": ""}
    assert message["ready_at"] >= message["sent_at"] + 7_200_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("body", "--file", "x"), "give a BODY or --file, not both"),
        (("--file", "/no/such/file"), "file /no/such/file cannot be read: No such file or directory"),
        (("body", "--attribute", "novalue"), "'novalue' is not of the form key=value"),
        (("body", "--delay", "5"), "'5' is not a duration"),
    ],
)
def test_send_refuses_what_makes_no_sense(run, words, message):
    result = run("send", "jobs", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("penstock: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_twin_is_told(run):
    run("queue", "create", "unique", "--dedup", "send")
    first = run("send", "unique", "same")
    second = run("send", "unique", "same")
    assert (second.exit_code, second.stdout) == (0, first.stdout)
    assert "equal message" in second.stderr


def test_a_body_over_the_limit_is_refused(run):
    result = run("send", "jobs", stdin=b"a" * (2**20 + 1))
    assert result.exit_code == 3
    assert "1048576 bytes" in result.stderr


def test_renew_and_release(run, run_json, server):
    run("send", "jobs", "a")
    [message] = run_json("claim", "jobs", "--hold", "1h")["messages"]
    assert run("renew", "jobs", message["receipt"], "--hold", "10h").stdout == "renewed 1 message\n"
    server.clock.advance(7_200)
    assert run("claim", "jobs").exit_code == 1
    assert run_json("release", "jobs", message["receipt"], "nonsense", code=1) == {"done": [True, False]}
    assert run("claim", "jobs").exit_code == 0


def test_release_with_a_delay(run, run_json, server):
    run("send", "jobs", "a")
    [message] = run_json("claim", "jobs")["messages"]
    assert run("release", "jobs", message["receipt"], "--delay", "1m").stdout == "released 1 message\n"
    assert run("claim", "jobs").exit_code == 1
    server.clock.advance(60)
    assert run("claim", "jobs").exit_code == 0


def test_peek_pages_without_claiming(run, run_json):
    for body in ("a", "b", "c"):
        run("send", "jobs", body)
    result = run("peek", "jobs", "--limit", "2")
    header, *rows = result.stdout.splitlines()
    assert header.split() == ["ID", "READY", "RECEIVES", "AGE", "BODY"]
    assert [row.split()[-1] for row in rows] == ["a", "b"]
    after = result.stderr.split()[-1]
    assert [message["body"] for message in run_json("peek", "jobs", "--after", after)["messages"]] == ["c"]
    assert len(run_json("claim", "jobs", "--limit", "9")["messages"]) == 3


def test_peek_shows_what_is_not_ready_and_attributes(run):
    run("send", "jobs", "a", "--delay", "1d", "--attribute", "k=v w")
    header, row = run("peek", "jobs").stdout.splitlines()
    assert header.split() == ["ID", "READY", "RECEIVES", "AGE", "ATTRIBUTES", "BODY"]
    assert "in 23h" in row
    assert "k=v w" in row


def test_peek_of_nothing(run):
    result = run("peek", "jobs")
    assert (result.exit_code, result.stdout, result.stderr) == (
        1,
        "",
        "penstock: queue jobs has no messages\n",
    )


def test_no_control_character_is_printed(run):
    run("send", "jobs", stdin="\x1b]0;title\x07\r\nred\x9b31m\u202e")
    run("send", "jobs", "x", "--attribute", "k\x1b[2J=\x1b")
    output = run("peek", "jobs").stdout
    assert output.replace("\n", "").isprintable()
    assert r"\x1b]0;title\x07\r\nred\x9b31m\u202e" in output
    assert "\x1b" not in run("claim", "jobs\x1b[2J").stderr
    assert run("peek", "jobs", "--json").stdout.isascii()


def test_purge_wants_a_yes(run, run_json):
    run("send", "jobs", "a")
    assert run("purge", "jobs").exit_code == 2
    assert run("purge", "jobs", "--yes").stdout == "purged 1 message\n"
    assert run_json("purge", "jobs", "--yes") == {"purged": 0}


def test_a_group_and_a_dedup_id(run, run_json):
    run("queue", "create", "line", "--groups", "fifo", "--dedup", "window")
    first = run("send", "line", "1", "--group", "a", "--dedup-id", "x").stdout
    twin = run("send", "line", "2", "--group", "a", "--dedup-id", "x")
    assert (twin.stdout, "an equal message was sent before" in twin.stderr) == (first, True)
    run("send", "line", "3", "--group", "a")
    header, row = run("claim", "line").stdout.splitlines()
    assert header.split() == ["RECEIPT", "RECEIVES", "AGE", "GROUP", "BODY"]
    assert row.split()[-2:] == ["a", "1"]
    header, _, row = run("peek", "line").stdout.splitlines()
    assert header.split() == ["ID", "READY", "RECEIVES", "AGE", "GROUP", "BODY"]
    assert "behind others" in row
    assert [one["behind"] for one in run_json("peek", "line")["messages"]] == [False, True]


def test_a_claim_is_repeated_by_its_attempt(run, run_json):
    for body in "ab":
        run("send", "jobs", body)
    [first] = run_json("claim", "jobs", "--attempt", "mine")["messages"]
    [again] = run_json("claim", "jobs", "--attempt", "mine")["messages"]
    assert (again["receipt"], "behind" in again) == (first["receipt"], False)
    assert run_json("claim", "jobs", "--attempt", "other")["messages"][0]["body"] == "b"
    for words in (("--follow",), ("--exec", "true")):
        result = run("claim", "jobs", "--attempt", "mine", *words)
        assert (result.exit_code, "--attempt" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("send", "jobs", "x", "--group", ""), "--group has 1 to 128"),
        (("send", "jobs", "x", "--group", "x" * 129), "--group has 1 to 128"),
        (("send", "jobs", "x", "--dedup-id", "a\nb"), "--dedup-id has 1 to 128 printable characters"),
        (("claim", "jobs", "--attempt", "x" * 129), "--attempt has 1 to 128"),
    ],
)
def test_words_that_cannot_be_are_refused_in_the_words_of_the_command(run, words, message):
    result = run(*words)
    assert (result.exit_code, result.stdout) == (3, "")
    assert message in result.stderr
