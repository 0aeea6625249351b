"""Canaries: whatever a client sends, no secret and no message ever reaches the log."""

from __future__ import annotations

import base64
import contextlib
import http.client
from pathlib import Path

import pytest

from penstock import keys
from penstock.faces.emodb import bodies
from tests.keys.conftest import KeyStore
from tests.servers import ServerProcess
from tests.talk import Talk

BODY = "canary-in-a-body-7f3a"
HEADER = "canary-in-a-header-91bc"
WRONG = "psk_canary-wrong-key-5d2e"
ATTRIBUTE = "canary-in-an-attribute-c04d"


def requests(talk: Talk, secret: str) -> None:
    """Good, bad and failing ones, through every API."""
    key = {"x_bv_api_key": secret}
    bearer = {"authorization": f"Bearer {secret}"}
    for wrong in (WRONG, "", f"{secret}x"):
        talk("GET", "/queue/1/q/size", x_bv_api_key=wrong)
        talk("POST", "/v1/queues/q/messages", {"messages": [{"body": BODY}]}, authorization=f"Bearer {wrong}")
        talk("POST", "/messages/q", BODY, authorization=f"Basic {base64.b64encode(HEADER.encode()).decode()}")
    for base in ("/queue/1", "/dedupq/1"):
        talk("POST", f"{base}/q/send", {"m": BODY}, **key)
        talk("POST", f"{base}/q/sendbatch", [BODY, BODY], **bearer)
        talk("POST", f"{base}/_sendbatch", {"q": [BODY], "_bad": [BODY]}, **key)
        for broken in (
            f'{{"{BODY}',
            f'["{BODY}"',
            f'"{BODY}\\x"',
            "[" * 5_000 + f'"{BODY}"',
            f"{BODY}",
            f'{{"{BODY}": 1e999999}}',
        ):
            for verb in ("send", "sendbatch", "ack", "renew"):
                talk("POST", f"{base}/q/{verb}", broken, content_type="application/json", **key)
            talk("POST", f"{base}/_sendbatch", broken, content_type="application/json", **key)
        talk("POST", f"{base}/q/ack", [BODY], **key)
        talk("POST", f"{base}/q/send", BODY.encode() + b"\xff", content_type="application/json", **key)
        talk("GET", f"{base}/q/peek", **key)
        talk("GET", f"{base}/q/poll?limit=5", **key)
        talk("POST", f"{base}/_move?from=q&to=r", **key)
    talk("PUT", "/v1/queues/n", {}, **bearer)
    talk("POST", "/v1/queues/n/messages", {"messages": [{"body": BODY, "attributes": {"k": ATTRIBUTE}}]}, **bearer)
    talk("POST", "/v1/queues/n/messages", {"messages": [{"body_base64": BODY}]}, **bearer)
    talk("POST", "/v1/queues/n/messages", {"messages": [{BODY: BODY}]}, **bearer)
    talk("POST", "/v1/queues/n/claim", {"limit": BODY}, **bearer)
    talk("POST", "/v1/queues/n/ack", {"receipts": [f"{BODY}.x"]}, **bearer)
    talk("POST", "/v1/queues/n/claim", {}, **bearer)
    talk("POST", "/v1/keys", {"name": "other", "rules": [f"queue|{BODY}|x"]}, **bearer)
    made = talk("POST", "/v1/keys", {"name": "other", "rules": ["queue|post|x"]}, **bearer)
    assert made.status == 201
    talk("POST", "/messages/n", BODY, content_type=f"text/{HEADER}", x_trace_id=HEADER, **bearer)
    talk("POST", "/messages/n", f"--b\r\n{BODY}", content_type="multipart/mixed; boundary=b", **bearer)
    talk("GET", "/messages/n", **bearer)
    talk("PUT", "/queues/m", {"retention_timeout": BODY}, **bearer)
    talk("DELETE", f"/messages/{BODY}", **bearer)
    talk("POST", "/n/messages", BODY, **bearer)
    talk("GET", "/n/messages", **bearer)


def garbage(url: str, secret: str) -> None:
    """What the HTTP parser refuses, and a connection that breaks off in the middle of a body."""
    for text in (
        f"GET / HTTP/1.1\r\nAuthorization: Bearer {secret}\r\n\r\n",
        f"POST /queue/1/q/send HTTP/1.1\r\nHost: x\r\nX-BV-API-Key: {secret}\r\nContent-Length: 999\r\n\r\n{BODY}",
        f"POST /queue/1/q/send HTTP/1.1\r\nHost: {secret}\r\nTransfer-Encoding: {HEADER}\r\n\r\n{BODY}",
        f"{BODY} {HEADER} {secret}\r\n\r\n",
        f"GET /{'x' * 9000} HTTP/1.1\r\nHost: x\r\nAuthorization: {HEADER}\r\n\r\n",
    ):
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
        connection.connect()
        connection.sock.sendall(text.encode())
        connection.sock.shutdown(1)
        with contextlib.suppress(OSError):
            connection.sock.recv(4096)
        connection.close()


@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_secret_reaches_the_log(serve, key_store: KeyStore, tmp_path: Path, form: str) -> None:
    secret = key_store.create("k", "queue|*|*")
    server: ServerProcess = serve("--log-level", "debug", "--log-format", form)
    with server.talk() as talk:
        requests(talk, secret)
    garbage(server.url, secret)
    server.terminate()
    log = server.log.read_text()
    assert "unknown or revoked API key" in log
    assert "serves" in log
    for canary in (BODY, HEADER, ATTRIBUTE, WRONG, "psk_", secret[4:], base64.b64encode(HEADER.encode()).decode()):
        assert canary not in log


@pytest.mark.parametrize("where", ["store", "face"])
def test_a_request_that_fails_inside_the_server_is_logged_without_its_content(
    key_store: KeyStore, keyed, monkeypatch: pytest.MonkeyPatch, caplog, capfd, where: str
) -> None:
    secret = key_store.create("k", "queue|*|*")
    server = keyed()
    caplog.set_level("DEBUG")

    def fail(*_args: object, **_named: object) -> None:
        raise RuntimeError("on purpose")

    if where == "store":
        monkeypatch.setattr(server.store, "unit", fail)
    else:
        for reader in ("read_message", "read_ids"):
            monkeypatch.setattr(bodies, reader, fail)
    with server.talk() as talk:
        for path, body in (("send", {"m": BODY}), ("ack", [BODY])):
            assert talk("POST", f"/queue/1/q/{path}", body, x_bv_api_key=secret).status == 500
            assert talk("POST", f"/dedupq/1/q/{path}", body, authorization=f"Bearer {secret}").status == 500
    monkeypatch.undo()
    printed = capfd.readouterr()
    logged = caplog.text + printed.out + printed.err
    assert "on purpose" in logged
    for canary in (BODY, secret):
        assert canary not in logged


def test_a_request_and_a_response_show_neither_headers_nor_body() -> None:
    from penstock.edge.http import Request, Response

    asked = Request("POST", "/q", headers={b"authorization": HEADER.encode()}, body=BODY.encode())
    answered = Response(200, BODY.encode(), ((b"X", HEADER.encode()),))
    for shown in (repr(asked), repr(answered)):
        assert BODY not in shown
        assert HEADER not in shown


def test_a_secret_is_not_a_part_of_what_is_kept_of_a_key() -> None:
    from penstock.model import Key

    secret = keys.mint()
    assert secret not in repr(Key("k", keys.digest(b"s", secret.encode()), ("queue|*|*",), 0))
