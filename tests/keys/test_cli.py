"""`penstock key`, which opens the store itself or asks a server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.stores import open_store
from tests.keys.conftest import KeyStore, eventually
from tests.servers import ThreadServer


@pytest.fixture
def run(key_store: KeyStore) -> Callable[..., Result]:
    def run(*words: str, stdin: str | None = None) -> Result:
        if not key_store.path.exists():
            open_store(key_store.url).close()
        return CliRunner(env={"PENSTOCK_STORE": key_store.url}).invoke(main, ("key", *words), input=stdin)

    return run


def created(run: Callable[..., Result], name: str, *rules: str) -> str:
    result = run("create", "--name", name, *(word for rule in rules for word in ("--allow", rule)))
    assert result.exit_code == 0, result.output
    assert f"only time the secret of {name}" in result.stderr
    return result.stdout.strip()


def test_create_prints_the_secret_alone(run) -> None:
    secret = created(run, "orders", "queue|post|orders-*", "queue|get_status|orders-*")
    assert secret.startswith("psk_")
    assert "\n" not in secret
    listed = run("list").stdout
    assert secret not in listed
    assert "orders" in listed
    assert "queue|post|orders-*, queue|get_status|orders-*" in listed


def test_in_json(run) -> None:
    made = json.loads(run("create", "--name", "k", "--allow", "queue|*|*", "--json").stdout)
    assert (made["name"], made["rules"], made["secret"][:4]) == ("k", ["queue|*|*"], "psk_")
    [listed] = json.loads(run("list", "--json").stdout)
    assert listed == {
        "name": "k",
        "rules": ["queue|*|*"],
        "created_at": listed["created_at"],
        "revoked_at": None,
        "expires_at": None,
        "state": "in force",
        "last_used_at": None,
        "rotated_at": None,
        "old_secret": None,
    }
    assert json.loads(run("revoke", "k", "--json").stdout) == {"revoked": "k"}
    checked = run("check", "--name", "k", "--action", "post", "--queue", "q", "--json")
    assert checked.exit_code == 1
    assert json.loads(checked.stdout)["permitted"] is False


PEPPER = "a pepper of 20 chars"


def variables(run: Callable[..., Result], *words: str) -> tuple[str, str]:
    result = run(*words)
    assert result.exit_code == 0, result.output
    first, second = result.stdout.splitlines()
    assert first.startswith("AWS_ACCESS_KEY_ID=")
    assert second.startswith("AWS_SECRET_ACCESS_KEY=")
    return first.partition("=")[2], second.partition("=")[2]


def test_what_clients_of_sqs_sign_with_as_two_variables(run, key_store: KeyStore, tmp_path: Path) -> None:
    made = variables(run, "create", "--name", "shop", "--allow", "queue|*|*", "--aws")
    assert made == ("shop", key_store.aws_secret("shop"))
    assert variables(run, "aws", "shop") == made
    (tmp_path / "pepper").write_text(PEPPER)
    peppered = ("--sigv4-pepper", f"file:{tmp_path}/pepper")
    made = variables(run, "create", "--name", "mail", "--allow", "queue|*|*", "--aws", *peppered)
    assert made == ("mail", key_store.aws_secret("mail", PEPPER))
    assert variables(run, "aws", "mail", *peppered) == made
    assert variables(run, "aws", "mail") != made


def test_in_json_both_secrets_are_told(run, key_store: KeyStore) -> None:
    made = json.loads(run("create", "--name", "shop", "--allow", "queue|*|*", "--json", "--aws").stdout)
    assert made["secret"].startswith("psk_")
    aws = {"aws_access_key_id": "shop", "aws_secret_access_key": key_store.aws_secret("shop")}
    assert aws.items() <= made.items()
    assert json.loads(run("aws", "shop", "--json").stdout) == aws


def test_a_key_that_was_made_before_has_them_too(run, key_store: KeyStore) -> None:
    created(run, "old", "queue|*|*")
    assert variables(run, "aws", "old") == ("old", key_store.aws_secret("old"))
    run("revoke", "old")
    for name in ("old", "nobody"):
        result = run("aws", name)
        assert (result.exit_code, result.stdout, result.stderr) == (3, "", f"penstock: there is no API key '{name}'\n")


def test_through_a_server_they_are_told_once(server: ThreadServer, key_store: KeyStore, run) -> None:
    where = ("--url", server.url)
    made = variables(run, "create", "--name", "shop", "--allow", "queue|*|*", "--aws", *where)
    assert made == ("shop", key_store.aws_secret("shop"))
    for words in (("aws", "shop"), ("create", "--name", "k", "--allow", "queue|*|*", "--sigv4-pepper", PEPPER)):
        result = run(*words, *where)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        assert PEPPER not in result.stderr


def test_the_pepper_of_the_server_here_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = KeyStore(tmp_path)
    assert key("create", "--name", "k", "--allow", "queue|*|*", PENSTOCK_SIGV4_PEPPER=PEPPER).exit_code == 0
    (tmp_path / "penstock.toml").write_text(f"sigv4_pepper = '{PEPPER}'")
    for environ in ({}, {"PENSTOCK_SIGV4_PEPPER": PEPPER}):
        told = key("aws", "k", "--json", **environ).stdout
        assert json.loads(told)["aws_secret_access_key"] == store.aws_secret("k", PEPPER)


def test_check_names_the_rule_or_the_reason(run) -> None:
    secret = created(run, "k", "queue|post|orders-*", "queue|admin|*")

    def check(*words: str, stdin: str | None = None) -> tuple[int, str]:
        result = run("check", *words, stdin=stdin)
        return result.exit_code, result.stdout.strip()

    asked = ("--action", "post", "--queue", "orders-eu")
    assert check("--name", "k", *asked) == (0, "permitted by queue|post|orders-*")
    assert check("--secret", secret, *asked) == (0, "permitted by queue|post|orders-*")
    assert check("--secret", "-", *asked, stdin=f"{secret}\n") == (0, "permitted by queue|post|orders-*")
    assert check("--name", "k", "--action", "admin", "--queue", "*") == (0, "permitted by queue|admin|*")
    code, why = check("--name", "k", "--action", "poll", "--queue", "orders-eu")
    assert (code, why.startswith("not permitted: no rule of k is about poll on orders-eu")) == (1, True)
    assert check("--name", "nobody", *asked) == (1, "not permitted: there is no such key")
    assert check("--secret", "psk_wrong", *asked) == (1, "not permitted: there is no such key")
    run("revoke", "k")
    code, why = check("--secret", secret, *asked)
    assert (code, why.startswith("not permitted: k was revoked on ")) == (1, True)


@pytest.mark.parametrize("words", [(), ("--name", "k", "--secret", "s")])
def test_check_takes_a_name_or_a_secret(run, words: tuple[str, ...]) -> None:
    result = run("check", *words, "--action", "post", "--queue", "q")
    assert (result.exit_code, "either --name or --secret" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("create", "--name", "a b", "--allow", "queue|*|*"), 2, "'--name': the name of an API key"),
        (("create", "--name", "k", "--allow", "queue|send|*"), 2, "'--allow': 'queue|send|*': the action is one of"),
        (("create", "--name", "k"), 2, "--allow"),
        (("create", "--allow", "queue|*|*"), 2, "--name"),
        (("revoke", "nobody"), 3, "no API key 'nobody'"),
        (("check", "--name", "k", "--action", "send", "--queue", "q"), 2, "--action"),
        (("list", "--store", "memory://"), 2, "forgets"),
        (("create", "--name", "k", "--allow", "queue|*|*", "--store", "memory://"), 2, "forgets"),
        (("list", "--store", "nonsense"), 2, "a store is a URL"),
    ],
)
def test_what_cannot_be_done_is_one_line(run, words: tuple[str, ...], code: int, why: str) -> None:
    result = run(*words)
    assert (result.exit_code, why in result.stderr) == (code, True), result.output
    assert result.stderr.count("\n") == 1


def test_a_name_is_never_used_again(run) -> None:
    created(run, "k", "queue|*|*")
    run("revoke", "k")
    result = run("create", "--name", "k", "--allow", "queue|*|*")
    assert (result.exit_code, "already exists or was revoked" in result.stderr) == (3, True)


def test_a_running_server_knows_the_key_within_a_second(run, server: ThreadServer) -> None:
    secret = created(run, "k", "queue|post|orders-*")
    with server.talk() as talk:
        eventually(lambda: talk("POST", "/queue/1/orders-1/send", [1]).status == 403)
        assert talk("POST", "/queue/1/orders-1/send", [1], x_bv_api_key=secret).status == 200
        run("revoke", "k")
        eventually(lambda: talk("POST", "/queue/1/orders-1/send", [1], x_bv_api_key=secret).status == 403)


def test_as_a_program_in_the_folder_of_the_server(tmp_path: Path) -> None:
    def penstock(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "penstock", "key", *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    made = penstock("create", "--name", "k", "--allow", "queue|*|*")
    assert made.returncode == 0, made.stderr
    secret = made.stdout.strip()
    assert secret.startswith("psk_")
    assert (tmp_path / "data" / "penstock.db").exists()
    assert penstock("check", "--secret", secret, "--action", "poll", "--queue", "q").returncode == 0
    assert penstock("revoke", "k").stdout == "revoked k\n"
    assert penstock("check", "--secret", secret, "--action", "poll", "--queue", "q").returncode == 1
    assert secret not in penstock("list").stdout


# A store that is not there

CREATE = ("create", "--name", "k", "--allow", "queue|*|*")
OTHERS = [("list",), ("revoke", "k"), ("aws", "k"), ("check", "--name", "k", "--action", "post", "--queue", "q")]


def key(*words: str, **environ: str) -> Result:
    return CliRunner(env=environ).invoke(main, ("key", *words))


@pytest.mark.parametrize("words", OTHERS, ids=lambda words: words[0])
def test_only_create_makes_a_store(words: tuple[str, ...], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = key(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"penstock: there is no store at {tmp_path}/data/penstock.db: name it with --store")
    assert list(tmp_path.iterdir()) == []


def test_create_says_that_it_has_made_a_store(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = key(*CREATE)
    assert made.exit_code == 0
    assert made.stderr.startswith(f"penstock: there was no store at {tmp_path}/data/penstock.db: it was made")
    again = key("create", "--name", "k2", "--allow", "queue|*|*")
    assert (again.exit_code, "was made" in again.stderr) == (0, False)


@pytest.mark.parametrize("kind", ["postgres_url", "mariadb_url"])
def test_a_database_without_a_store(kind: str, request: pytest.FixtureRequest) -> None:
    database_url = request.getfixturevalue(kind)
    for words in OTHERS:
        result = key(*words, "--store", database_url)
        assert (result.exit_code, "there is no store at" in result.stderr) == (2, True), result.output
        assert "pen%2Fst%40ck" not in result.stderr
    made = key(*CREATE, "--store", database_url)
    assert (made.exit_code, "it was made, with this key" in made.stderr) == (0, True), made.output
    assert key("list", "--store", database_url).stdout.splitlines()[1].startswith("k ")


@pytest.mark.parametrize("words", [CREATE, *OTHERS], ids=lambda words: words[0])
def test_a_store_of_mqcore_keeps_no_keys(words: tuple[str, ...], tmp_path: Path) -> None:
    result = key(*words, "--store", f"mqcore:///{tmp_path}/mq")
    assert (result.exit_code, result.stderr) == (2, "penstock: an mqcore:// store does not keep API keys\n")
    assert list(tmp_path.iterdir()) == []


# Through a server


def test_through_a_server(server: ThreadServer, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    admin = key("create", "--name", "admin", "--allow", "queue|*|*", "--url", server.url).stdout.strip()
    assert admin.startswith("psk_")
    with server.talk() as talk:
        eventually(lambda: talk("GET", "/v1/queues").status == 401)
    environ = {"PENSTOCK_URL": server.url, "PENSTOCK_API_KEY": admin}
    assert key("list", PENSTOCK_URL=server.url).exit_code == 3
    made = json.loads(key("create", "--name", "k", "--allow", "queue|post|a*", "--json", **environ).stdout)
    assert (made["name"], made["rules"], made["secret"][:4]) == ("k", ["queue|post|a*"], "psk_")
    twice = key("create", "--name", "k", "--allow", "queue|post|a*", **environ)
    assert (twice.exit_code, "an API key named 'k' already exists or was revoked" in twice.stderr) == (3, True)
    assert [one["name"] for one in json.loads(key("list", "--json", **environ).stdout)] == ["admin", "k"]
    asked = ("check", "--name", "k", "--queue", "ab", "--action")
    assert key(*asked, "post", **environ).stdout == "permitted by queue|post|a*\n"
    assert key(*asked, "poll", **environ).exit_code == 1
    assert key("revoke", "k", **environ).stdout == "revoked k\n"
    assert key(*asked, "post", **environ).stdout.startswith("not permitted: k was revoked on ")
    missing = key("revoke", "nobody", **environ)
    assert (missing.exit_code, missing.stderr) == (3, "penstock: there is no API key 'nobody'\n")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_server_does_not_look_for_secrets(server: ThreadServer) -> None:
    words = ("check", "--secret", "psk_x", "--action", "post", "--queue", "q", "--url", server.url)
    result = key(*words)
    assert (result.exit_code, "give --name" in result.stderr) == (2, True)


def test_a_store_that_is_named_wins_over_the_environment(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    made = key(*CREATE, "--store", store, PENSTOCK_URL="http://127.0.0.1:1")
    assert made.exit_code == 0, made.output
    both = key("list", "--store", store, "--url", "http://127.0.0.1:1")
    assert (both.exit_code, "give only one of them" in both.stderr) == (2, True)


def test_the_first_key_warns_that_everybody_needs_one(run) -> None:
    first = run("create", "--name", "one", "--allow", "queue|*|*")
    assert "from now on every request through every API needs one" in first.stderr
    assert "from now on" not in run("create", "--name", "two", "--allow", "queue|*|*").stderr


def test_so_does_the_first_through_a_server(server: ThreadServer) -> None:
    def create(name: str, **environ: str) -> Result:
        words = ("key", "create", "--name", name, "--allow", "queue|*|*", "--url", server.url)
        return CliRunner(env=environ).invoke(main, words)

    first = create("one")
    assert "from now on every request through every API needs one" in first.stderr
    assert "from now on" not in create("two", PENSTOCK_API_KEY=first.stdout.strip()).stderr


@pytest.mark.parametrize("environ", [{}, {"PENSTOCK_API_KEY": "psk_wrong"}])
def test_where_a_key_is_taken_from_is_said_when_it_is_needed(key_store: KeyStore, keyed, environ) -> None:
    key_store.create("k", "queue|*|*")
    url = keyed().url
    for words in (("queue", "list"), ("send", "q", "x"), ("key", "list")):
        result = CliRunner(env=environ).invoke(main, (*words, "--url", url))
        assert result.exit_code == 3
        assert result.stderr.endswith("; it is taken from --api-key or PENSTOCK_API_KEY\n")


def test_expiry_is_given_changed_and_shown(run) -> None:
    made = json.loads(run("create", "--name", "k", "--allow", "queue|*|*", "--expires", "90d", "--json").stdout)
    [listed] = json.loads(run("list", "--json").stdout)
    assert listed["expires_at"] == made["expires_at"]
    assert abs(made["expires_at"] - listed["created_at"] - 90 * 86_400_000) < 60_000
    assert run("update", "k", "--expires", "2999-05-01T12:30").stdout == "k expires on 2999-05-01 12:30\n"
    assert "2999-05-01 12:30" in run("list").stdout
    assert run("update", "k", "--expires", "never").stdout == "k never expires\n"
    for wrong in ("yesterday", "2020-01-01", "0", "999999999999d"):
        refused = run("update", "k", "--expires", wrong)
        assert (refused.exit_code, "--expires" in refused.stderr) == (2, True), refused.output
    assert run("update", "nobody", "--expires", "1d").exit_code == 3


def test_rotate_and_retire(run) -> None:
    old = created(run, "k", "queue|*|*")
    rotated = run("rotate", "k")
    new = rotated.stdout.strip()
    assert "until 'penstock key retire k'" in rotated.stderr
    asks = ("--action", "post", "--queue", "q")
    assert [run("check", "--secret", one, *asks).exit_code for one in (old, new)] == [0, 0]
    assert "in force, old secret until retired" in run("list").stdout
    refused = run("rotate", "k")
    assert (refused.exit_code, "two secrets already" in refused.stderr) == (3, True)
    assert run("retire", "k").stdout == "k has one secret\n"
    assert [run("check", "--secret", one, *asks).exit_code for one in (old, new)] == [1, 0]
    assert "refused from now on" in run("rotate", "k", "--grace", "0").stderr
    assert run("check", "--secret", new, *asks).exit_code == 1
    assert "AWS_ACCESS_KEY_ID=k" in run("rotate", "k", "--grace", "24h", "--aws").stdout
    assert run("rotate", "k", "--grace", "soon").exit_code == 2


def test_the_same_through_a_server(server: ThreadServer) -> None:
    def ask(secret: str, *words: str) -> Result:
        return CliRunner(env={"PENSTOCK_URL": server.url, "PENSTOCK_API_KEY": secret}).invoke(main, ("key", *words))

    old = ask("", "create", "--name", "k", "--allow", "queue|*|*", "--expires", "1d").stdout.strip()
    new = ask(old, "rotate", "k", "--grace", "1h").stdout.strip()
    assert ask(new, "update", "k", "--expires", "never").stdout == "k never expires\n"
    [listed] = json.loads(ask(old, "list", "--json").stdout)
    assert listed["old_secret"]["last_used_at"] == listed["last_used_at"] > 0
    assert ask(new, "retire", "k").stdout == "k has one secret\n"
    assert ask(old, "list").exit_code == 3
