"""Many messages through a shell: lines in, lines out, and a queue as a file."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli import main
from penstock.client import Client, Draft
from tests.client.test_tls import certificate  # noqa: F401 - a fixture
from tests.servers import ThreadServer
from tests.waiting import wait_until

PENSTOCK = [sys.executable, "-m", "penstock"]


@pytest.fixture
def client(server):
    with Client(server.url) as client:
        client.create_queue("q")
        yield client


def bodies(client: Client, queue: str = "q") -> list[bytes]:
    found, after = [], None
    while True:
        peeked = client.peek(queue, 1000, after)
        found += [message.body for message in peeked.messages]
        after = peeked.after
        if after is None:
            return found


# send --lines and --ndjson


def test_each_line_is_a_message_of_the_same_bytes(run, client):
    result = run("send", "q", "--lines", "--attribute", "from=shell", stdin=b"one\n\n tw\xff\r\nlast")
    assert (result.exit_code, result.stdout) == (0, "sent 4 messages\n")
    assert bodies(client) == [b"one", b"", b" tw\xff\r", b"last"]
    assert client.peek("q").messages[0].attributes == {"from": "shell"}


def test_lines_are_sent_in_few_requests(run, client, monkeypatch):
    sizes = []
    send_many = Client.send_many
    monkeypatch.setattr(Client, "send_many", lambda *words: sizes.append(len(words[2])) or send_many(*words))
    lines = "".join(f"{number}\n" for number in range(2_500))
    assert run("send", "q", "--lines", stdin=lines).stdout == "sent 2,500 messages\n"
    assert sizes == [1000, 1000, 500]
    # Control characters take six bytes each in a request.
    large = b"\n".join([b"\x01" * 700_000] * 8)
    assert run("send", "q", "--lines", stdin=large).exit_code == 0
    assert sizes[3:] == [2, 2, 2, 2]
    assert len(bodies(client)) == 2_508


def test_files_in_turn(run, client, tmp_path):
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("3")
    words = ("--file", str(tmp_path / "a"), "--file", str(tmp_path / "b"))
    assert json.loads(run("send", "q", "--lines", *words, "--json").stdout) == {"sent": 3, "stored": 3}
    assert bodies(client) == [b"1", b"2", b"3"]
    assert run("send", "q", *words).exit_code == 2
    assert run("send", "q", "body", "--lines").exit_code == 2
    missing = run("send", "q", "--lines", "--file", str(tmp_path / "c"))
    assert (missing.exit_code, "cannot be read" in missing.stderr) == (2, True)


def test_json_lines(run, client):
    result = run("send", "q", "--ndjson", stdin='{"a": 1}\n\n  "x"  \n')
    assert (result.exit_code, result.stdout) == (0, "sent 2 messages\n")
    assert [(one.body, one.content_type) for one in client.peek("q").messages] == [
        (b'{"a": 1}', "application/json"),
        (b'"x"', "application/json"),
    ]


def test_lines_of_one_group_and_their_attributes_in_few_requests(run, client):
    client.create_queue("line", groups="fifo")
    large = ("--attribute", f"k={'x' * 100_000}")
    result = run("send", "line", "--lines", "--group", "a", *large, stdin="".join(f"{n}\n" for n in range(200)))
    assert (result.exit_code, result.stdout) == (0, "sent 200 messages\n")
    assert {message.group for message in client.peek("line", 10).messages} == {"a"}
    refused = run("send", "line", "--ndjson", "--dedup-id", "x", stdin="1\n2\n")
    assert (refused.exit_code, "--dedup-id is for one message" in refused.stderr) == (2, True)


def test_a_bad_line_stops_it_and_is_named(run, client):
    result = run("send", "q", "--ndjson", stdin="1\n2\n{3\n4\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("penstock: line 3 of standard input: not JSON: ")
    assert result.stderr.endswith("; 2 messages before it were sent\n")
    assert bodies(client) == [b"1", b"2"]


@pytest.mark.parametrize("length", [1024 * 1024 + 1, 5_000_000])
def test_a_line_that_no_server_takes_is_named(run, client, length):
    result = run("send", "q", "--lines", stdin=b"a\n" + b"b" * length + b"\nc\n")
    assert result.exit_code == 3
    assert "was not stored" in result.stderr
    assert result.stderr.startswith("penstock: the message of line ")


def test_an_unknown_queue_and_twins(run, client):
    assert run("send", "nowhere", "--lines", stdin="a\n").exit_code == 3
    client.create_queue("unique", dedup="send")
    assert run("send", "unique", "--lines", stdin="a\nb\na\n").stdout == "sent 3 messages, 1 of them twins\n"


def test_what_comes_slowly_is_sent_while_it_comes(server, client):
    words = [*PENSTOCK, "send", "q", "--lines", "--url", server.url]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sending:
        sending.stdin.write(b"first\nsec")
        sending.stdin.flush()
        [message] = client.claim("q", wait_ms=60_000, hold_ms=3_600_000)
        assert message.body == b"first"
        sending.stdin.write(b"ond")
        sending.stdin.close()
        assert sending.stdout.read() == b"sent 2 messages\n"
    assert client.claim("q")[0].body == b"second"


# export and import


def test_a_queue_goes_through_a_file_and_back(run, client, tmp_path):
    drafts = [
        Draft("text äöü \u2028"),
        Draft(bytes(range(256)), "application/octet-stream", {"a": "1", "ä": "\n"}),
        Draft(b"", None),
        Draft(b"\x00nul"),
        Draft("later", delay_ms=3_600_000),
        Draft("of a group", group="Zürich"),
        *(Draft(str(number)) for number in range(1_100)),
    ]
    client.send_many("q", drafts)
    client.claim("q", hold_ms=3_600_000)
    path = tmp_path / "q.ndjson"
    exported = run("export", "q", "--file", str(path))
    assert (exported.exit_code, exported.stdout) == (0, "")
    assert exported.stderr == "penstock: exported 1,106 messages\n"
    assert len(path.read_bytes().splitlines()) == 1_106
    client.create_queue("copy")
    assert run("import", "copy", str(path)).stdout == "sent 1,106 messages\n"

    def content(queue: str) -> list[tuple[object, ...]]:
        peeked = json.loads(run("peek", queue, "--limit", "2000", "--json").stdout)["messages"]
        kept = ("body", "body_base64", "content_type", "attributes", "group")
        return sorted(json.dumps([one.get(name) for name in kept]) for one in peeked)

    assert content("copy") == content("q")
    assert client.queue("q").count.claimed == 1


def test_export_writes_to_a_pipe_and_import_reads_one(run, client):
    client.send("q", b"\xff")
    exported = run("export", "q")
    [line] = exported.stdout.splitlines()
    assert json.loads(line)["body_base64"] == "/w=="
    client.create_queue("copy")
    assert run("import", "copy", stdin=exported.stdout).stdout == "sent 1 message\n"
    assert bodies(client, "copy") == [b"\xff"]


def test_groups_and_dedup_ids_are_imported_in_order(run, client):
    client.create_queue("line", groups="fifo", dedup="window")
    lines = [{"body": str(number), "group": "a", "dedup_id": str(number % 3)} for number in range(4)]
    result = run("import", "line", stdin="\n".join(map(json.dumps, lines)))
    assert result.stdout == "sent 4 messages, 1 of them twins\n"
    [first] = client.claim("line")
    assert (first.text, client.claim("line")) == ("0", [])
    exported = run("export", "line").stdout
    assert [(one["body"], one["group"], one["behind"]) for one in map(json.loads, exported.splitlines())] == [
        ("0", "a", False), ("1", "a", True), ("2", "a", True),
    ]  # fmt: skip
    client.create_queue("copy", groups="fifo")
    assert run("import", "copy", stdin=exported).stdout == "sent 3 messages\n"
    assert [message.text for message in client.claim("copy", 9)] == ["0", "1", "2"]


def test_an_empty_queue(run, client):
    assert (run("export", "q").exit_code, run("export", "q").stdout) == (0, "")
    assert run("import", "q", stdin="\n").stdout == "sent 0 messages\n"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "a message has either body or body_base64"),
        ('{"body": "a", "body_base64": "YQ=="}', "a message has either body or body_base64"),
        ('{"body": 1}', "the body is a string"),
        ('{"body_base64": "!"}', "the body cannot be read"),
        ('{"body": "\\ud800"}', "the body cannot be read"),
        ('{"body": "a", "colour": 1}', "unknown key 'colour'"),
        ('{"body": "a", "content_type": 1}', "content_type is a string"),
        ('{"body": "a", "group": 1}', "group is a string"),
        ('{"body": "a", "dedup_id": ["a"]}', "dedup_id is a string"),
        ('{"body": "a", "attributes": {"a": 1}}', "attributes are an object of strings"),
        ('{"body": "a", "delay_ms": -1}', "delay_ms is a number"),
    ],
)
def test_import_names_a_bad_line(run, client, tmp_path, line, why):
    path = tmp_path / "in.ndjson"
    path.write_text(f'{{"body": "good"}}\n\n{line}\n')
    result = run("import", "q", str(path))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"penstock: line 3 of {path}: {why}")
    assert result.stderr.endswith("; 1 message before it was sent\n")
    assert bodies(client) == [b"good"]


# claim --ack and --follow


def test_claim_and_ack_in_one(run, client):
    client.send_many("q", ["a", "b"])
    result = run("claim", "q", "--limit", "5", "--ack", "--json")
    assert [one["body"] for one in json.loads(result.stdout)["messages"]] == ["a", "b"]
    assert client.queue("q").count.total == 0


@pytest.mark.parametrize("acked", [True, False], ids=["acked", "held"])
def test_follow_prints_what_comes(server, client, acked):
    client.send("q", "first")
    words = [*PENSTOCK, "claim", "q", "--follow", "--json", "--url", server.url, *(["--ack"] if acked else [])]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as following:
        assert json.loads(following.stdout.readline())["body"] == "first"
        client.send("q", "second")
        second = json.loads(following.stdout.readline())
        assert second["body"] == "second"
        if acked:
            # Whatever comes third was claimed after the ack of the second.
            client.send("q", "third")
            following.stdout.readline()
        wait_until(server.waiting_claims)
        following.send_signal(signal.SIGINT)
        assert following.wait() == 130
        assert following.stderr.read() == b"\n"
    if acked:
        assert client.ack("q", second["id"]) == [False]
    else:
        assert client.ack("q", second["receipt"]) == [True]


def test_following_prints_its_header_once(server, client):
    client.send("q", "first")
    words = [*PENSTOCK, "claim", "q", "--follow", "--url", server.url]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as following:
        header = following.stdout.readline().split()
        assert header == [b"RECEIPT", b"RECEIVES", b"AGE", b"GROUP", b"ATTRIBUTES", b"BODY"]
        assert following.stdout.readline().split()[-1] == b"first"
        client.send("q", "second", attributes={"lang": "en"})
        assert following.stdout.readline().split()[-2:] == [b"lang=en", b"second"]
        wait_until(server.waiting_claims)
        following.send_signal(signal.SIGINT)
        assert following.wait() == 130


def test_follow_of_an_unknown_queue_or_address(run, server):
    assert run("claim", "nowhere", "--follow").exit_code == 3
    assert run("claim", "q", "--follow", "--url", "http://127.0.0.1:1").exit_code == 4


# queue create --if-missing


def test_create_if_missing(run, run_json, client):
    first = run("queue", "create", "new", "--visibility", "1m", "--if-missing")
    assert (first.exit_code, first.stdout) == (0, "created queue new\n")
    again = run("queue", "create", "new", "--visibility", "1m", "--if-missing")
    assert (again.exit_code, again.output) == (0, "queue new exists\n")
    other = run("queue", "create", "new", "--visibility", "2m", "--dedup", "send", "--if-missing")
    assert (other.exit_code, "another --visibility, --dedup;" in other.stderr) == (0, True)
    assert run_json("queue", "create", "new", "--if-missing")["settings"]["visibility_ms"] == 60_000
    assert run("queue", "create", "new").exit_code == 3


# --cacert


def test_an_authority_of_ones_own(certificate: tuple[Path, Path], tmp_path: Path) -> None:  # noqa: F811
    cert, key = certificate
    server = ThreadServer(f"sqlite:///{tmp_path}/x.db", tls_cert=str(cert), tls_key=str(key))
    try:
        run = CliRunner(env={"PENSTOCK_URL": server.url})
        assert run.invoke(main, ["queue", "list"]).exit_code == 4
        assert run.invoke(main, ["queue", "list", "--cacert", str(cert)]).exit_code == 0
        assert run.invoke(main, ["queue", "list"], env={"PENSTOCK_CACERT": str(cert)}).exit_code == 0
        assert run.invoke(main, ["key", "list", "--cacert", str(cert)]).exit_code == 0
        for bad in (str(key), str(tmp_path / "none.pem")):
            refused = run.invoke(main, ["queue", "list", "--cacert", bad])
            assert (refused.exit_code, "--cacert" in refused.stderr) == (2, True), refused.output
    finally:
        server.stop()


# purge --older-than


def test_purge_of_what_is_older(run, client, server):
    client.send_many("q", ["old"] * 3)
    server.clock.advance(3600)
    client.send("q", "young")
    assert run("purge", "q", "--older-than", "2h", "--yes").stdout == "purged 0 messages\n"
    assert run("purge", "q", "--older-than", "30m", "--yes").stdout == "purged 3 messages\n"
    assert bodies(client) == [b"young"]
    assert run("purge", "nowhere", "--older-than", "1s", "--yes").exit_code == 3
    assert client.purge("q", older_than_ms=0) == 1
