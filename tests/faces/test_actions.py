"""Every request of every API that administers is in the log of actions, with its API key and its API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock import keys
from penstock.model import Key
from penstock.stores import open_store
from tests.faces.mqs.conftest import PLAIN
from tests.servers import ThreadServer
from tests.talk import Reply, Talk
from tests.waiting import wait_until


class Entry(NamedTuple):
    what: str
    queue: str | None
    count: int | None = None


class Case(NamedTuple):
    """A request, and the entry about it; `face` is its API."""

    face: str
    method: str
    path: str
    body: object
    entry: Entry


def sqs(action: str, more: str = "") -> str:
    return f"Action={action}{more}"


# One after the other, on a server that has the queues `q`, with two messages, and `to`.
CASES = [
    Case("native", "PUT", "/v1/queues/n", {"delay_ms": 5}, Entry("queue.create", "n")),
    Case("native", "PATCH", "/v1/queues/n", {"delay_ms": 6}, Entry("queue.update", "n")),
    Case("native", "POST", "/v1/queues/n/pause", {}, Entry("queue.pause", "n")),
    Case("native", "POST", "/v1/queues/n/resume", {}, Entry("queue.resume", "n")),
    Case("native", "POST", "/v1/queues/q/purge", {"older_than_ms": 999_999}, Entry("queue.purge", "q", 0)),
    Case("native", "POST", "/v1/queues/q/purge", {}, Entry("queue.purge", "q", 2)),
    Case("native", "POST", "/v1/moves", {"source": "n", "target": "to"}, Entry("move.start", "n")),
    Case("native", "POST", "/v1/keys", {"name": "made", "rules": ["queue|post|x"]}, Entry("key.create", None)),
    Case("native", "DELETE", "/v1/keys/made", None, Entry("key.revoke", None)),
    Case("native", "DELETE", "/v1/queues/n", None, Entry("queue.delete", "n")),
    Case("mqs", "PUT", "/queues/m", PLAIN, Entry("queue.create", "m")),
    Case("mqs", "POST", "/queues/m", {**PLAIN, "retention_timeout": 70}, Entry("queue.update", "m")),
    Case("mqs", "DELETE", "/queues/m", None, Entry("queue.delete", "m")),
    Case("emodb", "DELETE", "/queue/1/to", None, Entry("queue.purge", "to", 0)),
    Case("emodb", "POST", "/queue/1/to/unclaimall", None, Entry("claims.release", "to", 0)),
    Case("emodb", "POST", "/queue/1/_move?from=to&to=new", None, Entry("move.start", "to")),
    Case("mqcore", "PUT", "/core", None, Entry("queue.create", "core")),
    Case("mqcore", "DELETE", "/core", None, Entry("queue.delete", "core")),
    Case("sqs", "POST", "/", sqs("CreateQueue", "&QueueName=s"), Entry("queue.create", "s")),
    Case(
        "sqs",
        "POST",
        "/",
        sqs("SetQueueAttributes", "&QueueUrl=s&Attribute.1.Name=DelaySeconds&Attribute.1.Value=3"),
        Entry("queue.update", "s"),
    ),
    Case("sqs", "POST", "/", sqs("TagQueue", "&QueueUrl=s&Tag.1.Key=a&Tag.1.Value=b"), Entry("queue.update", "s")),
    Case("sqs", "POST", "/", sqs("UntagQueue", "&QueueUrl=s&TagKey.1=a"), Entry("queue.update", "s")),
    Case(
        "sqs",
        "POST",
        "/",
        sqs("AddPermission", "&QueueUrl=s&Label=l&AWSAccountId.1=123456789012&ActionName.1=SendMessage"),
        Entry("queue.update", "s"),
    ),
    Case("sqs", "POST", "/", sqs("RemovePermission", "&QueueUrl=s&Label=l"), Entry("queue.update", "s")),
    Case("sqs", "POST", "/", sqs("PurgeQueue", "&QueueUrl=s"), Entry("queue.purge", "s", 0)),
    Case("sqs", "POST", "/", sqs("DeleteQueue", "&QueueUrl=s"), Entry("queue.delete", "s")),
]


class Served:
    def __init__(self, talk: Talk, secret: str | None) -> None:
        self._talk = talk
        self._headers = {} if secret is None else {"authorization": f"Bearer {secret}"}

    def __call__(self, method: str, path: str, body: object = None) -> Reply:
        return self._talk(method, path, body, **self._headers)  # type: ignore[arg-type]

    def actions(self, query: str = "?limit=10000") -> list[dict[str, Any]]:
        reply = self("GET", f"/v1/actions{query}")
        assert reply.status == 200, reply.body
        return reply.json["actions"]  # type: ignore[index]

    def latest(self) -> int:
        return max((one["number"] for one in self.actions()), default=0)

    def since(self, number: int) -> list[dict[str, Any]]:
        """What was done after the action of this number but for the ends of moves, the first one first."""
        return [one for one in reversed(self.actions()) if one["number"] > number and one["what"] != "move.end"]


@contextmanager
def served(folder: Path, secret: str | None) -> Iterator[Served]:
    url = f"sqlite:///{folder}/penstock.db"
    store = open_store(url)
    if secret is not None:
        with store.unit() as unit:
            unit.keys.create(Key("ops", keys.digest(store.secret, secret.encode()), ("queue|*|*",), 0))
    store.close()
    server = ThreadServer(url)
    try:
        with server.talk() as talk:
            yield Served(talk, secret)
    finally:
        server.stop()


def settle_moves(api: Served) -> None:
    def ended() -> bool:
        return all(move["status"] != "in-progress" for move in api("GET", "/v1/moves").json["moves"])  # type: ignore[index]

    wait_until(ended)


@pytest.mark.parametrize("key", ["ops", None])
def test_what_each_api_administers_is_written_down(tmp_path: Path, key: str | None) -> None:
    with served(tmp_path, None if key is None else keys.mint()) as api:
        for name in ("q", "to"):
            assert api("PUT", f"/v1/queues/{name}", {}).status == 201
        assert api("POST", "/v1/queues/q/messages", {"messages": [{"body": "1"}, {"body": "2"}]}).status == 201
        for case in CASES:
            if key is None and case.entry.what.startswith("key."):
                continue  # the first key would shut the others out
            before = api.latest()
            reply = api(case.method, case.path, case.body)
            assert reply.status < 300, (case, reply.body)
            found = [one for one in api.since(before) if one["queue"] != "new"]
            told = [(Entry(one["what"], one["queue"], one["count"]), one["key"], one["via"]) for one in found]
            assert told == [(case.entry, key, case.face)], case
            settle_moves(api)


def test_a_move_task_of_sqs_is_started_and_cancelled_by_name(tmp_path: Path) -> None:
    with served(tmp_path, keys.mint()) as api:
        arn = "arn:aws:sqs:us-east-1:000000000000:{}"
        api("PUT", "/v1/queues/dead", {})
        api("PUT", "/v1/queues/q", {"redrive": {"max_receives": 1, "dead_letter_queue": "dead"}})
        api("POST", "/v1/queues/dead/messages", {"messages": [{"body": str(n)} for n in range(900)]})
        before = api.latest()
        form = f"SourceArn={arn.format('dead')}&DestinationArn={arn.format('q')}&MaxNumberOfMessagesPerSecond=1"
        started = api("POST", "/", f"Action=StartMessageMoveTask&{form}")
        assert started.status == 200, started.body
        handle = started.body.decode().split("<TaskHandle>")[1].split("</TaskHandle>")[0]
        assert api("POST", "/", f"Action=CancelMessageMoveTask&TaskHandle={handle}").status == 200
        told = [(one["what"], one["queue"], one["key"], one["via"]) for one in api.since(before)]
        assert told == [("move.start", "dead", "ops", "sqs"), ("move.cancel", "dead", "ops", "sqs")]


def test_what_fails_is_not_written_down(tmp_path: Path) -> None:
    with served(tmp_path, keys.mint()) as api:
        api("PUT", "/v1/queues/q", {})
        before = api.latest()
        for method, path, body in [
            ("PUT", "/v1/queues/q", {}),
            ("PUT", "/v1/queues/a", {"delay_ms": -1}),
            ("PATCH", "/v1/queues/none", {"delay_ms": 1}),
            ("DELETE", "/v1/queues/none", None),
            ("POST", "/v1/queues/none/purge", {}),
            ("POST", "/v1/moves", {"source": "none", "target": "q"}),
            ("POST", "/v1/moves/none/cancel", {}),
            ("POST", "/v1/keys", {"name": "ops", "rules": ["queue|*|*"]}),
            ("DELETE", "/v1/keys/none", None),
            ("DELETE", "/queues/none", None),
            ("POST", "/", "Action=DeleteQueue&QueueUrl=none"),
        ]:
            assert 400 <= api(method, path, body).status < 500, path
        assert api.since(before) == []


def test_pages_and_filters(tmp_path: Path) -> None:
    with served(tmp_path, None) as api:
        for name in ("a", "b"):
            api("PUT", f"/v1/queues/{name}", {})
            api("PUT", f"/{name}-core", None)
        api("DELETE", "/v1/queues/a")
        everything = api.actions()
        assert [one["queue"] for one in everything] == ["a", "b-core", "b", "a-core", "a"]
        first = api("GET", "/v1/actions?limit=2").json
        assert [one["queue"] for one in first["actions"]] == ["a", "b-core"]  # type: ignore[index]
        assert api.actions(f"?limit=9&before={first['before']}") == everything[2:]  # type: ignore[index]
        assert api("GET", "/v1/actions?before=1").json == {"actions": [], "before": None}
        assert [one["what"] for one in api.actions("?queue=a")] == ["queue.delete", "queue.create"]
        assert [one["queue"] for one in api.actions("?what=queue.delete")] == ["a"]
        assert api.actions("?key=ops") == []
        at = everything[0]["at"]
        assert api.actions(f"?since={at}")[0] == everything[0]
        assert api.actions(f"?until={at + 1}") == everything
        assert api.actions("?until=1") == []
        assert api.actions(f"?since={at + 1_000_000}") == []


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=10001", "limit=x", "before=0", "before=-1", "before=x", "since=x", "until=-1"),
        *("what=everything", "what=", "queue=", "queue=%00", "key=%00", "key=" + "k" * 301, "colour=red"),
    ],
)
def test_a_wrong_parameter_is_refused_in_words(tmp_path: Path, query: str) -> None:
    with served(tmp_path, None) as api:
        reply = api("GET", f"/v1/actions?{query}")
        assert reply.status == 400
        assert query.split("=")[0] in reply.json["error"]  # type: ignore[index]


def test_the_detail_is_json_and_names_no_secret(tmp_path: Path) -> None:
    with served(tmp_path, keys.mint()) as api:
        made = api("POST", "/v1/keys", {"name": "shop", "rules": ["queue|post|orders-*"]}).json
        [entry] = api.actions("?what=key.create")
        assert json.loads(entry["detail"]) == {"name": "shop", "rules": ["queue|post|orders-*"]}
        assert made["secret"] not in str(api.actions())  # type: ignore[index]
        assert made["aws_secret_access_key"] not in str(api.actions())  # type: ignore[index]


def test_several_servers_write_one_log(tmp_path: Path) -> None:
    with served(tmp_path, None) as one, served(tmp_path, None) as other:
        for number in range(6):
            assert (one if number % 2 else other)("PUT", f"/v1/queues/q{number}", {}).status == 201
        names = [action["queue"] for action in one.actions()]
        assert names == [f"q{number}" for number in reversed(range(6))]
        assert other.actions() == one.actions()
