"""The wire repeats what may be repeated, says what a server says, and never shows its key."""

from __future__ import annotations

import logging
import pickle
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.spark.heartbeat import Heartbeat
from penstock.spark.wire import Conflict, Ended, Failed, Refused, SentOnce, Unreachable, Wire
from tests.servers import ThreadServer


def drafts(*bodies: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"body": list(bodies)})


def read(wire: Wire, number: int, start: int = 0, stop: int = 1_000_000) -> list[bytes]:
    return [body for batch in wire.read_shipment("q", "c", number, start, stop) for body in batch["body"].to_pylist()]


def test_queues(wire: Wire) -> None:
    wire.create_queue("q")
    wire.create_queue("r", {"visibility_ms": 5_000})
    assert [queue["name"] for queue in wire.queues()] == ["q", "r"]
    assert wire.queue("r")["settings"]["visibility_ms"] == 5_000
    with pytest.raises(Refused) as caught:
        wire.queue("nowhere")
    assert caught.value.status == 404
    for name in ("", ".", ".."):
        with pytest.raises(Refused):
            wire.queue(name)


def test_a_send_with_a_key_is_stored_once(wire: Wire) -> None:
    assert wire.send("q", drafts("a", "b"), "k") == SentOnce(2, 2, repeated=False)
    assert wire.send("q", drafts("a", "b"), "k") == SentOnce(2, 2, repeated=True)
    with pytest.raises(Conflict) as caught:
        wire.send("q", drafts("b", "a"), "k")
    assert caught.value.expected is None
    assert wire.peek("q")[0]["body"].to_pylist() == [b"a", b"b"]


def test_peeking_page_by_page(wire: Wire) -> None:
    wire.send("q", drafts(*map(str, range(5))), "k")
    found, after = [], None
    while True:
        batch, after = wire.peek("q", limit=2, after=after)
        found += batch["body"].to_pylist()
        if after is None:
            break
    assert found == [b"0", b"1", b"2", b"3", b"4"]
    assert wire.peek("q", after="0-5")[0].num_rows == 0


def test_the_life_of_a_shipment(wire: Wire) -> None:
    assert wire.next_shipment("q", "c") == 1
    assert wire.claim_shipment("q", "c", 1, 10, 60_000) is None
    assert wire.shipment("q", "c", 1) is None
    wire.send("q", drafts(*map(str, range(5))), "k")
    claimed = wire.claim_shipment("q", "c", 1, 3, 60_000)
    assert claimed is not None
    assert (claimed.state, claimed.messages, claimed.bytes) == ("open", 3, 3)
    assert wire.next_shipment("q", "c") == 1
    assert wire.shipment("q", "c", 1) == wire.shipments("q")[0] == wire.shipments("q", "c")[0]
    assert read(wire, 1) == [b"0", b"1", b"2"]
    assert read(wire, 1, 1, 2) == [b"1"]
    assert read(wire, 1, 3, 9) == []
    with pytest.raises(Conflict) as caught:
        wire.claim_shipment("q", "c", 2, 3, 60_000)
    assert caught.value.expected == 1
    assert wire.settle_shipment("q", "c", 1, keep=True).state == "settled"
    assert read(wire, 1) == [b"0", b"1", b"2"]
    assert wire.next_shipment("q", "c") == 2
    with pytest.raises(Ended) as ended:
        wire.claim_shipment("q", "c", 1, 3, 60_000)
    assert ended.value.how == "settled"
    wire.claim_shipment("q", "c", 2, 3, 60_000)
    assert wire.release_shipment("q", "c", 2).state == "released"
    assert wire.next_shipment("q", "c") == 3
    with pytest.raises(Ended) as ended:
        read(wire, 2)
    assert ended.value.how == "released"


def test_exports_of_the_ledger(wire: Wire) -> None:
    assert wire.claim_export("e", wire.next_export("e"), 100) is None
    wire.send("q", drafts(*map(str, range(5))), "k")
    wire.claim_shipment("q", "c", 1, 5, 60_000)
    wire.settle_shipment("q", "c", 1)
    export = wire.claim_export("e", 1, 100)
    assert export is not None
    assert export.rows == 5
    assert wire.next_export("e") == 1
    batches = list(wire.read_export("e", 1, export.after, export.through))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["outcome"] for row in rows] == ["processed"] * 5
    assert sum(batch.num_rows for batch in wire.read_export("e", 1, rows[0]["number"], rows[2]["number"])) == 2
    assert wire.settle_export("e", 1).settled_at is not None
    assert wire.next_export("e") == 2
    assert [it.number for it in wire.exports()] == [it.number for it in wire.exports("e")] == [1]
    first, after = wire.ledger(0, 2)
    assert first["number"].to_pylist() == [row["number"] for row in rows[:2]]
    assert after == rows[1]["number"]


