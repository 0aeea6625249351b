"""The queues of gq are those of the server: messages pass between the library and the HTTP APIs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from penstock.gq import Client
from penstock.gq.timings import GqTimings
from tests.gq.conftest import at_work, bodies, until
from tests.servers import ThreadServer
from tests.talk import Talk


@pytest.fixture
def server(url: str) -> Iterator[ThreadServer]:
    running = ThreadServer(url)
    yield running
    running.stop()


@pytest.fixture
def talk(server: ThreadServer) -> Iterator[Talk]:
    with server.talk() as talk:
        yield talk


def test_pushed_here_and_received_there(client: Client, talk: Talk):
    with client.producer("q", batch=2) as producer:
        pushed = [producer.push(b"1"), producer.push(b"2")]
    received = talk("GET", "/messages/q")
    assert (received.status, received.body) == (200, b"1")
    assert client.status(pushed[0]) == "consumed"
    assert received.headers["X-MQS-MESSAGE-ID"] == pushed[0]
    assert talk("DELETE", f"/messages/{pushed[0]}").status == 204
    assert [client.status(one) for one in pushed] == ["processed", "queued"]


def test_released_there_with_a_delay_and_queued_here(client: Client, talk: Talk):
    pushed = client.producer("q").push(b"x")
    [claimed] = talk("POST", "/v1/queues/q/claim", {}).json["messages"]
    assert client.status(pushed) == "consumed"
    talk("POST", "/v1/queues/q/release", {"receipts": [claimed["receipt"]], "delay_ms": 3_600_000})
    assert client.status(pushed) == "queued"


def test_sent_there_and_processed_here(client: Client, talk: Talk):
    assert talk("PUT", "/q").status == 201
    sent = talk("POST", "/q/messages", b"x").headers["X-Message-Id"]
    assert client.status(sent) == "queued"
    assert bodies(client, 1, queue="q") == [b"x"]
    assert client.status(sent) == "processed"
    assert talk("GET", "/q/messages").status == 204


def test_a_waiting_consumer_hears_of_a_message_sent_there(client: Client, talk: Talk):
    seen = []
    talk("PUT", "/q")
    with at_work(client.consumer("q"), seen.append):
        for number in range(3):
            talk("POST", "/q/messages", str(number))
            until(lambda: len(seen) == number + 1)  # noqa: B023
    assert seen == [b"0", b"1", b"2"]


def test_what_a_consumer_holds_is_not_handed_out_there(client: Client, talk: Talk):
    client.producer("q").push(b"x")
    seen = []
    with at_work(client.consumer("q", dead_after_s=600), lambda _: seen.append(talk("GET", "/q/messages").status)):
        until(lambda: seen)
    assert seen == [204]


def test_what_happens_here_is_in_the_figures_there(opened: Callable[..., Client], talk: Talk):
    def totals() -> dict[str, int]:
        return {
            name: number
            for row in talk("GET", "/v1/overview?contains=q").json["rows"]
            for name, number in row["totals"].items()
            if number
        }

    client = opened(timings=GqTimings(figures_s=0))
    with client.producer("q", batch=3) as producer:
        for number in range(5):
            producer.push(b"%d" % number)
    until(lambda: totals() == {"sent": 5}, "the sends of a client that stays open")
    assert len(bodies(client, 5, queue="q")) == 5
    until(lambda: totals() == {"sent": 5, "claimed": 5, "acked": 5}, "claims and acks")
    until(lambda: sum(talk("GET", "/v1/queues/q/history").json["sent"]) == 5, "their history")


def test_a_client_that_closes_leaves_nothing_uncounted(opened: Callable[..., Client], talk: Talk):
    talk("PUT", "/v1/queues/q", {})
    client = opened(timings=GqTimings(figures_s=3_600))
    for number in range(3):
        client.producer("q").push(b"%d" % number)
    until(lambda: talk("GET", "/v1/overview").json["rows"][0]["totals"]["sent"] == 1, "what went with the first unit")
    client.close()
    until(lambda: talk("GET", "/v1/overview").json["rows"][0]["totals"]["sent"] == 3)
