"""A client that dies in the middle of anything leaves nothing behind: real sockets, cut at that moment."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from penstock.limits import Limits
from tests.servers import ThreadServer
from tests.talk import Talk
from tests.waiting import wait_until

# So that what a test asks for takes many units.
LIMITS = Limits(step_rows=1, claim_rows=1, shipment_step_rows=1, export_count_rows=1)
MANY = 60


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadServer]:
    server = ThreadServer(f"sqlite:///{tmp_path}/s.db", limits=LIMITS)
    yield server
    server.stop()


@pytest.fixture
def talk(server: ThreadServer) -> Iterator[Talk]:
    with server.talk() as talk:
        assert talk("PUT", "/v1/queues/q", b"{}").status == 201
        yield talk


@pytest.fixture(params=["closed", "reset"])
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def fill(talk: Talk, count: int = MANY, queue: str = "q") -> None:
    body = {"messages": [{"body": str(number)} for number in range(count)]}
    assert talk("POST", f"/v1/queues/{queue}/messages", body).status == 201


def begun(server: ThreadServer, method: str, path: str, body: bytes = b"", length: int | None = None) -> socket.socket:
    """A request that was sent, up to here."""
    address = urlsplit(server.url)
    opened = socket.create_connection((address.hostname, address.port))
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body) if length is None else length}\r\n"
    )
    extra = "Idempotency-Key: once\r\nContent-Type: application/json\r\n" if path.startswith("/v1") else ""
    extra += "Content-Type: multipart/mixed; boundary=b\r\n" if b"--b" in body else ""
    opened.sendall((head + extra + "\r\n").encode() + body)
    return opened


def cut(opened: socket.socket, how: str) -> None:
    if how == "reset":
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    opened.close()


def nothing_is_left(server: ThreadServer) -> bool:
    """Of the client: not its connection, nor the room of its body, nor anything that waits for it."""
    listeners = [front._listener for front in server.fronts]
    return (
        sum(listener.connections for listener in listeners) <= 1
        and not any(listener.body_bytes for listener in listeners)
        and not server.waiting_claims()
    )


def total(talk: Talk, queue: str = "q") -> dict[str, int]:
    found: dict[str, int] = talk("GET", f"/v1/queues/{queue}").json["count"]
    return found


HALF = {
    "a keyed send": ("POST", "/v1/queues/q/messages", b'{"messages":[{"body":"' + b"x" * 200_000),
    "a multipart send": ("POST", "/messages/q", b"--b\r\n\r\n" + b"x" * 200_000),
    "a message of mqs": ("POST", "/messages/q", b"x" * 200_000),
    "a batch of EmoDB": ("POST", "/queue/1/q/sendbatch", b"[" + b"1," * 100_000),
    "a request of SQS": ("POST", "/", b"Action=SendMessage&MessageBody=" + b"x" * 200_000),
    "the filter of a move": ("POST", "/v1/moves", b'{"source":"q",' + b" " * 60_000),
}


@pytest.mark.parametrize("what", HALF)
def test_half_a_body(server: ThreadServer, talk: Talk, what: str, how: str) -> None:
    method, path, body = HALF[what]
    opened = begun(server, method, path, body, length=len(body) + 100_000)
    if len(body) > 100_000:
        wait_until(lambda: any(front._listener.body_bytes for front in server.fronts))
    cut(opened, how)
    wait_until(lambda: nothing_is_left(server))
    assert total(talk)["total"] == 0
    again = talk("POST", "/v1/queues/q/messages", {"messages": [{"body": "whole"}]}, Idempotency_Key="once")
    assert (again.status, total(talk)["total"]) == (201, 1)


POLLS = {
    "native": ("POST", "/v1/queues/q/claim", b'{"wait_ms":60000}'),
    "with an attempt": ("POST", "/v1/queues/q/claim", b'{"wait_ms":60000,"attempt":"a"}'),
}


@pytest.mark.parametrize("what", POLLS)
def test_a_long_poll(server: ThreadServer, talk: Talk, what: str, how: str) -> None:
    opened = begun(server, *POLLS[what])
    wait_until(server.waiting_claims)
    cut(opened, how)
    wait_until(lambda: nothing_is_left(server))
    fill(talk, 1)
    assert total(talk)["ready"] == 1


def test_a_claim_of_a_shipment(server: ThreadServer, talk: Talk, how: str) -> None:
    fill(talk)
    asked = json.dumps({"limit": MANY, "hold_ms": 60_000}).encode()
    opened = begun(server, "PUT", "/v1/queues/q/shipments/c/1", asked)
    wait_until(lambda: total(talk)["ready"] < MANY)
    cut(opened, how)
    wait_until(lambda: nothing_is_left(server))
    # It has come to its end, and the one that claims it again has it.
    wait_until(lambda: talk("GET", "/v1/queues/q/shipments/c/1").json["state"] == "open")
    assert talk("PUT", "/v1/queues/q/shipments/c/1", asked).json["messages"] == MANY
    # If no one does, it is lost when its time has run out, and its messages are ready.
    server.clock.advance(61)
    wait_until(lambda: total(talk)["ready"] == MANY)
    assert talk("GET", "/v1/queues/q/shipments/c/1").json["state"] == "lost"


@pytest.mark.parametrize("end", ["settle", "release"])
def test_the_end_of_a_shipment(server: ThreadServer, talk: Talk, end: str, how: str) -> None:
    fill(talk)
    path = "/v1/queues/q/shipments/c/1"
    assert talk("PUT", path, {"limit": MANY, "hold_ms": 60_000}).status == 201
    opened = begun(server, "POST", f"{path}/{end}", b"{}")
    wait_until(lambda: talk("GET", path).json["state"] != "open")
    cut(opened, how)
    wait_until(lambda: nothing_is_left(server))
    wait_until(lambda: total(talk)["claimed"] == 0)
    assert total(talk)["ready"] == (0 if end == "settle" else MANY)


def test_a_purge_and_an_export(server: ThreadServer, talk: Talk, how: str) -> None:
    """What was accepted is done to its end."""
    fill(talk)
    opened = begun(server, "POST", "/v1/queues/q/purge", b"{}")
    wait_until(lambda: total(talk)["total"] < MANY)
    cut(opened, how)
    wait_until(lambda: nothing_is_left(server) and total(talk)["total"] == 0)
    export = "/v1/ledger/exports/c/1"
    cut(begun(server, "PUT", export, json.dumps({"limit": MANY}).encode()), how)
    wait_until(lambda: nothing_is_left(server))
    # Half counted, nothing is claimed; claimed, it is there for the next who asks.
    assert talk("PUT", export, {"limit": MANY}).json["rows"] == MANY
    assert talk("POST", f"{export}/settle", b"{}").status == 200


def test_a_move(server: ThreadServer, talk: Talk, how: str) -> None:
    assert talk("PUT", "/v1/queues/to", b"{}").status == 201
    fill(talk)
    asked = b'{"source":"q","target":"to"}'
    opened = begun(server, "POST", "/v1/moves", asked)
    wait_until(lambda: talk("GET", "/v1/moves").json["moves"])
    cut(opened, how)
    wait_until(lambda: nothing_is_left(server))
    wait_until(lambda: total(talk, "to")["total"] == MANY)
    wait_until(lambda: talk("GET", "/v1/moves").json["moves"][0]["status"] == "complete")


def test_a_claim_with_an_attempt_is_had_again(server: ThreadServer, talk: Talk, how: str) -> None:
    fill(talk, 2)
    asked = b'{"limit":1,"hold_ms":60000,"attempt":"a"}'
    opened = begun(server, "POST", "/v1/queues/q/claim", asked)
    wait_until(lambda: total(talk)["claimed"] == 1)
    cut(opened, how)
    wait_until(lambda: nothing_is_left(server))
    [message] = talk("POST", "/v1/queues/q/claim", asked).json["messages"]
    assert (message["body"], total(talk)["ready"]) == ("0", 1)
