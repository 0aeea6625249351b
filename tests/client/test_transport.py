"""The connection: kept, opened again when that is safe, and never asked twice to do something once."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from penstock.client import AsyncClient, Client, ServerFailed, Unauthorized, Unavailable, UnexpectedAnswer, Unreachable
from tests.waiting import wait_until

QUEUES = b'{"total": 0, "queues": []}'


class Listener:
    """Plays one script per connection, for faults that a good server does not have on order.

    A script is a list of answers: bytes to write after a request was read. The connection closes at the end
    of the script.
    """

    def __init__(self, *scripts: list[bytes]) -> None:
        self.requests: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._play, args=(scripts,))
        self._thread.start()

    def _play(self, scripts: tuple[list[bytes], ...]) -> None:
        for script in scripts:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                for answer in script:
                    request = connection.recv(65536)
                    if not request:
                        break
                    self.requests.append(request.split(b"\r\n", 1)[0])
                    connection.sendall(answer)

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def listen() -> Iterator[Callable[..., Listener]]:
    started = []

    def listen(*scripts: list[bytes]) -> Listener:
        started.append(Listener(*scripts))
        return started[-1]

    yield listen
    for listener in started:
        listener.stop()


def answer(status: int, body: bytes = QUEUES, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 %d Some" % status, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def test_one_connection_serves_many_requests(listen, connect):
    listener = listen([answer(200)] * 3)
    with connect(listener.url) as client:
        for _ in range(3):
            assert list(client.queues()) == []
    assert len(listener.requests) == 3


def test_a_connection_that_the_server_closed_is_opened_anew(serve, connect):
    server = serve()
    with connect(server.url) as client:
        client.create_queue("jobs")
        server.terminate()
        with server.kept_port() as port:
            again = serve(port=port)
        assert again.url == server.url
        # Not repeatable, yet safe: the end of the old connection was seen before a byte was sent.
        client.send("jobs", "hello")
        assert [message.text for message in client.claim("jobs")] == ["hello"]


def test_a_look_is_repeated_once_when_a_kept_connection_breaks(listen, connect):
    # The empty answer: the connection breaks after the request has arrived.
    listener = listen([answer(200), b""], [answer(200)])
    with connect(listener.url) as client:
        assert list(client.queues()) == []
        assert list(client.queues()) == []
    assert len(listener.requests) == 3


def test_a_send_is_never_repeated(listen, connect):
    listener = listen([answer(200), b""], [answer(201, b'{"sent": []}')])
    with connect(listener.url) as client:
        assert list(client.queues()) == []
        with pytest.raises(Unreachable, match="lost the connection") as caught:
            client.send("jobs", "once")
        assert caught.value.sent
        assert [line.split()[0] for line in listener.requests] == [b"GET", b"POST"]
        client.send_many("jobs", ["the next call connects again"])


def test_a_fresh_connection_that_breaks_is_not_repeated(listen, connect):
    listener = listen([b""], [answer(200)])
    with connect(listener.url) as client, pytest.raises(Unreachable):
        list(client.queues())
    assert len(listener.requests) == 1


def test_a_server_that_dies_during_a_claim_is_unreachable(serve, connect):
    server = serve()
    with connect(server.url) as client:
        client.create_queue("jobs")
        killer = threading.Thread(target=lambda: (wait_until(server.waiting_claims), server.kill()))
        killer.start()
        with pytest.raises(Unreachable) as caught:
            client.claim("jobs", wait_ms=60_000)
        killer.join()
        assert caught.value.sent
        with pytest.raises(Unreachable, match="cannot reach") as caught:
            client.claim("jobs")
        assert not caught.value.sent


def test_no_answer_in_time(connect):
    gate = socket.create_server(("127.0.0.1", 0))
    with gate, connect(f"http://127.0.0.1:{gate.getsockname()[1]}", timeout_s=2) as client:
        with pytest.raises(Unreachable, match=r"no answer from .* within 2 s") as caught:
            list(client.queues())
        assert caught.value.sent


def test_a_late_answer_is_never_taken_for_the_next(listen, connect):
    # The second answer comes with the first: something in between is confused, and the connection is left.
    listener = listen([answer(200) + answer(500, b"{}")], [answer(200)])
    with connect(listener.url) as client:
        assert list(client.queues()) == []
        assert list(client.queues()) == []


def test_try_again_says_when(listen, connect):
    listener = listen([answer(503, b'{"error": "busy"}', b"Retry-After: 7"), answer(503, b"<html>")])
    with connect(listener.url) as client:
        with pytest.raises(Unavailable, match="busy") as caught:
            client.queue("jobs")
        assert (caught.value.retry_after_s, caught.value.status) == (7, 503)
        with pytest.raises(Unavailable, match="answered 503") as caught:
            client.queue("jobs")
        assert caught.value.retry_after_s == 1


def test_other_statuses_have_their_errors(listen, connect):
    listener = listen([answer(500, b'{"error": "oh"}'), answer(502, b"<html>"), answer(401, b'{"error": "key"}')])
    with connect(listener.url) as client:
        with pytest.raises(ServerFailed, match="oh"):
            client.queue("jobs")
        with pytest.raises(ServerFailed, match="answered 502"):
            client.queue("jobs")
        with pytest.raises(Unauthorized, match="key"):
            client.queue("jobs")


@pytest.mark.parametrize(
    "reply",
    [
        answer(200, b"<html>"),
        answer(200, b"[]"),
        answer(200, b"{}"),
        answer(404, b"not here"),
        answer(302, b"", b"Location: /"),
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
def test_whatever_is_no_penstock_server_is_named(listen, reply, connect):
    listener = listen([reply])
    with connect(listener.url) as client, pytest.raises(UnexpectedAnswer, match=listener.url):
        client.queue("jobs")


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'9\r\n{"total":\r\n2;x=y\r\n 0\r\nF\r\n, "queues": []}\r\n0\r\nTrailer: t\r\n\r\n',
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + QUEUES,
        b"HTTP/1.0 200 OK\r\nContent-Length: 26\r\n\r\n" + QUEUES,
        b"HTTP/1.1 100 Continue\r\n\r\n" + answer(200),
    ],
    ids=["chunked", "until the end", "1.0", "continue"],
)
def test_answers_come_in_every_framing(listen, connect, reply):
    listener = listen([reply], [answer(200)])
    with connect(listener.url) as client:
        assert list(client.queues()) == []
        assert list(client.queues()) == []
    assert len(listener.requests) == 2


def test_an_answer_that_breaks_off_is_lost(listen, connect):
    listener = listen([answer(200)[:-5]])
    with connect(listener.url) as client, pytest.raises(Unreachable):
        list(client.queues())


def test_the_key_and_the_path_of_the_address_are_sent(connect):
    with socket.create_server(("127.0.0.1", 0)) as gate:
        heads = []

        def take() -> None:
            connection, _ = gate.accept()
            with connection:
                heads.append(connection.recv(65536))
                connection.sendall(answer(200))

        thread = threading.Thread(target=take)
        thread.start()
        with connect(f"http://127.0.0.1:{gate.getsockname()[1]}/queues/", "s3cret") as client:
            list(client.queues())
        thread.join()
    assert heads[0].startswith(b"GET /queues/v1/queues?offset=0&limit=")
    assert b"\r\nAuthorization: Bearer s3cret\r\n" in heads[0]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8080",
        "ftp://x",
        "http://",
        "http://u:p@x",
        "http://x?a",
        "http://x:99999",
        "http://x:y",
    ],
)
def test_an_address_that_is_none_is_refused_at_once(url):
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match=r"address|ort"):
            kind(url)


def test_a_key_that_would_break_a_header_is_refused():
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match="printable ASCII"):
            kind(api_key="a\r\nX: y")
