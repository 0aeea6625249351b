"""The load that drives the peers: replies in pieces, workers that end, and who was busy."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress

import pytest

from bench import wire
from bench.servers import cpu_seconds
from bench.wire import Step, drive, latencies, lines, percentile


class Echo:
    """Every line that comes in goes out again, in two pieces."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._threads.append(threading.Thread(target=self._talk, args=(connection,)))
            self._threads[-1].start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, suppress(ConnectionError):  # a load whose time is over does not wait for its answer
            while data := connection.recv(1000):
                connection.sendall(data[:2])
                connection.sendall(data[2:])

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def echo():
    server = Echo()
    yield server
    server.close()


class Talk:
    def __init__(self, most: int) -> None:
        self.most = most
        self.greeted: list[int] = []
        self.replies: list[bytes] = []

    def greet(self, connection: socket.socket, number: int) -> None:
        self.greeted.append(number)

    def work(self, number: int) -> wire.Worker:
        for turn in range(self.most):
            self.replies.append((yield Step(b"%d %d\r\n" % (number, turn), lines(1), 1)))


def test_workers_are_driven_until_they_have_nothing_left(echo):
    talk = Talk(5)
    rate = drive(echo.port, talk, talk.work, 3, 60, os.getpid())
    assert talk.greeted == [0, 1, 2]
    assert sorted(talk.replies) == sorted(b"%d %d\r\n" % (number, turn) for number in range(3) for turn in range(5))
    assert rate.per_second > 0


def test_or_until_the_time_is_over(echo):
    talk = Talk(10**9)
    rate = drive(echo.port, talk, talk.work, 2, 1, os.getpid())
    assert 0 < len(talk.replies) < 10**9
    assert rate.per_second > 0


def test_latencies_are_those_of_one_connection(echo):
    talk = Talk(10**9)
    times = latencies(echo.port, talk, talk.work, 1)
    assert talk.greeted == [0]
    assert len(times) == len(talk.replies)
    assert times == sorted(times)
    assert all(taken > 0 for taken in times)


def test_a_percentile_is_one_of_the_values():
    hundred = [float(number) for number in range(1, 101)]
    assert percentile(hundred, 0.5) == 51
    assert percentile(hundred, 0.99) == 100
    assert percentile([7.0], 0.99) == 7


def test_a_line_is_whole_with_its_end():
    assert lines(2)(b":1\r\n:1\r\n")
    assert not lines(2)(b":1\r\n:1\r")
    assert not lines(2)(b":1\r\n")


def test_the_time_of_a_process_grows_with_what_it_does():
    before = cpu_seconds(os.getpid())
    own = time.process_time()
    while time.process_time() - own < 0.1:
        pass
    assert cpu_seconds(os.getpid()) - before >= 0.05
