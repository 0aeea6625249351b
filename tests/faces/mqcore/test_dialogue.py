"""The document's six endpoints, over SQLite and over the folders alike."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from penstock import limits
from penstock.errors import StoreCorrupt, StoreFull, StoreUnavailable
from tests.faces.mqcore.conftest import STORES
from tests.servers import ThreadServer
from tests.talk import Talk

UNKNOWN = "4ad814ab-213e-11e3-a9a3-0025904f6e08"


def test_a_queue_is_created_found_and_deleted(talk: Talk) -> None:
    assert talk("GET", "/queue001").status == 404
    for _ in range(2):
        reply = talk("PUT", "/queue001", b"the body is discarded")
        assert (reply.status, reply.body) == (201, b"")
    found = talk("GET", "/queue001")
    assert (found.status, found.body) == (200, b"")
    assert talk("HEAD", "/queue001").status == 200
    for _ in range(2):
        reply = talk("DELETE", "/queue001")
        assert (reply.status, reply.body) == (200, b"")
    missing = talk("GET", "/queue001")
    assert (missing.status, missing.body) == (404, b"")


def test_the_body_of_a_put_is_discarded_however_long(talk: Talk) -> None:
    assert talk("PUT", "/queue001", b"x" * (limits.BODY_BYTES + 1)).status == 201


def test_a_message_is_added_fetched_and_deleted(talk: Talk, queue: str) -> None:
    added = talk("POST", "/queue001/messages", b"bytes \x00\xff", content_type="text/x-anything; a=b")
    assert (added.status, added.body) == (201, b"")
    message_id = added.headers["X-Message-Id"]
    assert str(UUID(message_id)) == message_id
    fetched = talk("GET", "/queue001/messages")
    assert (fetched.status, fetched.body) == (200, b"bytes \x00\xff")
    assert (fetched.headers["X-Message-Id"], fetched.headers["Content-Type"]) == (message_id, "text/x-anything; a=b")
    deleted = talk("DELETE", f"/queue001/messages/{message_id}")
    assert (deleted.status, deleted.body) == (202, b"")
    assert talk("GET", "/queue001/messages").status == 204


@pytest.mark.parametrize("body", [b"", b"\x00", bytes(range(256)) * 16, b"x" * limits.BODY_BYTES])
def test_bytes_in_are_bytes_out(talk: Talk, queue: str, body: bytes) -> None:
    assert talk("POST", "/queue001/messages", body).status == 201
    fetched = talk("GET", "/queue001/messages")
    assert fetched.body == body
    assert fetched.headers["Content-Type"] == "application/octet-stream"


def test_a_message_that_is_too_long_answers_413(talk: Talk, queue: str) -> None:
    assert talk("POST", "/queue001/messages", b"x" * (limits.BODY_BYTES + 1)).status == 413
    assert talk("GET", "/queue001/messages").status == 204


def test_the_oldest_is_fetched_first(talk: Talk, queue: str) -> None:
    for number in range(5):
        talk("POST", "/queue001/messages", b"%d" % number)
    assert [talk("GET", "/queue001/messages").body for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_fetched_message_comes_back_after_ten_seconds(talk: Talk, queue: str, server: ThreadServer) -> None:
    message_id = talk("POST", "/queue001/messages", b"x").headers["X-Message-Id"]
    assert talk("GET", "/queue001/messages").status == 200
    server.clock.advance(9)
    assert talk("GET", "/queue001/messages").status == 204
    server.clock.advance(1.1)
    again = talk("GET", "/queue001/messages")
    assert (again.body, again.headers["X-Message-Id"]) == (b"x", message_id)


def test_a_message_that_was_never_fetched_can_be_deleted(talk: Talk, queue: str) -> None:
    message_id = talk("POST", "/queue001/messages", b"x").headers["X-Message-Id"]
    assert talk("DELETE", f"/queue001/messages/{message_id.upper()}").status == 202
    assert talk("GET", "/queue001/messages").status == 204


def test_the_last_delete_wins_because_there_are_no_receipts(talk: Talk, queue: str, server: ThreadServer) -> None:
    message_id = talk("POST", "/queue001/messages", b"x").headers["X-Message-Id"]
    talk("GET", "/queue001/messages")
    server.clock.advance(10.1)
    talk("GET", "/queue001/messages")
    assert talk("DELETE", f"/queue001/messages/{message_id}").status == 202
    server.clock.advance(10.1)
    assert talk("GET", "/queue001/messages").status == 204


@pytest.mark.parametrize("message_id", [UNKNOWN, "nonsense", "..%2f..%2fx", "%00"])
def test_a_delete_of_anything_answers_202(talk: Talk, queue: str, message_id: str) -> None:
    assert talk("DELETE", f"/queue001/messages/{message_id}").status == 202
    assert talk("DELETE", f"/nowhere/messages/{message_id}").status == 202


def test_a_delete_names_the_queue_of_the_message(talk: Talk, queue: str) -> None:
    talk("PUT", "/other")
    message_id = talk("POST", "/queue001/messages", b"x").headers["X-Message-Id"]
    assert talk("DELETE", f"/other/messages/{message_id}").status == 202
    assert talk("GET", "/queue001/messages").body == b"x"


def test_unknown_queues(talk: Talk) -> None:
    refused = talk("POST", "/nowhere/messages", b"x")
    assert refused.status == 404
    assert "does not exist" in refused.json["error"]
    assert talk("GET", "/nowhere/messages").status == 204
    talk("PUT", "/nowhere")
    assert talk("GET", "/nowhere/messages").status == 204


def test_deleting_a_queue_deletes_its_messages(talk: Talk, queue: str, server: ThreadServer) -> None:
    for _ in range(3):
        talk("POST", "/queue001/messages", b"x")
    talk("GET", "/queue001/messages")
    talk("DELETE", "/queue001")
    assert talk("GET", "/queue001/messages").status == 204
    talk("PUT", "/queue001")
    server.clock.advance(11)
    assert talk("GET", "/queue001/messages").status == 204


@pytest.mark.parametrize("name", ["a:b", "..", "%2e%2e", "%2fetc", "a%2fb", "a%00b", "%C3%A4", "a%20b", "x" * 256])
def test_hostile_names_are_refused_and_make_no_queue(talk: Talk, name: str) -> None:
    refused = talk("PUT", f"/{name}")
    assert refused.status == 400
    assert "name" in refused.json["error"]
    assert talk("GET", f"/{name}").status == 404
    assert talk("POST", f"/{name}/messages", b"x").status == 404
    assert talk("GET", f"/{name}/messages").status == 204
    assert talk("DELETE", f"/{name}/messages/{UNKNOWN}").status == 202
    assert talk("DELETE", f"/{name}").status == 200


def test_a_body_that_cannot_be_read_answers_400(server: ThreadServer, talk: Talk, queue: str) -> None:
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        head = b"POST /queue001/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b"5\r\nhello\r\nnot a length\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 400 ")
    assert talk("GET", "/queue001/messages").status == 204


@pytest.mark.parametrize("error", [StoreFull, StoreUnavailable, StoreCorrupt, RuntimeError])
def test_what_cannot_be_stored_answers_503_and_when_to_try_again(
    server: ThreadServer, talk: Talk, queue: str, monkeypatch, error: type[Exception]
) -> None:
    def fail(*_args: object) -> None:
        raise error("no")

    monkeypatch.setattr(server.store, "unit", fail)
    refused = talk("POST", "/queue001/messages", b"x")
    assert (refused.status, refused.headers["Retry-After"]) == (503, "10")
    monkeypatch.undo()
    assert talk("GET", "/queue001/messages").status == 204


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/q"), ("PATCH", "/q"), ("PUT", "/q/messages"), ("GET", f"/q/messages/{UNKNOWN}")]
)
def test_other_methods_answer_405(talk: Talk, method: str, path: str) -> None:
    reply = talk(method, path)
    assert reply.status == 405
    assert reply.headers["Allow"]


@pytest.mark.parametrize("path", ["/q/x", "/q/messages/", "/q/messages/a/b", "//messages"])
def test_other_paths_answer_404(talk: Talk, path: str) -> None:
    assert talk("GET", path).status == 404


@pytest.mark.parametrize("name", ["README", "order 17.json", "50%", "caf\udce9"])
def test_a_file_with_any_name_is_fetched_and_deleted(tmp_path: Path, name: str) -> None:
    """The id in the answer can be put into the address that deletes the message."""
    server = ThreadServer(STORES["folders"].format(tmp_path))
    try:
        with server.talk() as talk:
            assert talk("PUT", "/queue001").status == 201
            [folder] = tmp_path.glob("**/queues/queue001")
            (folder / name).write_bytes(b"dropped")
            answer = talk("GET", "/queue001/messages")
            assert (answer.status, answer.body) == (200, b"dropped")
            assert talk("DELETE", f"/queue001/messages/{answer.headers['X-Message-Id']}").status == 202
            assert not list(folder.parents[1].glob("delay/*"))
    finally:
        server.stop()
