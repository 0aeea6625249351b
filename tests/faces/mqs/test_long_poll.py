"""Receives that wait: they wake at once when a message is sent, becomes due, or is released.

Each test would end only with the poll's own time limit, and empty-handed, if the wake-up were missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.faces.mqs.conftest import PLAIN
from tests.servers import ThreadServer
from tests.talk import Reply, Talk
from tests.waiting import wait_until

LONG = "19"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def poll(server: ThreadServer, queue: str, wait: str = LONG, **headers: str) -> Reply:
    with server.talk() as talk:
        return talk("GET", f"/messages/{queue}", x_mqs_max_wait_time=wait, **headers)


def wait_until_waiting(server: ThreadServer, count: int = 1, polls: Sequence[Future[Reply]] = ()) -> None:
    """Until the server has as many waiting claims: only then does an event have somebody to wake. On a machine that
    has stood still, what time brings about may have come before."""
    wait_until(lambda: len(server.waiting_claims()) >= count or any(poll.done() for poll in polls))


def polling(server: ThreadServer, pool: ThreadPoolExecutor, queue: str, count: int = 1) -> list[Future[Reply]]:
    polls = [pool.submit(poll, server, queue) for _ in range(count)]
    wait_until_waiting(server, count, polls)
    return polls


def test_a_send_wakes_a_poll(server: ThreadServer, talk: Talk, queue: str, pool: ThreadPoolExecutor) -> None:
    [waiting] = polling(server, pool, queue)
    talk("POST", "/messages/q", b"hello")
    assert waiting.result().body == b"hello"


def test_each_message_wakes_one_poll(server: ThreadServer, talk: Talk, queue: str, pool: ThreadPoolExecutor) -> None:
    waiting = polling(server, pool, queue, 4)
    for number in range(4):
        talk("POST", "/messages/q", str(number))
    assert sorted(reply.result().body for reply in waiting) == [b"0", b"1", b"2", b"3"]


def test_a_message_that_becomes_due_wakes_a_poll(server: ThreadServer, talk: Talk, pool: ThreadPoolExecutor) -> None:
    talk("PUT", "/queues/later", {**PLAIN, "message_delay": 1})
    talk("POST", "/messages/later", b"due")
    [waiting] = polling(server, pool, "later")
    assert waiting.result().body == b"due"


def test_a_delayed_send_wakes_a_poll_when_it_is_due(server: ThreadServer, talk: Talk, pool: ThreadPoolExecutor) -> None:
    talk("PUT", "/queues/later", {**PLAIN, "message_delay": 1})
    [waiting] = polling(server, pool, "later")
    talk("POST", "/messages/later", b"due")
    assert waiting.result().body == b"due"


def test_a_claim_that_runs_out_wakes_a_poll(server: ThreadServer, talk: Talk, pool: ThreadPoolExecutor) -> None:
    talk("PUT", "/queues/brief", {**PLAIN, "visibility_timeout": 1})
    talk("POST", "/messages/brief", b"again")
    talk("GET", "/messages/brief")
    [waiting] = polling(server, pool, "brief")
    assert waiting.result().headers["X-MQS-MESSAGE-RECEIVES"] == "2"


def test_a_release_wakes_a_poll(server: ThreadServer, talk: Talk, queue: str, pool: ThreadPoolExecutor) -> None:
    talk("POST", "/messages/q", b"back")
    [message] = talk("POST", "/v1/queues/q/claim", {}).json["messages"]
    [waiting] = polling(server, pool, queue)
    talk("POST", "/v1/queues/q/release", {"receipts": [message["receipt"]]})
    assert waiting.result().body == b"back"


def test_a_dead_letter_wakes_a_poll(server: ThreadServer, talk: Talk, queue: str, pool: ThreadPoolExecutor) -> None:
    policy = {"max_receives": 1, "dead_letter_queue": "q"}
    talk("PUT", "/queues/source", {**PLAIN, "visibility_timeout": 0, "redrive_policy": policy})
    talk("POST", "/messages/source", b"dead")
    talk("GET", "/messages/source")
    [waiting] = polling(server, pool, queue)
    talk("GET", "/messages/source")
    assert waiting.result().body == b"dead"


def test_a_poll_on_a_queue_that_is_deleted_ends_with_404(
    server: ThreadServer, talk: Talk, queue: str, pool: ThreadPoolExecutor
) -> None:
    [waiting] = polling(server, pool, queue)
    talk("DELETE", "/queues/q")
    assert waiting.result().status == 404


def test_a_poll_ends_empty_after_its_time(server: ThreadServer, queue: str) -> None:
    assert poll(server, queue, wait="1").status == 204


def test_a_client_that_goes_away_takes_no_message_with_it(server: ThreadServer, talk: Talk, queue: str) -> None:
    import socket
    from urllib.parse import urlsplit

    address = urlsplit(server.url)
    gone = socket.create_connection((address.hostname, address.port))
    gone.sendall(b"GET /messages/q HTTP/1.1\r\nHost: localhost\r\nX-MQS-MAX-WAIT-TIME: 19\r\n\r\n")
    wait_until_waiting(server)
    gone.close()
    wait_until(lambda: not server.waiting_claims())
    talk("POST", "/messages/q", b"still here")
    assert talk("GET", "/messages/q").body == b"still here"


def test_a_poll_takes_what_there_is_at_once(server: ThreadServer, talk: Talk, queue: str) -> None:
    talk("POST", "/messages/q", b"1")
    talk("POST", "/messages/q", b"2")
    reply = poll(server, queue, x_mqs_max_messages="10")
    assert reply.body.count(b"X-MQS-MESSAGE-ID") == 2


def test_a_graceful_stop_ends_polls_with_204(server: ThreadServer, queue: str, pool: ThreadPoolExecutor) -> None:
    waiting = polling(server, pool, queue, 3)
    server.stop()
    assert [reply.result().status for reply in waiting] == [204, 204, 204]
