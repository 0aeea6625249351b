"""Figures of queues over HTTP: the overview, the history of a queue, and who works on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import __version__, keys
from penstock.compiled import is_compiled
from penstock.model import Key
from penstock.stores import open_store
from tests.servers import ThreadServer
from tests.talk import Reply, Talk
from tests.waiting import wait_until


def names(talk: Talk, query: str = "") -> list[str]:
    reply = talk("GET", f"/v1/overview{query}")
    assert reply.status == 200, reply.body
    return [row["name"] for row in reply.json["rows"]]


def test_an_overview_tells_what_is_in_queues_and_what_has_happened(native, talk):
    native.create("empty")
    native.send("a", "b", "c", {"body": "d", "delay_ms": 60_000})
    [claimed] = native.claim()
    native.done("ack", claimed["receipt"])
    native.claim()
    told = talk("GET", "/v1/overview").json
    assert told["total"] == 2
    row, empty = told["rows"]
    assert (row["name"], row["ready"], row["delayed"], row["claimed"], row["total"]) == ("q", 1, 1, 1, 3)
    assert (row["totals"]["sent"], row["totals"]["claimed"], row["totals"]["acked"]) == (4, 2, 1)
    assert row["oldest_ready_ms"] == told["as_of"] - row["oldest_ready_sent_at"]
    assert (row["paused_at"], row["sent_by_minute"], row["acked_by_minute"]) == (None, [], [])
    assert (empty["name"], empty["total"], empty["oldest_ready_ms"]) == ("empty", 0, None)
    assert (told["sums"]["ready"], told["sums"]["total"], told["sums"]["paused"]) == (1, 3, 0)


def test_queues_are_sorted_filtered_and_paged(native, talk):
    for name in ("apples", "Pears", "dead"):
        native.create(name)
    native.create("plums", redrive={"max_receives": 1, "dead_letter_queue": "dead"})
    native.send("x", "x", to="apples")
    native.send("x", to="Pears")
    talk("POST", "/v1/queues/plums/pause")
    assert names(talk, "?sort=name") == ["Pears", "apples", "dead", "plums", "q"]
    assert names(talk, "?sort=name&order=descending") == ["q", "plums", "dead", "apples", "Pears"]
    assert names(talk, "?sort=ready&limit=2") == ["apples", "Pears"]
    assert names(talk, "?sort=ready&limit=2&offset=1") == ["Pears", "dead"]
    assert names(talk, "?contains=EA&sort=name") == ["Pears", "dead"]
    assert names(talk, "?dead_letter_queues=true") == ["dead"]
    assert names(talk, "?sort=paused")[0] == "plums"
    assert names(talk, "?contains=none") == []
    assert talk("GET", "/v1/overview?contains=EA").json["total"] == 2


def test_spark_lines_are_there_on_request(native, talk):
    native.send("a", "b")
    # Not in the last minute, which may just have begun.
    wait_until(lambda: sum(talk("GET", "/v1/overview?sparks=true").json["rows"][0]["sent_by_minute"]) == 2)
    [row] = talk("GET", "/v1/overview?sparks=true").json["rows"]
    assert len(row["sent_by_minute"]) == len(row["acked_by_minute"]) == 60


@pytest.mark.parametrize(
    "query",
    [
        *("sort=colour", "sort=", "order=up", "offset=-1", "offset=x", "limit=0", "limit=10001", "sparks=yes"),
        *("dead_letter_queues=1", "contains=" + "x" * 256, "colour=red"),
    ],
)
def test_a_wrong_parameter_of_an_overview_is_refused_in_words(talk, query):
    reply = talk("GET", f"/v1/overview?{query}")
    assert reply.status == 400
    assert query.split("=")[0] in reply.json["error"]


def test_the_history_of_a_queue(native, talk):
    native.send("a", "b")
    [claimed] = native.claim()
    native.done("ack", claimed["receipt"])
    hour = talk("GET", "/v1/queues/q/history").json
    assert (hour["span"], hour["bucket_ms"], len(hour["since"])) == ("hour", 60_000, 60)
    # Over all minutes: the last one may have begun since.
    assert (sum(hour["sent"]), sum(hour["claims"]), sum(hour["acked"]), hour["ready"][-1]) == (2, 1, 1, 1)
    assert all(len(column) == 60 for column in hour.values() if isinstance(column, list))
    day = talk("GET", "/v1/queues/q/history?span=day").json
    assert (day["span"], day["bucket_ms"], len(day["since"]), sum(day["sent"])) == ("day", 600_000, 144, 2)


@pytest.mark.parametrize("query", ["span=week", "span=", "limit=3"])
def test_a_wrong_parameter_of_a_history_is_refused_in_words(native, talk, query):
    reply = talk("GET", f"/v1/queues/q/history?{query}")
    assert reply.status == 400
    assert query.split("=")[0] in reply.json["error"]


@pytest.mark.parametrize("what", ["history", "workers"])
def test_a_queue_that_there_is_not(talk, what):
    assert talk("GET", f"/v1/queues/none/{what}").status == 404
    assert talk("GET", f"/v1/queues/none/{what}?colour=red").status == 400


def test_who_works_on_a_queue(native, talk, server):
    def workers() -> dict[str, object]:
        return talk("GET", "/v1/queues/q/workers").json

    assert workers() == {"waiting_claims": 0, "consumers": [], "shipments": []}
    native.send("a")
    claimed = talk("PUT", "/v1/queues/q/shipments/lake/1", {"limit": 1, "hold_ms": 60_000})
    assert claimed.status == 201, claimed.body
    with server.talk() as another:
        waiting = threading.Thread(target=another, args=("POST", "/v1/queues/q/claim", {"wait_ms": 60_000}))
        waiting.start()
        wait_until(lambda: workers()["waiting_claims"] == 1)
        native.send("b")
        waiting.join()
    told = workers()
    assert told["waiting_claims"] == 0
    assert [(one["consumer"], one["state"]) for one in told["shipments"]] == [("lake", "open")]  # type: ignore[index]


def test_the_kind_of_server(talk):
    told = talk("GET", "/v1/server").json
    assert (told["version"], told["store"], told["compiled"]) == (__version__, "sqlite", is_compiled())
    assert told["began_at"] > 0
    assert talk("GET", "/v1/server?colour=red").status == 400


KEYS = {"all": "queue|*|*", "orders": "queue|get_status|orders-*", "poll": "queue|poll|*"}


class Locked:
    """A server with the API keys above, asked with one of them."""

    def __init__(self, url: str) -> None:
        self.secrets = {name: keys.mint() for name in KEYS}
        store = open_store(url)
        with store.unit() as unit:
            for name, rule in KEYS.items():
                digest = keys.digest(store.secret, self.secrets[name].encode())
                unit.keys.create(Key(name, digest, (rule,), 0))
        store.close()
        self.server = ThreadServer(url)

    def __call__(self, name: str, path: str, method: str = "GET", body: object = None) -> Reply:
        with self.server.talk() as talk:
            return talk(method, path, body, authorization=f"Bearer {self.secrets.get(name, 'none')}")


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Locked]:
    locked = Locked(f"sqlite:///{tmp_path}/locked.db")
    yield locked
    locked.server.stop()


def test_a_key_sees_the_queues_whose_status_it_may_get(locked):
    for name in ("orders-1", "orders-2", "mail"):
        assert locked("all", f"/v1/queues/{name}", "PUT", {}).status == 201
        sent = locked("all", f"/v1/queues/{name}/messages", "POST", {"messages": [{"body": "x"}]})
        assert sent.status == 201
    assert locked("all", "/v1/overview").json["total"] == 3
    told = locked("orders", "/v1/overview?sort=name").json
    assert [row["name"] for row in told["rows"]] == ["orders-1", "orders-2"]
    assert (told["total"], told["sums"]["total"]) == (2, 2)
    assert locked("poll", "/v1/overview").json["rows"] == []


def test_what_a_key_may_not_see_is_refused(locked):
    for name in ("orders-1", "mail"):
        locked("all", f"/v1/queues/{name}", "PUT", {})
    for what in ("history", "workers"):
        assert locked("orders", f"/v1/queues/orders-1/{what}").status == 200
        assert locked("orders", f"/v1/queues/mail/{what}").status == 403
        assert locked("poll", f"/v1/queues/mail/{what}").status == 403
    assert locked("all", "/v1/server").status == 200
    assert locked("orders", "/v1/server").status == 403
    assert locked("nobody", "/v1/overview").status == 401
