"""`penstock config`, and the flags of `penstock serve`. No server is needed."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.server.config import SETTINGS


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words: str, **environ: str) -> Result:
        return CliRunner(env=environ).invoke(main, words)

    return run


def test_every_setting_is_shown_with_its_source(run, tmp_path):
    (tmp_path / "penstock.toml").write_text("ledger_days = 7")
    result = run("config", "--expose-without-keys", PENSTOCK_PORT="9", PENSTOCK_PROT="1")
    header, *rows = (line.split(maxsplit=2) for line in result.stdout.splitlines())
    assert header == ["SETTING", "VALUE", "FROM"]
    assert [row[0] for row in rows] == list(SETTINGS)
    assert ["host", "127.0.0.1", "default"] in rows
    assert ["port", "9", "environment PENSTOCK_PORT"] in rows
    assert ["ledger_days", "7", "file penstock.toml"] in rows
    assert ["expose_without_keys", "true", "command line"] in rows
    assert result.stderr == (
        "penstock: warning: environment PENSTOCK_PROT is not a setting; did you mean 'PENSTOCK_PORT'?\n"
    )


def test_json_has_values_of_their_type_and_no_password(run):
    result = run("config", "--json", "--store", "postgresql://u:secret@h/d", "--stop-grace-s", "0.5")
    settings = json.loads(result.stdout)["settings"]
    assert settings["port"] == {"value": 8080, "from": "default"}
    assert settings["stop_grace_s"] == {"value": 0.5, "from": "command line"}
    assert settings["store"]["value"] == "postgresql://u:***@h/d"


def test_no_secret_is_shown(run):
    for words in (("config",), ("config", "--json")):
        result = run(*words, PENSTOCK_SIGV4_PEPPER="a pepper of 20 chars")
        assert "a pepper" not in result.output
        assert "***" in result.stdout
    assert "***" not in run("config").stdout


def test_the_command_line_may_undo_a_truth(run):
    result = run("config", "--json", "--no-expose-without-keys", PENSTOCK_EXPOSE_WITHOUT_KEYS="true")
    assert json.loads(result.stdout)["settings"]["expose_without_keys"]["value"] is False


def test_both_commands_have_a_flag_for_every_setting(run):
    for command in ("serve", "config"):
        text = run(command, "--help").stdout
        for setting in SETTINGS.values():
            assert f"{setting.flag} " in text


@pytest.mark.parametrize("command", ["serve", "config"])
def test_wrong_settings_are_one_line_and_code_2(run, command):
    for words, message in (
        (("--port", "x"), "port (command line) cannot be 'x': it must be a whole number from 0 to 65535"),
        (("--mqs-oversize", "0.0.0.0"), "cut"),
        (("--config", "gone.toml"), "file gone.toml cannot be read: No such file or directory"),
    ):
        result = run(command, *words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("penstock: ")
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
