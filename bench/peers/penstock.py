"""Penstock itself, on SQLite: single messages by way of mqs, batches by the native API in JSON or in Arrow."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from bench import servers
from bench.peers.peer import BATCH, BODY, Peer, Running, spoken
from bench.wire import Step, Worker

ARROW = "application/vnd.apache.arrow.stream"
_RECEIPT = re.compile(rb'"receipt":"([^"]+)"')
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


def request(line: str, body: bytes, *headers: str) -> bytes:
    head = "\r\n".join([f"{line} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers])
    return f"{head}\r\n\r\n".encode() + body


def is_whole(reply: bytes) -> bool:
    end = reply.find(b"\r\n\r\n")
    if end < 0:
        return False
    length = _LENGTH.search(reply, 0, end + 2)
    return len(reply) >= end + 4 + (int(length[1]) if length else 0)


def checked(reply: bytes) -> bytes:
    assert reply.startswith(b"HTTP/1.1 2"), reply[:300]
    return reply


def stream(**columns: pa.Array) -> bytes:
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


class Native:
    """Each queue is made by the first who asks for it; `arrow` is the format of the batches."""

    def __init__(self, queue: str = "q", *, arrow: bool = False) -> None:
        self._path = f"/v1/queues/{queue}"
        self._arrow = arrow

    def greet(self, connection: socket.socket, number: int) -> None:
        if number == 0:
            connection.sendall(request(f"PUT {self._path}", b'{"visibility_ms": 600000}'))
            connection.recv(1_000)  # it may be there

    def send(self, number: int) -> Worker:  # noqa: ARG002
        """By way of mqs, whose sends are single ones."""
        path = self._path.replace("/v1/queues/", "/messages/")
        step = Step(request(f"POST {path}", BODY, "Content-Type: application/octet-stream"), is_whole, 1)
        while True:
            checked((yield step))

    def cycle(self, number: int) -> Worker:  # noqa: ARG002
        path = self._path.replace("/v1/queues/", "/messages/")
        send = Step(request(f"POST {path}", BODY, "Content-Type: application/octet-stream"), is_whole)
        claim = Step(request(f"GET {path}", b""), is_whole)
        name = re.compile(rb"(?i)\r\nx-mqs-message-id: *(\S+)")
        while True:
            checked((yield send))
            found = name.search((yield claim))
            assert found
            checked((yield Step(request(f"DELETE /messages/{found[1].decode()}", b""), is_whole, 1)))

    def send_batches(self, number: int) -> Worker:  # noqa: ARG002
        if self._arrow:
            body = stream(body=pa.array([BODY] * BATCH, pa.binary()))
            form = ARROW
        else:
            body = json.dumps({"messages": [{"body": BODY.decode()}] * BATCH}).encode()
            form = "application/json"
        step = Step(request(f"POST {self._path}/messages", body, f"Content-Type: {form}"), is_whole, BATCH)
        while True:
            checked((yield step))

    def claim_batches(self, number: int) -> Worker:  # noqa: ARG002
        asked = json.dumps({"limit": BATCH}).encode()
        accepted = [f"Accept: {ARROW}"] if self._arrow else []
        claim = Step(request(f"POST {self._path}/claim", asked, *accepted), is_whole)
        while True:
            reply = checked((yield claim))
            if self._arrow:
                table = pa.ipc.open_stream(pa.py_buffer(reply)[reply.index(b"\r\n\r\n") + 4 :]).read_all()
                count, form = table.num_rows, [f"Content-Type: {ARROW}"]
                body = stream(receipt=table["receipt"].combine_chunks()) if count else b""
            else:
                receipts = _RECEIPT.findall(reply)
                count, form = len(receipts), []
                body = b'{"receipts":["%s"]}' % b'","'.join(receipts)
            if not count:
                return
            checked((yield Step(request(f"POST {self._path}/ack", body, *form), is_whole, count)))


@contextmanager
def run(folder: Path) -> Iterator[Running]:
    with servers.penstock(folder) as (url, process):
        yield spoken(Native(arrow=True), servers.port_of(url), process.pid)


PENSTOCK = Peer("Penstock", "SQLite; single messages over mqs, batches over the native API in Arrow", lambda: "", run)
