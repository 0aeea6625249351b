"""Exit codes and error lines: one code for one kind of failure, in words of the command line."""

from __future__ import annotations

import errno
import os
import subprocess

import pytest
from click.testing import CliRunner

from penstock.cli import main
from penstock.cli.mqcore import mq, mq_mover, mq_reaper
from penstock.cli.options import Duration
from penstock.cli.queue import _SETTINGS
from penstock.durations import duration
from tests.servers import SERVE

RECEIPT = "01a1e4e6-d352-7fe6-9a0b-000000000001.1"


@pytest.mark.parametrize(
    "words",
    [
        "send nowhere hello",
        "claim nowhere",
        f"ack nowhere {RECEIPT}",
        f"renew nowhere {RECEIPT}",
        f"release nowhere {RECEIPT}",
        "peek nowhere",
        "purge nowhere --yes",
        "queue show nowhere",
        "queue update nowhere --delay 1s",
        "queue delete nowhere --yes",
    ],
)
def test_an_unknown_queue_is_code_3_in_every_command(run, words):
    result = run(*words.split())
    assert (result.exit_code, result.stdout, result.stderr) == (3, "", "penstock: queue 'nowhere' does not exist\n")


def test_a_receipt_that_has_ended_is_code_1(run):
    run("queue", "create", "q")
    assert run("ack", "q", RECEIPT).exit_code == 1


@pytest.mark.parametrize("words", [("receive",), ("delete", "1"), ("size",)], ids=lambda words: words[0])
def test_no_folder_is_an_unknown_queue(words, tmp_path):
    missing = str(tmp_path / "missing")
    result = CliRunner().invoke(main, ["vsqs", words[0], missing, *words[1:]])
    assert (result.exit_code, result.stderr) == (3, f"penstock: there is no queue at {missing}\n")
    (tmp_path / "there").mkdir()
    assert CliRunner().invoke(main, ["vsqs", "receive", str(tmp_path / "there")]).exit_code == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("queue create z --retention 0", "'--retention': 0 is not between 1ms and forever"),
        ("send q x --delay 99999d", "'--delay': 99999d is not between 0s and forever (24,855 days)"),
        ("claim q --wait 10m", "'--wait': 10m is not between 0s and 1m"),
        ("claim q --limit 10001", "'--limit': 10001 is not in the range"),
        ("peek q --limit 0", "'--limit': 0 is not in the range"),
        ("peek q --limit many", "'--limit': 'many' is not a whole number"),
        ("shipment show q lake 1.5", "'NUMBER': '1.5' is not a whole number"),
    ],
)
def test_what_is_out_of_range_is_wrong_usage(words, line):
    result = CliRunner().invoke(main, [*words.split(), "--url", "http://127.0.0.1:1"])
    assert (result.exit_code, line in result.stderr) == (2, True), result.stderr


def test_what_the_server_refuses_is_told_in_options(run, monkeypatch):
    """A server of another version may have other limits than this command line."""
    monkeypatch.setattr(Duration, "convert", lambda _self, value, _param, _ctx: int(value))
    run("queue", "create", "q")
    result = run("send", "q", "x", "--delay", "-1")
    assert result.exit_code == 3
    assert result.stderr.startswith("penstock: --delay must be ")


# Help


def of(*words: str) -> str:
    return " ".join(CliRunner().invoke(main, [*words, "--help"]).stdout.split())


def test_the_defaults_of_a_new_queue_are_shown_and_true(run_json):
    settings = run_json("queue", "create", "q")["settings"]
    text = of("queue", "create")
    for flag, name, _, help_text, default in _SETTINGS:
        shown = settings.get(name)
        assert help_text in text
        if default:
            assert f"{help_text} [default: {default}]" in text, flag
        if name in settings:
            assert (duration(shown) if isinstance(shown, int) else shown or "off") == default
    assert settings["redrive"] is None
    assert "[default" not in of("queue", "update").partition("--url")[0]


@pytest.mark.parametrize("words", [("claim",), ("send",), ("renew",), ("queue", "create"), ("vsqs", "receive")])
def test_help_says_how_a_duration_is_written(words):
    assert "A DURATION is written like 500ms, 30s, 5m, 2h, 1d or 1h30m" in of(*words)
    assert "DURATION" not in of("peek")


def test_claim_shows_what_it_does_unless_told():
    text = of("claim")
    assert "How long to wait for the first one. [default: 0s" in text
    assert "How long to hold them. [default: as the queue is set]" in text


# A server that cannot start


@pytest.mark.parametrize(
    ("store", "why"),
    [
        ("sqlite:////etc/passwd/x.db", "Not a directory"),
        ("sqlite:////etc", "is a directory"),
        ("sqlite:////proc/penstock/x.db", "cannot be made"),
        ("postgresql://penstock@127.0.0.1:1/none", "cannot be reached"),
        ("mariadb://penstock@127.0.0.1:1/none", "cannot be reached"),
    ],
)
def test_what_will_not_pass_is_not_to_be_tried_again(store, why):
    words = [*SERVE, "--port", "0", "--store", store]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1
    assert why in done.stderr
    assert "try again" not in done.stderr


@pytest.mark.parametrize("kind", ["postgres_url", "mariadb_url"])
def test_a_missing_database_is_not_to_be_tried_again(kind, request):
    url = request.getfixturevalue(kind).rpartition("/")[0] + "/no_such_database"
    result = CliRunner().invoke(main, ["key", "list", "--store", url])
    assert (result.exit_code, "no_such_database" in result.stderr) == (4, True), result.stderr
    assert "try again" not in result.stderr


def test_a_taken_port_is_told_once(serve, tmp_path):
    port = serve().url.rpartition(":")[2]
    words = [*SERVE, "--port", port, "--store", f"sqlite:///{tmp_path}/other.db"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        f"penstock: cannot listen on 127.0.0.1:{port}: the port is taken, perhaps by another server; "
        "--port chooses another\n"
    )


def test_an_address_of_another_machine_is_told_once(tmp_path):
    words = [
        "--host",
        "192.0.2.1",
        "--port",
        "0",
        "--expose-without-keys",
        "--store",
        f"sqlite:///{tmp_path}/x",
    ]
    done = subprocess.run([*SERVE, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(f"cannot listen on 192.0.2.1:0: {os.strerror(errno.EADDRNOTAVAIL)}")


# mq, mq-mover and mq-reaper


def test_mq_has_no_option_that_it_refuses():
    text = CliRunner().invoke(mq, ["--help"]).stdout
    for flag in ("--store ", "--faces", "--mqcore-daemons"):
        assert flag not in text
    assert "--port" in text
    refused = CliRunner().invoke(mq, ["--root", "x", "--faces", "mqs"])
    assert (refused.exit_code, "No such option" in refused.stderr) == (2, True)


@pytest.mark.parametrize("program", [mq_mover, mq_reaper], ids=["mq-mover", "mq-reaper"])
def test_a_root_that_is_none_is_refused_and_not_made(program, tmp_path):
    result = CliRunner().invoke(program, ["--root", str(tmp_path / "typo")])
    assert (result.exit_code, f"there is no folder {tmp_path}/typo" in result.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []
