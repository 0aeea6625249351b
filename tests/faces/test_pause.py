"""A paused queue, as each API that claims sees it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.gq import Client as GqClient
from tests.faces.sqs.conftest import ACCOUNT, Sqs
from tests.gq.conftest import at_work
from tests.servers import ThreadServer
from tests.talk import Talk
from tests.waiting import wait_until

QUEUE = "q"


def by_native(talk: Talk, wait_s: int) -> list[str]:
    reply = talk("POST", f"/v1/queues/{QUEUE}/claim", {"limit": 10, "wait_ms": wait_s * 1000})
    return [message["body"] for message in reply.json["messages"]]


def by_native_with_an_attempt(talk: Talk, wait_s: int) -> list[str]:
    asked = {"limit": 10, "wait_ms": wait_s * 1000, "attempt": "t"}
    reply = talk("POST", f"/v1/queues/{QUEUE}/claim", asked)
    return [message["body"] for message in reply.json["messages"]]


def by_native_shipment(talk: Talk, _wait_s: int) -> list[str]:
    path = f"/v1/queues/{QUEUE}/shipments/lake/1"
    if talk("PUT", path, {"limit": 10}).status == 204:
        return []
    return [message["body"] for message in talk("GET", f"{path}/messages").json["messages"]]


def by_mqs(talk: Talk, wait_s: int) -> list[str]:
    reply = talk("GET", f"/messages/{QUEUE}", **({"x_mqs_max_wait_time": str(wait_s)} if wait_s else {}))
    assert reply.status == (200 if reply.body else 204)
    return [reply.body.decode()] if reply.body else []


def by_emodb(talk: Talk, _wait_s: int) -> list[str]:
    reply = talk("GET", f"/queue/1/{QUEUE}/poll?limit=10")
    assert reply.status == 200
    return [str(message["payload"]) for message in json.loads(reply.body)]


def by_mqcore(talk: Talk, _wait_s: int) -> list[str]:
    reply = talk("GET", f"/{QUEUE}/messages")
    assert reply.status == (200 if reply.body else 204)
    return [reply.body.decode()] if reply.body else []


def by_sqs(talk: Talk, wait_s: int) -> list[str]:
    url = f"{ACCOUNT}/{QUEUE}"
    return Sqs(talk, "json").bodies(f"http://any/{url}", WaitTimeSeconds=wait_s)


def by_sqs_query(talk: Talk, wait_s: int) -> list[str]:
    return Sqs(talk, "query").bodies(f"http://any/{ACCOUNT}/{QUEUE}", WaitTimeSeconds=wait_s)


Claiming = Callable[[Talk, int], list[str]]

WAITING: list[Claiming] = [by_native, by_native_with_an_attempt, by_mqs, by_sqs, by_sqs_query]
CLAIMING: list[Claiming] = [*WAITING, by_native_shipment, by_emodb, by_mqcore]


@pytest.fixture
def paused(talk: Talk) -> Talk:
    """One message is in the queue, which is paused."""
    assert talk("PUT", f"/v1/queues/{QUEUE}").status == 201
    assert talk("POST", f"/messages/{QUEUE}", b"hello").status == 201
    assert talk("POST", f"/v1/queues/{QUEUE}/pause").status == 200
    return talk


def resume(talk: Talk) -> None:
    assert talk("POST", f"/v1/queues/{QUEUE}/resume").status == 200


@pytest.mark.parametrize("claim", CLAIMING, ids=lambda claim: claim.__name__)
def test_every_api_finds_nothing(paused: Talk, claim: Claiming) -> None:
    assert claim(paused, 0) == []
    resume(paused)
    assert claim(paused, 0) == ["hello"]


@pytest.mark.parametrize("claim", WAITING, ids=lambda claim: claim.__name__)
def test_a_long_poll_waits_and_is_woken(server: ThreadServer, paused: Talk, claim: Claiming) -> None:
    def wait() -> list[str]:
        with Talk(server.url, timeout=60) as talk:
            return claim(talk, 19)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        wait_until(lambda: waiting.done() or server.waiting_claims() == [QUEUE])
        assert paused("POST", f"/messages/{QUEUE}", b"second").status == 201
        assert paused("GET", f"/v1/queues/{QUEUE}").json["count"]["claimed"] == 0
        assert not waiting.done()
        resume(paused)
        assert waiting.result()[0] == "hello"


def test_sends_of_every_api_go_on(paused: Talk) -> None:
    sent = {"messages": [{"body": "native"}]}
    assert paused("POST", f"/v1/queues/{QUEUE}/messages", sent).status == 201
    assert paused("POST", f"/messages/{QUEUE}", b"mqs").status == 201
    assert paused("POST", f"/queue/1/{QUEUE}/send", '"emodb"', content_type="application/json").status == 200
    assert paused("POST", f"/{QUEUE}/messages", b"mqcore").status == 201
    Sqs(paused, "json").send(f"http://any/{ACCOUNT}/{QUEUE}", "sqs")
    peeked = paused("GET", f"/v1/queues/{QUEUE}/messages").json["messages"]
    assert [message["body"] for message in peeked] == ["hello", "native", "mqs", '"emodb"', "mqcore", "sqs"]


def test_settings_change_through_every_api_beside_it(paused: Talk) -> None:
    since = paused("GET", f"/v1/queues/{QUEUE}").json["paused_at"]
    sqs, url = Sqs(paused, "json"), f"http://any/{ACCOUNT}/{QUEUE}"
    assert paused("PATCH", f"/v1/queues/{QUEUE}", {"visibility_ms": 5_000}).status == 200
    changed = {"retention_timeout": 600, "visibility_timeout": 3, "message_deduplication": False}
    assert paused("POST", f"/queues/{QUEUE}", changed).status == 200
    sqs("SetQueueAttributes", QueueUrl=url, Attributes={"VisibilityTimeout": "7"})
    sqs("TagQueue", QueueUrl=url, Tags={"a": "b"})
    assert paused("PUT", f"/{QUEUE}").status == 201
    assert sqs.create(QUEUE).endswith(QUEUE)
    shown = paused("GET", f"/v1/queues/{QUEUE}").json
    assert (shown["paused_at"], shown["settings"]["visibility_ms"]) == (since, 7_000)
    assert by_native(paused, 0) == []


def test_it_is_over_with_the_queue(paused: Talk) -> None:
    assert paused("DELETE", f"/queues/{QUEUE}").status == 200
    assert paused("PUT", f"/{QUEUE}").status == 201
    assert paused("GET", f"/v1/queues/{QUEUE}").json["paused_at"] is None


@pytest.fixture
def library(tmp_path: Path) -> Iterator[GqClient]:
    """On the same file, without the server."""
    client = GqClient(f"sqlite:///{tmp_path}/data/penstock.db")
    yield client
    client.close()


def test_gq_waits_and_is_woken(paused: Talk, library: GqClient) -> None:
    seen: list[bytes] = []
    library.producer(QUEUE).push(b"pushed")
    consumer = library.consumer(QUEUE)
    with at_work(consumer, seen.append):
        # It has come, asked for messages and settled down to wait.
        wait_until(lambda: library._access._waiting)
        assert seen == []
        assert paused("GET", f"/v1/queues/{QUEUE}").json["count"]["ready"] == 2
        resume(paused)
        wait_until(lambda: len(seen) == 2)
    assert seen == [b"hello", b"pushed"]


def test_it_survives_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/own/penstock.db"
    since = None
    for verb, claimed in (("pause", []), (None, []), ("resume", ["hello"])):
        server = ThreadServer(store)
        try:
            with server.talk() as talk:
                if verb == "pause":
                    talk("PUT", f"/v1/queues/{QUEUE}")
                    talk("POST", f"/messages/{QUEUE}", b"hello")
                if verb is not None:
                    since = talk("POST", f"/v1/queues/{QUEUE}/{verb}").json["paused_at"]
                assert talk("GET", f"/v1/queues/{QUEUE}").json["paused_at"] == since
                assert by_native(talk, 0) == claimed
        finally:
            server.stop()
    assert since is None
