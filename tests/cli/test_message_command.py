"""`penstock claim --exec`: a command for each message."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from penstock.client import Client, Draft

PENSTOCK = [sys.executable, "-m", "penstock"]


@pytest.fixture
def client(server):
    with Client(server.url) as client:
        client.create_queue("q")
        yield client


def execute(server, command: str, *words: str) -> subprocess.CompletedProcess[str]:
    every = [*PENSTOCK, "claim", "q", "--exec", command, "--url", server.url, *words]
    return subprocess.run(every, capture_output=True, text=True, timeout=100)


def test_the_body_is_its_input_and_the_rest_its_environment(server, client, tmp_path):
    body = bytes(range(256))
    client.send_many("q", [Draft(body, "text/x", {"lang": "en", "a b": "c", "zero": "\0"}, group="g")])
    done = execute(server, f"cat > {tmp_path}/body; env > {tmp_path}/env")
    assert (done.returncode, done.stdout, done.stderr) == (0, "acked 1 message\n", "")
    assert (tmp_path / "body").read_bytes() == body
    environ = dict(line.partition("=")[::2] for line in (tmp_path / "env").read_text().splitlines())
    assert environ["MESSAGE_QUEUE"] == "q"
    assert environ["MESSAGE_RECEIVES"] == "1"
    assert environ["MESSAGE_CONTENT_TYPE"] == "text/x"
    assert environ["MESSAGE_GROUP"] == "g"
    assert environ["MESSAGE_ATTRIBUTE_lang"] == "en"
    assert json.loads(environ["MESSAGE_ATTRIBUTES"]) == {"lang": "en", "a b": "c", "zero": "\0"}
    assert "MESSAGE_ATTRIBUTE_zero" not in environ
    assert client.queue("q").count.total == 0


def test_what_fails_is_released_and_the_rest_acked(server, client):
    client.send_many("q", ["good", "bad", "fine"])
    done = execute(server, 'test "$(cat)" != bad')
    assert (done.returncode, done.stdout) == (1, "acked 2 messages, 1 released\n")
    assert done.stderr.endswith("the command ended with exit code 1\n")
    [left] = client.peek("q").messages
    assert (left.body, left.receives, left.ready_at > left.sent_at) == (b"bad", 1, True)


def test_a_command_that_reads_nothing(server, client):
    client.send("q", "x" * 1_000_000)
    assert execute(server, "true").returncode == 0
    assert client.queue("q").count.total == 0


def test_several_at_once_in_json(server, client, tmp_path):
    client.send_many("q", [str(number) for number in range(20)])
    (tmp_path / "out").mkdir()
    done = execute(server, f"cat >> {tmp_path}/out/$(cat /proc/sys/kernel/random/uuid)", "--jobs", "4", "--json")
    assert json.loads(done.stdout)["acked"] == 20
    assert sorted(int(path.read_text()) for path in (tmp_path / "out").iterdir()) == list(range(20))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_waits_for_the_command(server, client, tmp_path, number):
    """The command has begun when it says so, and ends when it is told to."""
    client.send_many("q", ["first", "second"])
    command = f"echo begun; while ! test -e {tmp_path}/end; do sleep 0.05; done"
    words = [*PENSTOCK, "claim", "q", "--follow", "--exec", command, "--url", server.url]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as working:
        assert working.stdout.readline() == "begun\n"
        working.send_signal(number)
        (tmp_path / "end").touch()
        assert working.stdout.read() == "acked 1 message\n"
        assert working.wait() == 0
    [left] = client.peek("q").messages
    assert (left.body, left.ready_at) == (b"second", 0)


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("--exec", "true", "--ack"), 2, "--ack is not for --exec"),
        (("--exec", "true", "--limit", "5"), 2, "--limit is not for --exec"),
        (("--exec", "true", "--hold", "1ms"), 2, "--hold is at least 100ms"),
        (("--jobs", "2"), 2, "--jobs is for --exec"),
    ],
)
def test_what_makes_no_sense(run, client, words, code, why):
    result = run("claim", "q", *words)
    assert (result.exit_code, why in result.stderr) == (code, True), result.output


def test_an_unknown_queue_or_address(run, client):
    assert run("claim", "nowhere", "--exec", "true").exit_code == 3
    assert run("claim", "q", "--exec", "true", "--url", "http://127.0.0.1:1").exit_code == 4
