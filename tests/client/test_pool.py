"""One client for many threads, and for processes that were forked with it: each caller gets its own answers."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from penstock.client import Client
from penstock.client.transport import MOST_IDLE
from tests.waiting import wait_until

THREADS = 6
ROUNDS = 50


@pytest.fixture
def client(server) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


def in_threads(count: int, task: Callable[[int], None]) -> None:
    """Runs the task with every number, all at once, and raises what one of them raised."""
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            task(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in failed:
        raise error


def test_threads_that_share_a_client_get_their_own_answers(client):
    wrong = []

    def work(number: int) -> None:
        queue = f"q{number}"
        if client.create_queue(queue).name != queue:
            wrong.append(queue)
        for turn in range(ROUNDS):
            sent = client.send(queue, f"{number}/{turn}")
            claimed = client.claim(queue)
            found = [(it.queue, it.id, it.text) for it in claimed]
            if found != [(queue, sent, f"{number}/{turn}")] or client.ack(queue, claimed) != [True]:
                wrong.append(found)

    in_threads(THREADS, work)
    assert wrong == []
    assert sum(client.queue(f"q{number}").count.total for number in range(THREADS)) == 0


def test_a_wait_holds_up_no_other_thread(client):
    client.create_queue("slow")
    client.create_queue("quick")
    got = []
    waiting = threading.Thread(target=lambda: got.extend(client.claim("slow", wait_ms=60_000)))
    waiting.start()
    for _ in range(5):
        client.send("quick", "x")
    client.send("slow", "at last")
    waiting.join()
    assert [message.text for message in got] == ["at last"]


def test_only_so_many_connections_are_kept(client):
    client.create_queue("jobs")
    together = threading.Barrier(MOST_IDLE + 5)

    def work(_number: int) -> None:
        together.wait()
        client.claim("jobs", wait_ms=100)

    in_threads(together.parties, work)
    assert 1 <= len(client._pool._idle) <= MOST_IDLE
    assert not client._pool._busy


def test_close_leaves_a_request_in_progress_alone(client):
    client.create_queue("jobs")
    got = []
    waiting = threading.Thread(target=lambda: got.extend(client.claim("jobs", wait_ms=60_000)))
    waiting.start()
    wait_until(lambda: client._pool._busy)
    client.close()
    with Client(client._pool.address.url) as other:
        other.send("jobs", "hello")
    waiting.join()
    assert [message.text for message in got] == ["hello"]
    assert client._pool._idle == []
    assert client.queue("jobs").count.claimed == 1


def run(program: str, *arguments: str) -> str:
    """The program in a process of its own: pytest's has threads that a fork would not like."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


FORKED_WORKERS = """
import os, sys
from penstock.client import Client

client = Client(sys.argv[1])
for number in range(5):
    client.create_queue(f"q{number}")

def work(number):
    wrong = 0
    queue = f"q{number}"
    for turn in range(50):
        sent = client.send(queue, f"{number}/{turn}")
        [message] = client.claim(queue) or [None]
        if message is None or (message.id, message.text) != (sent, f"{number}/{turn}"):
            wrong += 1
        elif client.ack(queue, message) != [True]:
            wrong += 1
    return wrong

children = []
for number in range(4):
    child = os.fork()
    if not child:
        try:
            wrong = work(number)
        except BaseException:
            wrong = 99
        os._exit(min(wrong, 99))
    children.append(child)
wrong = work(4) + sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
print(wrong)
"""


def test_forked_workers_get_their_own_answers(server):
    assert run(FORKED_WORKERS, server.url) == "0\n"


FORK_DURING_A_WAIT = """
import os, sys, threading, time
from penstock.client import Client

client = Client(sys.argv[1])
client.create_queue("jobs")
client.create_queue("other")
got = []
waiting = threading.Thread(target=lambda: got.extend(client.claim("jobs", wait_ms=60_000)))
waiting.start()
while not any(connection.is_open for connection in list(client._pool._busy)):
    time.sleep(0.001)
child = os.fork()
if not child:
    os._exit(7 if client.send("other", "from the child") else 8)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert [message.text for message in client.claim("other")] == ["from the child"]
client.send("jobs", "still there")
waiting.join()
print(got[0].text)
"""


def test_a_fork_while_a_thread_waits_for_an_answer(server):
    assert run(FORK_DURING_A_WAIT, server.url) == "still there\n"


FORK_AND_CLOSE = """
import os, sys
from penstock.client import Client

client = Client(sys.argv[1])
list(client.queues())
read, write = os.pipe()
child = os.fork()
if not child:
    os.close(write)
    os.read(read, 1)
    os._exit(0)
client.close()
sys.stdin.read()
os.close(write)
os.waitpid(child, 0)
"""


def test_a_child_does_not_keep_its_parents_connection_open():
    reply = b'HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n{"total": 0, "queues": []}'
    with socket.create_server(("127.0.0.1", 0)) as gate:
        gate.settimeout(60)
        url = f"http://127.0.0.1:{gate.getsockname()[1]}"
        process = subprocess.Popen([sys.executable, "-c", FORK_AND_CLOSE, url], stdin=subprocess.PIPE)
        with process:
            connection, _ = gate.accept()
            with connection:
                connection.settimeout(60)
                assert connection.recv(65536).startswith(b"GET ")
                connection.sendall(reply)
                # The parent has closed it, and the child is still alive.
                assert connection.recv(65536) == b""
            process.stdin.close()
        assert process.returncode == 0


@pytest.mark.parametrize("closed", [False, True])
def test_a_client_that_is_forgotten_leaves_no_warning(server, closed):
    client = Client(server.url)
    list(client.queues())
    if closed:
        client.close()
    del client
