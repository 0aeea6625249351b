"""The settings: one list, four sources, and messages that say what to do."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from penstock.errors import InvalidSetting
from penstock.keys import Keyring
from penstock.model import Key
from penstock.server.config import SETTINGS, Config, Loaded, is_loopback, load, shown, shown_value
from penstock.server.front import refuse_exposure


@pytest.fixture
def load_here(tmp_path: Path):
    def load_here(
        flags: dict | None = None,
        environ: dict | None = None,
        toml: str | None = None,
        path: str | None = None,
    ) -> Loaded:
        if toml is not None:
            (tmp_path / (path or "penstock.toml")).write_text(toml)
        return load(flags or {}, environ or {}, path=path, directory=tmp_path)

    return load_here


def test_without_any_source_everything_is_default(load_here):
    loaded = load_here()
    assert loaded == Loaded(Config(), dict.fromkeys(SETTINGS, "default"))


def test_the_stronger_source_wins(load_here):
    toml = "host = 'localhost'\nport = 1\nledger_days = 7\n"
    environ = {"PENSTOCK_PORT": "2", "PENSTOCK_LEDGER_DAYS": "8"}
    loaded = load_here({"ledger_days": "9", "store": None}, environ, toml)
    assert (loaded.config.host, loaded.sources["host"]) == ("localhost", "file penstock.toml")
    assert (loaded.config.port, loaded.sources["port"]) == (2, "environment PENSTOCK_PORT")
    assert (loaded.config.ledger_days, loaded.sources["ledger_days"]) == (9, "command line")
    assert loaded.sources["store"] == "default"


def test_a_named_file_is_read_instead_of_the_usual_one(load_here):
    load_here(toml="port = 1")
    assert load_here(toml="port = 3", path="other.toml").config.port == 3
    assert load_here(environ={"PENSTOCK_CONFIG": "other.toml"}).sources["port"] == "file other.toml"
    assert load_here().config.port == 1


def test_a_named_file_must_be_there(load_here):
    with pytest.raises(InvalidSetting, match=r"file gone\.toml cannot be read: No such file"):
        load_here(environ={"PENSTOCK_CONFIG": "gone.toml"})


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("Yes", True), ("off", False), ("0", False)])
def test_a_truth_may_be_written_in_several_ways(load_here, text, value):
    assert load_here(environ={"PENSTOCK_EXPOSE_WITHOUT_KEYS": text}).config.expose_without_keys is value


def test_seconds_may_be_fractions_and_whole_in_a_file(load_here):
    loaded = load_here(environ={"PENSTOCK_BODY_TIMEOUT_S": "0.5"}, toml="idle_timeout_s = 5")
    assert (loaded.config.body_timeout_s, loaded.config.idle_timeout_s) == (0.5, 5.0)


@pytest.mark.parametrize(
    ("name", "text", "right"),
    [
        ("port", "65536", "a whole number from 0 to 65535"),
        ("port", "-1", "a whole number from 0 to 65535"),
        ("port", "http", "a whole number from 0 to 65535"),
        ("port", "", "a whole number from 0 to 65535"),
        ("ledger_days", "0", "a whole number from 1 to 36500"),
        ("max_connections", "0", "a whole number from 1 to 1000000"),
        ("stop_grace_s", "nan", "a number from 0 to 86400"),
        ("idle_timeout_s", "0", "a number from 0.01 to 86400"),
        ("expose_without_keys", "maybe", "true or false"),
        ("mqs_oversize", "drop", "one of cut, refuse"),
        ("log_level", "INFO", "one of debug, info, warning, error"),
        ("host", "", "text that is not empty"),
        ("store", "", "text that is not empty"),
    ],
)
def test_a_bad_value_is_refused_by_name_source_and_remedy(load_here, name, text, right):
    variable = f"PENSTOCK_{name.upper()}"
    with pytest.raises(InvalidSetting) as caught:
        load_here(environ={variable: text})
    assert str(caught.value) == f"{name} (environment {variable}) cannot be {text!r}: it must be {right}"
    with pytest.raises(InvalidSetting, match=r"\(command line\)"):
        load_here({name: text})


@pytest.mark.parametrize("toml", ["port = '8080'", "port = true", "port = 1.5", "host = 1", "expose_without_keys = 1"])
def test_a_value_in_a_file_has_its_own_type(load_here, toml):
    with pytest.raises(InvalidSetting, match=r"\(file penstock\.toml\) cannot be .*: it must be"):
        load_here(toml=toml)


def test_an_unknown_key_in_a_file_is_refused_with_the_closest(load_here):
    with pytest.raises(InvalidSetting, match=r"'prot' \(file penstock\.toml\) is not a setting; did you mean 'port'\?"):
        load_here(toml="prot = 1")
    with pytest.raises(InvalidSetting, match=r"is not a setting; there are host, port, store"):
        load_here(toml="zzz = 1")


@pytest.mark.parametrize("content", [b"port = ", b"port = 1\nport = 2", b"\xff\xfe"])
def test_a_file_that_is_not_toml_is_refused(tmp_path, content):
    (tmp_path / "penstock.toml").write_bytes(content)
    with pytest.raises(InvalidSetting, match=r"file penstock\.toml is not TOML"):
        load({}, {}, directory=tmp_path)


def test_an_unknown_variable_is_a_warning(load_here):
    known = {
        "PENSTOCK_URL": "x",
        "PENSTOCK_API_KEY": "x",
        "PENSTOCK_TEST_DSN": "x",
        "PENSTOCKS": "x",
        "PATH": "x",
    }
    assert load_here(environ=known).warnings == ()
    loaded = load_here(environ={"PENSTOCK_PROT": "1"})
    assert loaded.warnings == ("environment PENSTOCK_PROT is not a setting; did you mean 'PENSTOCK_PORT'?",)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost", "LocalHost"])
def test_loopback_needs_no_keys(host):
    assert is_loopback(host)
    refuse_exposure(Config(host=host), Keyring(b"secret"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "queue.example", "127.0.0.1.example", "128.0.0.1"])
def test_other_hosts_need_keys_unless_exposed_on_purpose(host):
    with pytest.raises(InvalidSetting, match=r"host is .*penstock key create.*--expose-without-keys"):
        refuse_exposure(Config(host=host), Keyring(b"secret"))
    refuse_exposure(Config(host=host, expose_without_keys=True), Keyring(b"secret"))
    revoked = Key("gone", b"digest", ("queue|*|*",), 1, revoked_at=2)
    refuse_exposure(Config(host=host), Keyring(b"secret", [revoked]))


def test_a_certificate_and_its_key_go_together(load_here):
    with pytest.raises(InvalidSetting, match=r"tls_cert \(command line\) is set without tls_key"):
        load_here({"tls_cert": "a.pem"})
    with pytest.raises(InvalidSetting, match=r"tls_key .* is set without tls_cert"):
        load_here({"tls_key": "a.pem"})
    assert load_here({"tls_cert": "a.pem", "tls_key": "b.pem"}).config.tls_key == "b.pem"


def test_every_setting_explains_itself():
    assert list(SETTINGS) == [field.name for field in dataclasses.fields(Config)]
    for setting in SETTINGS.values():
        assert setting.help.endswith(".")
        assert "\n" not in setting.help


def test_every_default_is_a_good_value(load_here):
    flags = {name: shown(setting.default) for name, setting in SETTINGS.items()}
    assert load_here(flags).config == Config()


PEPPER = "a pepper of 20 chars"


def test_a_secret_may_be_in_a_file_of_its_own(load_here, tmp_path: Path):
    (tmp_path / "pepper").write_text(f"{PEPPER}\n")
    for loaded in (
        load_here({"sigv4_pepper": "file:pepper"}),
        load_here(environ={"PENSTOCK_SIGV4_PEPPER": f"file:{tmp_path}/pepper"}),
        load_here(environ={"PENSTOCK_SIGV4_PEPPER": PEPPER}),
        load_here(toml=f"sigv4_pepper = '{PEPPER}'"),
    ):
        assert loaded.config.sigv4_pepper == PEPPER


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("file:gone", "sigv4_pepper (command line): file gone cannot be read: No such file or directory"),
        ("file:", "sigv4_pepper (command line): file  cannot be read: Is a directory"),
        ("file:empty", "sigv4_pepper (command line): file empty is empty"),
        ("file:bytes", "sigv4_pepper (command line): file bytes cannot be read: it is not UTF-8"),
        ("file:short", "sigv4_pepper (command line) must be 16 printable characters or more"),
        ("only 15 letters", "sigv4_pepper (command line) must be 16 printable characters or more"),
        ("with a line end\nin its middle", "sigv4_pepper (command line) must be 16 printable characters or more"),
        ("from an odd variable: \udcff", "sigv4_pepper (command line) must be 16 printable characters or more"),
    ],
)
def test_a_pepper_that_cannot_be_one(load_here, tmp_path: Path, text: str, why: str):
    for name, content in (("empty", b" \n"), ("bytes", b"\xff" * 20), ("short", b"only 15 letters\n")):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidSetting) as caught:
        load_here({"sigv4_pepper": text})
    assert str(caught.value) == why


def test_a_secret_is_never_shown(load_here):
    config = load_here({"sigv4_pepper": PEPPER}).config
    assert PEPPER not in repr(config)
    assert shown_value(SETTINGS["sigv4_pepper"], PEPPER) == "***"
    assert shown_value(SETTINGS["sigv4_pepper"], "") == ""
    assert shown_value(SETTINGS["host"], "h") == "h"
    with pytest.raises(InvalidSetting, match=r"sigv4_pepper \(file penstock\.toml\) cannot be \*\*\*: it must be text"):
        load_here(toml="sigv4_pepper = 12345678901234567890")


@pytest.mark.parametrize(
    ("store", "text"),
    [
        ("postgresql://user:pa:ss@word@host/db", "postgresql://user:***@host/db"),
        ("postgresql://host/db?user=a&password=b&x=1", "postgresql://host/db?user=a&password=***&x=1"),
        ("postgresql://user:p,w@a:1,b:2,[::1]:3/db?x=1", "postgresql://user:***@a:1,b:2,[::1]:3/db?x=1"),
        ("postgresql://a:1,b:2/db?user=a&password=b", "postgresql://a:1,b:2/db?user=a&password=***"),
        ("mariadb://user@host:3306/db", "mariadb://user@host:3306/db"),
        ("sqlite:///data/a:b@c.db", "sqlite:///data/a:b@c.db"),
    ],
)
def test_a_password_is_never_shown(store, text):
    assert shown(store) == text