def test_it_waits_for_a_server_that_comes_back(tmp_path: Path, serve: Callable[..., object]) -> None:
    first = serve()
    port = int(first.url.rpartition(":")[2])
    with Wire(first.url, patience_s=60) as wire:
        wire.create_queue("q")
        first.kill()
        sent = []
        sender = threading.Thread(target=lambda: sent.append(wire.send("q", drafts("a"), "k")))
        sender.start()
        serve(port=port)
        sender.join()
        assert sent == [SentOnce(1, 1, repeated=False)]
        assert wire.send("q", drafts("a"), "k").repeated


def test_patience_has_an_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with (
        Wire(f"http://127.0.0.1:{port}", patience_s=0.3) as wire,
        pytest.raises(Unreachable, match=r"tried for 0\.3 s"),
    ):
        wire.queues()


def test_an_answer_that_says_try_again_is_no_answer() -> None:
    """503 with a time to wait, then a lost connection, then the answer: the caller sees only the answer."""
    scripts = [
        b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 2\r\n\r\n{}",
        b"",
        b"HTTP/1.1 502 Bad\r\nContent-Length: 3\r\n\r\nbad",
        b'HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n{"total":0, "queues":[] }',
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_answer, args=(listener, scripts))
        thread.start()
        with Wire(f"http://127.0.0.1:{listener.getsockname()[1]}", patience_s=60) as wire:
            assert wire.queues() == []
        thread.join()


def _answer(listener: socket.socket, scripts: list[bytes]) -> None:
    for script in scripts:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(script)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Failed),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 5\r\n\r\nhello", Failed),
        (b"HTTP/1.1 418 Teapot\r\nContent-Length: 2\r\n\r\n{}", Refused),
        (b"SMTP ready\r\n", Failed),
    ],
)
def test_what_is_no_penstock_server(script: bytes, error: type[Exception]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_answer, args=(listener, [script]))
        thread.start()
        with Wire(f"http://127.0.0.1:{listener.getsockname()[1]}", patience_s=5) as wire, pytest.raises(error):
            wire.queue("q")
        thread.join()


def test_threads_do_not_wait_for_each_other(wire: Wire) -> None:
    """A heartbeat gets through while another thread waits for an answer."""
    answered = threading.Event()

    def wait_long() -> None:
        wire._ask("POST", "/v1/queues/q/claim", {"limit": 1, "wait_ms": 30_000})
        answered.set()

    waiting = threading.Thread(target=wait_long)
    waiting.start()
    assert wire.queue("q")["name"] == "q"
    assert not answered.is_set()
    wire.send("q", drafts("a"), "k")
    waiting.join()


def test_a_pickled_copy(wire: Wire) -> None:
    with pickle.loads(pickle.dumps(wire)) as copy:
        assert copy.queue("q") == wire.queue("q")


def test_the_key_shows_nowhere(server: ThreadServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Wire(server.url, "s3cr3t-key", 1) as wire:
        texts = [repr(wire), str(wire)]
        for call in (lambda: wire.queue("nowhere"), lambda: wire.claim_shipment("nowhere", "c", 0, 0, 0)):
            with pytest.raises(Refused) as caught:
                call()
            texts += [str(caught.value), repr(caught.value)]
    with pytest.raises(ValueError, match="printable") as invalid:
        Wire(server.url, "s3cr3t-key\n")
    texts += [str(invalid.value), caplog.text]
    assert "s3cr3t" not in "".join(texts)


def test_a_heartbeat_keeps_a_shipment(wire: Wire) -> None:
    wire.send("q", drafts("a"), "k")
    claimed = wire.claim_shipment("q", "c", 1, 10, 1_000)
    assert claimed is not None
    with Heartbeat(wire, "q", "c", 1, 1_000):
        while wire.shipment("q", "c", 1).until < claimed.until + 1_000:
            time.sleep(0.05)
    wire.settle_shipment("q", "c", 1)


def test_the_heartbeat_of_an_ended_shipment_ends(wire: Wire) -> None:
    wire.send("q", drafts("a"), "k")
    wire.claim_shipment("q", "c", 1, 10, 1_000)
    heartbeat = Heartbeat(wire, "q", "c", 1, 1_000)
    wire.release_shipment("q", "c", 1)
    heartbeat.start()
    heartbeat._thread.join()
