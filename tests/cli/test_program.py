"""The program as a process: help, exit codes, pipes, terminals, completion."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from inspect import signature

import pytest
from click.testing import CliRunner

from penstock import __version__
from penstock.cli import main
from penstock.cli.options import DEFAULT_URL
from penstock.client import Client
from penstock.compiled import is_compiled
from tests.servers import SERVE

PENSTOCK = [sys.executable, "-m", "penstock"]


def start(url: str, *words: str, **options) -> subprocess.Popen:
    return subprocess.Popen([*PENSTOCK, *words], env=os.environ | {"PENSTOCK_URL": url}, **options)


def test_help_lists_every_command_and_exit_code():
    text = CliRunner().invoke(main, ["--help"]).stdout
    for name in main.commands:
        assert f"\n  {name} " in text
    assert re.findall(r"^    (\d)  ", text, re.MULTILINE) == list("01234")


def test_every_command_explains_itself():
    def visit(command, words):
        assert command.help, words
        result = CliRunner().invoke(main, [*words, "--help"])
        assert result.exit_code == 0
        for name, child in getattr(command, "commands", {}).items():
            visit(child, [*words, name])

    visit(main, [])


def test_version():
    how = "compiled" if is_compiled() else "plain Python"
    assert CliRunner().invoke(main, ["--version"]).stdout == f"penstock {__version__} ({how})\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["sned"], "penstock: No such command 'sned'. Did you mean 'send'? (see 'penstock --help')\n"),
        (["claim"], "penstock: Missing argument 'QUEUE'. (see 'penstock claim --help')\n"),
        (["queue", "list", "--url", "nonsense"], None),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(words, line):
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("penstock: ")
    assert result.stderr.count("\n") == 1
    assert line is None or result.stderr == line


def test_no_words_print_the_help():
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


def test_no_server_is_one_line_and_code_4():
    result = CliRunner().invoke(main, ["queue", "list", "--url", "http://127.0.0.1:1"])
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr == "penstock: cannot reach http://127.0.0.1:1: Connection refused\n"


@pytest.fixture
def full(server):
    """A server whose queue `jobs` prints more than a pipe holds."""
    with Client(server.url) as client:
        client.create_queue("jobs")
        client.send_many("jobs", ["a" * 1000] * 500)
    return server


def test_a_reader_that_leaves_early_leaves_no_trace(full):
    peek = start(full.url, "peek", "jobs", "--limit", "500", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert peek.stdout.readline().startswith(b"ID ")
    peek.stdout.close()
    assert peek.stderr.read() == b""
    peek.stderr.close()
    assert peek.wait() == 1


def test_a_closed_output_does_no_harm(full):
    command = ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *PENSTOCK, "peek", "jobs", "--url", full.url]
    done = subprocess.run(command, capture_output=True)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)


def on_terminal(url: str, *words: str, typed: bytes = b"") -> tuple[int, str]:
    """Run a command with a terminal of 80 columns; its exit code, and what the terminal shows."""
    ours, theirs = pty.openpty()
    process = start(url, *words, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, typed)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # how a terminal says that its other end is closed
        pass
    os.close(ours)
    return process.wait(), shown.decode()


def test_bodies_are_cut_on_a_terminal(full, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, shown = on_terminal(full.url, "peek", "jobs", "--limit", "2")
    rows = shown.replace("\r\n", "\n").splitlines()[1:3]
    assert code == 0
    assert [(len(row) <= 90, row.endswith("aaa…")) for row in rows] == [(True, True)] * 2


@pytest.mark.parametrize(("typed", "code", "left"), [(b"n\n", 1, 500), (b"y\n", 0, 0)])
def test_purge_asks_on_a_terminal(full, typed, code, left):
    ended, shown = on_terminal(full.url, "purge", "jobs", typed=typed)
    assert "Remove every message of queue jobs? [y/N]" in shown
    assert ended == code
    with Client(full.url) as client:
        assert client.queue("jobs").count.total == left


def test_serve_starts_stops_and_refuses_a_taken_port(serve, tmp_path):
    server = serve()
    with Client(server.url) as client:
        client.create_queue("jobs")
    port = server.url.rpartition(":")[2]
    words = ["--port", port, "--store", f"sqlite:///{tmp_path}/other.db"]
    second = subprocess.run([*SERVE, *words], capture_output=True, text=True)
    assert (second.returncode, second.stderr.count("\n")) == (2, 1)
    assert second.stderr.startswith(f"penstock: cannot listen on 127.0.0.1:{port}")
    assert server.terminate() == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_PENSTOCK_COMPLETE" in result.stdout
    assert result.stderr == ""


def complete(monkeypatch, *words: str) -> list[str]:
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv("_PENSTOCK_COMPLETE", "bash_complete")
    result = CliRunner().invoke(main, prog_name="penstock")
    return [line.partition(",")[2] for line in result.stdout.splitlines() if line]


def test_queue_names_complete_from_the_server(full, monkeypatch):
    monkeypatch.setenv("PENSTOCK_URL", full.url)
    assert complete(monkeypatch, "penstock", "claim", "jo") == ["jobs"]
    assert complete(monkeypatch, "penstock", "claim", "x") == []
    assert complete(monkeypatch, "penstock", "cl") == ["claim"]
    assert complete(monkeypatch, "penstock", "serve", "--log-level", "w") == ["warning"]


def test_completion_without_a_server_is_empty(monkeypatch):
    monkeypatch.setenv("PENSTOCK_URL", "http://127.0.0.1:1")
    assert complete(monkeypatch, "penstock", "claim", "jo") == []


def test_the_usual_address_is_the_clients():
    assert signature(Client).parameters["url"].default == DEFAULT_URL


def test_the_program_starts_without_the_server_parts():
    program = "import sys, penstock.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    for heavy in ("uvloop", "apsw", "msgspec", "httptools", "http.client", "asyncio", "penstock.stores"):
        assert heavy not in loaded
