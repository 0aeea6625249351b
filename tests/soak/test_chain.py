"""The whole chain, from a server to the verdict: what somebody does to a store behind the server's back is found."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from soak import rules
from soak.apis import APIS, Native
from soak.checker import check
from soak.history import OK, History
from soak.look import Look
from soak.plan import Plan
from soak.server import Server
from soak.talk import Talk

PLANS = [Plan("plain", {}, ("native",), ("native",))]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("chain")
    with Server(folder, f"sqlite:///{folder}/penstock.db") as server:
        server.start()
        yield server


@pytest.fixture
def history(server: Server, tmp_path: Path) -> Iterator[History]:
    history = History(tmp_path / "history")
    talk = Talk([server.url])
    assert talk("PUT", "/v1/queues/plain").status == 201
    history.note("queue", "plain", settings={"ordered": True})
    yield history
    assert talk("DELETE", "/v1/queues/plain").status == 200
    talk.close()
    history.close()


@pytest.fixture
def client(server: Server, history: History) -> Iterator[Native]:
    talk = Talk([server.url])
    yield Native(talk, history.recorder("worker"))
    talk.close()


def change(server: Server, *statements: str) -> None:
    with closing(sqlite3.connect(server.folder / "penstock.db", timeout=30)) as store, store:
        for statement in statements:
            store.execute(statement)


def broken(server: Server, history: History) -> set[str]:
    # The ledger is that of all tests.
    Look(history, [server.url], PLANS, patience_s=0).take(ledger=False)
    return set(check(history).broken)


def test_nothing_is_found_where_nothing_is_wrong(server: Server, history: History, client: Native) -> None:
    client.send("plain", ["worker-1", "worker-2", "worker-3"], 20)
    client.ack("plain", client.claim("plain", 1, 60, 0))
    client.claim("plain", 1, 60, 0)
    assert broken(server, history) == set()


def test_a_message_that_vanishes(server: Server, history: History, client: Native) -> None:
    client.send("plain", ["worker-1", "worker-2"], 20)
    change(server, "DELETE FROM message WHERE CAST(body AS TEXT) LIKE 'worker-1 %'")
    assert broken(server, history) == {rules.LOST, rules.TALLY}


def test_a_claim_that_ends_early(server: Server, history: History, client: Native) -> None:
    client.send("plain", ["worker-1"], 20)
    client.claim("plain", 1, 60, 0)
    change(server, "UPDATE message SET ready_at = 0")
    assert broken(server, history) == {rules.TWICE_CLAIMED}


def test_an_ack_that_is_undone(server: Server, history: History, client: Native) -> None:
    client.send("plain", ["worker-1"], 20)
    [claimed] = client.claim("plain", 1, 60, 0)
    change(server, "CREATE TABLE kept AS SELECT * FROM message ORDER BY seq DESC LIMIT 1")
    client.ack("plain", [claimed])
    change(server, "UPDATE kept SET ready_at = 0", "INSERT INTO message SELECT * FROM kept", "DROP TABLE kept")
    assert rules.BACK in broken(server, history)


def test_a_body_that_changes(server: Server, history: History, client: Native) -> None:
    client.send("plain", ["worker-1"], 20)
    change(server, "UPDATE message SET body = CAST(replace(body, 'worker-1', 'worker-2') AS BLOB)")
    assert rules.STRANGE in broken(server, history)


def test_an_order_that_is_lost(server: Server, history: History, client: Native) -> None:
    client.send("plain", ["worker-1", "worker-2"], 20)
    newest = "SELECT seq, body FROM message ORDER BY seq DESC LIMIT 2"
    other = "SELECT body FROM kept WHERE kept.seq <> message.seq"
    change(
        server,
        f"CREATE TABLE kept AS {newest}",
        f"UPDATE message SET body = ({other}) WHERE seq IN (SELECT seq FROM kept)",
        "DROP TABLE kept",
    )
    assert rules.OVERTAKEN in broken(server, history)


@pytest.mark.parametrize("name", APIS)
def test_every_api_is_spoken(name: str, server: Server, history: History) -> None:
    """What the load sends through an API comes back through it, and nothing of it is refused."""
    talk = Talk([server.url])
    api = APIS[name](talk, history.recorder("worker"))
    tags = [f"worker-{number}" for number in range(min(api.most, 3))]
    assert api.send("plain", tags, 100)["outcome"] == OK
    claimed = api.claim("plain", 10, 30, 0)
    assert [delivery.tag for delivery in claimed] == tags
    if api.can_renew:
        assert api.renew("plain", claimed, 20)["outcome"] == OK
    assert api.ack("plain", claimed)["outcome"] == OK
    if api.can_release:
        assert api.send("plain", ["worker-9"], 100)["outcome"] == OK
        [again] = api.claim("plain", 1, 30, 0)
        assert api.release("plain", [again])["outcome"] == OK
    talk.close()
    history.note("precision", slack_s=0)
    assert broken(server, history) == set()
    assert check(history).figures["left"] == 0
