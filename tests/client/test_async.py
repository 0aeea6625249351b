"""What is the asyncio client's own: tasks that share it, cancellation, and loops that come and go."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.client import AsyncClient, Client
from penstock.client.response import Response
from penstock.client.transport import MOST_IDLE
from tests.client.test_transport import answer


async def test_tasks_that_share_a_client_get_their_own_answers(server):
    wrong = []

    async def work(client: AsyncClient, number: int) -> None:
        queue = f"q{number}"
        await client.create_queue(queue)
        for turn in range(10):
            sent = await client.send(queue, [number, turn])
            claimed = await client.claim(queue)
            found = [(it.queue, it.id, it.json) for it in claimed]
            if found != [(queue, sent, [number, turn])] or await client.ack(queue, claimed) != [True]:
                wrong.append(found)

    async with AsyncClient(server.url) as client:
        await asyncio.gather(*(work(client, number) for number in range(MOST_IDLE + 8)))
        assert len(client._pool._idle) <= MOST_IDLE
    assert wrong == []


async def test_a_cancelled_claim_takes_no_message_and_leaves_no_answer_behind(server):
    async with AsyncClient(server.url) as client:
        await client.create_queue("jobs")
        waiting = asyncio.create_task(client.claim("jobs", wait_ms=60_000))
        # Whether the server has begun to wait by now or not, the message must not go there.
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert client._pool._idle == []
        await client.send("jobs", "hello")
        assert [message.text for message in await client.claim("jobs", wait_ms=60_000)] == ["hello"]


def test_a_client_may_be_used_in_one_loop_after_another(server):
    client = AsyncClient(server.url)

    async def use() -> int:
        async with client:
            return len([queue async for queue in client.queues()])

    assert [asyncio.run(use()) for _ in range(3)] == [0, 0, 0]


async def test_the_end_of_a_kept_connection_is_seen_though_the_loop_was_busy(serve):
    server = serve()
    async with AsyncClient(server.url) as client:
        await client.create_queue("jobs")
        # In this very step of the loop, so that it cannot look: the server goes, and another comes.
        server.terminate()
        with server.kept_port() as port:
            serve(port=port)
        await client.send("jobs", "hello")
        assert [message.text for message in await client.claim("jobs")] == ["hello"]


@pytest.mark.parametrize(
    "text",
    [
        answer(200),
        answer(204, b""),
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"a;x\r\n0123456789\r\n10\r\nabcdefghijklmnop\r\n0\r\n\r\n",
    ],
)
def test_a_response_may_come_in_pieces_of_any_size(text):
    whole = Response()
    whole.feed(text)
    assert whole.answer is not None
    assert whole.reusable
    for size in (1, 2, 3, 7):
        response = Response()
        for start in range(0, len(text), size):
            assert response.answer is None
            response.feed(text[start : start + size])
        assert response.answer is not None
        assert (response.answer.status, response.answer.body) == (whole.answer.status, whole.answer.body)
        response.feed(b"more")
        assert not response.reusable


def test_a_thread_may_have_a_loop_and_a_client_of_its_own(server):
    found = []

    async def use() -> None:
        async with AsyncClient(server.url) as client:
            found.append([queue.name async for queue in client.queues()])

    with Client(server.url) as client:
        client.create_queue("jobs")
    threads = [threading.Thread(target=lambda: asyncio.run(use())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["jobs"]] * 3
