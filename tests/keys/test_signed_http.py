"""Signed requests to real servers: of one process and of several, alone and beside others, with pepper and without."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from penstock.clock import system_clock
from penstock.server.faces import FACES
from penstock.stores.transfer import copy
from tests.keys import signed_face
from tests.keys.conftest import KeyStore, eventually
from tests.keys.signed_face import FACE, PATH
from tests.keys.signer import Signer
from tests.server.test_workers import assert_patience_is_shared
from tests.servers import ServerProcess, ThreadServer
from tests.stores.transfer.observers import Quiet
from tests.talk import Reply, Talk

PEPPER = "a pepper from elsewhere"
SIGNED_FACE = [sys.executable, str(Path(signed_face.__file__))]

Serve = Callable[..., ThreadServer]


@pytest.fixture
def serve_signed(keyed, monkeypatch: pytest.MonkeyPatch) -> Serve:
    monkeypatch.setitem(FACES, "signed", FACE)
    return lambda **settings: keyed(faces="native,signed", **settings)


def send(talk: Talk, signer: Signer, body: bytes = b"hello", at: int | None = None, path: str = PATH) -> Reply:
    headers = signer.headers(at or system_clock(), "POST", path, body, urlsplit(talk.url).netloc)
    return talk("POST", path, body, **headers)


def refusal(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json["refusal"]


def test_right_wrong_old_and_replayed(key_store: KeyStore, serve_signed: Serve) -> None:
    key_store.create("shop", "queue|post|orders")
    signer, server = Signer("shop", key_store.aws_secret("shop")), serve_signed()
    with server.talk() as talk:
        good = send(talk, signer)
        assert (good.status, good.json) == (200, {"caller": "shop", "body": "hello"})
        assert refusal(send(talk, Signer("shop", "wrong"))) == (403, "WRONG_SIGNATURE")
        assert refusal(send(talk, Signer("nobody", "wrong"))) == (403, "UNKNOWN_KEY")
        headers = signer.headers(system_clock(), "POST", PATH, b"hello", urlsplit(talk.url).netloc)
        assert talk("POST", PATH, b"hello", **headers).status == 200
        assert refusal(talk("POST", PATH, b"other", **headers)) == (403, "WRONG_SIGNATURE")
        server.clock.advance(16 * 60)
        late = talk("POST", PATH, b"hello", **headers)
        assert refusal(late) == (403, "WRONG_SIGNATURE")
        assert late.json["why"].startswith("Signature expired: ")
        server.clock.advance(-32 * 60)
        assert talk("POST", PATH, b"hello", **headers).json["why"].startswith("Signature not yet current: ")


def test_a_handler_that_does_not_verify_permits_nothing(key_store: KeyStore, serve_signed: Serve) -> None:
    key_store.create("shop", "queue|*|*")
    path = f"{PATH}/forgotten"
    with serve_signed().talk() as talk:
        reply = send(talk, Signer("shop", key_store.aws_secret("shop")), path=path)
        assert reply.json == {"caller": None, "may": False}
        assert send(talk, Signer("shop", "wrong"), path=path).json == {"caller": None, "may": False}


def test_no_other_route_takes_signatures(key_store: KeyStore, serve_signed: Serve) -> None:
    key_store.create("shop", "queue|*|*")
    signer = Signer("shop", key_store.aws_secret("shop"))
    with serve_signed().talk() as talk:
        assert refusal(send(talk, signer, path="/unsigned")) == (403, "NO_KEY")
        headers = signer.headers(system_clock(), "GET", "/v1/queues", b"", urlsplit(talk.url).netloc)
        assert talk("GET", "/v1/queues", **headers).status == 401


def test_a_key_itself_is_good_too(key_store: KeyStore, serve_signed: Serve) -> None:
    secret = key_store.create("shop", "queue|post|orders")
    with serve_signed().talk() as talk:
        assert talk("POST", PATH, b"x", authorization=f"Bearer {secret}").json["caller"] == "shop"
        assert talk("POST", PATH, b"x", x_bv_api_key=secret).json["caller"] == "shop"
        assert refusal(talk("POST", PATH, b"x", x_bv_api_key="wrong")) == (403, "UNKNOWN_KEY")
        assert refusal(talk("POST", PATH, b"x")) == (403, "NO_KEY")
        assert refusal(talk("POST", PATH, b"x", authorization="AWS4-HMAC-SHA256 x")) == (403, "MALFORMED_SIGNATURE")


def test_rights_are_those_of_the_key(key_store: KeyStore, serve_signed: Serve) -> None:
    key_store.create("weak", "queue|post|others")
    with serve_signed().talk() as talk:
        assert refusal(send(talk, Signer("weak", key_store.aws_secret("weak")))) == (403, "NOT_PERMITTED")


def test_an_address_that_was_signed_beforehand(key_store: KeyStore, serve_signed: Serve) -> None:
    key_store.create("shop", "queue|post|orders")
    signer, server = Signer("shop", key_store.aws_secret("shop")), serve_signed()
    with server.talk() as talk:
        host = urlsplit(talk.url).netloc
        query = signer.query(system_clock(), "GET", PATH, 3600, host, Action="ReceiveMessage", Text="ü & +")
        assert talk("GET", f"{PATH}?{query}").json["caller"] == "shop"
        assert refusal(talk("GET", f"{PATH}?{query}&Action=PurgeQueue")) == (403, "WRONG_SIGNATURE")
        server.clock.advance(3601)
        assert refusal(talk("GET", f"{PATH}?{query}")) == (403, "WRONG_SIGNATURE")


def test_a_body_is_not_asked_for_in_vain(key_store: KeyStore, serve_signed: Serve) -> None:
    """An unknown key and an old request are refused by their headers alone."""
    key_store.create("shop", "queue|post|orders")
    server = serve_signed()
    host = urlsplit(server.url).netloc
    now = system_clock()
    for signer, at, expected in (
        (Signer("nobody", "x"), now, b"UNKNOWN_KEY"),
        (Signer("shop", "x"), now - 3_600_000, b"WRONG_SIGNATURE"),
        (Signer("shop", "x", service="s3"), now, b"WRONG_SIGNATURE"),
        (Signer("shop", key_store.aws_secret("shop")), now, b"100 Continue"),
    ):
        headers = signer.headers(at, "POST", PATH, b"x" * 100_000, host)
        lines = [f"POST {PATH} HTTP/1.1", f"Host: {host}", "Content-Length: 100000", "Expect: 100-continue"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        with socket.create_connection(host.split(":")) as connection:
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            received = b""
            while expected not in received:
                piece = connection.recv(4096)
                assert piece, received
                received += piece


def test_what_the_server_tells_of_a_new_key_signs(serve_signed: Serve) -> None:
    server = serve_signed(sigv4_pepper=PEPPER)
    with server.talk() as talk:
        anybody = send(talk, Signer("anything", "at all"))
        assert (anybody.status, anybody.json["caller"]) == (200, None), "there is no key yet"
        assert talk("POST", PATH, b"x", origin="https://example.com").json["refusal"] == "FOREIGN"
        assert talk("GET", f"{PATH}?Action=PurgeQueue", sec_fetch_site="cross-site").json["refusal"] == "FOREIGN"
        made = talk("POST", "/v1/keys", {"name": "shop", "rules": ["queue|*|*"]}).json
        assert (made["aws_access_key_id"], len(made["aws_secret_access_key"])) == ("shop", 43)
        assert send(talk, Signer("shop", made["aws_secret_access_key"])).json["caller"] == "shop"
        assert refusal(send(talk, Signer("anything", "at all"))) == (403, "UNKNOWN_KEY")
        bearer = {"authorization": f"Bearer {made['secret']}"}
        listed = talk("GET", "/v1/keys", **bearer)
        assert made["aws_secret_access_key"].encode() not in listed.body
        assert talk("DELETE", "/v1/keys/shop", **bearer).status == 200
        assert refusal(send(talk, Signer("shop", made["aws_secret_access_key"]))) == (403, "UNKNOWN_KEY")


def test_two_servers_of_a_store_need_one_pepper(key_store: KeyStore, serve_signed: Serve) -> None:
    key_store.create("shop", "queue|post|orders")
    one, other, third = (serve_signed(sigv4_pepper=pepper) for pepper in (PEPPER, PEPPER, ""))
    with one.talk() as talk, other.talk() as beside, third.talk() as without:
        for signer, statuses in (
            (Signer("shop", key_store.aws_secret("shop", PEPPER)), (200, 200, 403)),
            (Signer("shop", key_store.aws_secret("shop")), (403, 403, 200)),
        ):
            assert tuple(send(one_of_them, signer).status for one_of_them in (talk, beside, without)) == statuses
        secret = key_store.create("second", "queue|post|orders")
        eventually(lambda: beside("POST", PATH, b"x", x_bv_api_key=secret).status == 200)
        assert send(beside, Signer("second", key_store.aws_secret("second", PEPPER))).status == 200
        key_store.revoke("shop")
        signer = Signer("shop", key_store.aws_secret("shop", PEPPER))
        eventually(lambda: send(beside, signer).status == 403)


@pytest.mark.usefixtures("serve_signed")
def test_a_store_that_has_moved_keeps_the_secrets(key_store: KeyStore, tmp_path: Path) -> None:
    key_store.create("shop", "queue|post|orders")
    secret = key_store.aws_secret("shop", PEPPER)
    target = KeyStore(tmp_path / "moved")
    copy.migrate(key_store.url, target.url, Quiet())
    assert target.aws_secret("shop", PEPPER) == secret
    server = ThreadServer(target.url, faces="native,signed", sigv4_pepper=PEPPER)
    try:
        with server.talk() as talk:
            assert send(talk, Signer("shop", secret)).json["caller"] == "shop"
    finally:
        server.stop()


# Several processes


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    started: list[ServerProcess] = []

    def start_one(*flags: str, **options: object) -> ServerProcess:
        flags = ("--faces", "native,signed", *flags)
        started.append(ServerProcess(tmp_path, *flags, prefix=SIGNED_FACE, **options))
        return started[-1]

    yield start_one
    for server in started:
        server.stop()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_every_process_knows_the_pepper(start, tmp_path: Path, key_store: KeyStore, workers: str) -> None:
    (tmp_path / "pepper").write_text(f"{PEPPER}\n")
    server: ServerProcess = start("--workers", workers, "--sigv4-pepper", "file:pepper", "--log-level", "debug")
    with server.talk() as talk:
        made = talk("POST", "/v1/keys", {"name": "shop", "rules": ["queue|*|*"]}).json
    assert made["aws_secret_access_key"] == key_store.aws_secret("shop", PEPPER)
    signer, forger = Signer("shop", made["aws_secret_access_key"]), Signer("shop", key_store.aws_secret("shop"))
    with server.talks() as talks:
        for talk in talks:
            assert send(talk, signer).json["caller"] == "shop"
            assert refusal(send(talk, forger)) == (403, "WRONG_SIGNATURE")
        (tmp_path / "pepper").write_text("another pepper for everybody")
        server.process.send_signal(1)
        eventually(lambda: "a restart is needed for sigv4_pepper" in server.log.read_text())
        assert [send(talk, signer).status for talk in talks] == [200] * len(talks)
        talks[0]("DELETE", "/v1/keys/shop", authorization=f"Bearer {made['secret']}")
        assert {refusal(send(talk, signer)) for talk in talks} == {(403, "UNKNOWN_KEY")}
    server.terminate()
    log = server.log.read_text()
    assert "a wrong signature for the API key shop" in log
    for canary in (PEPPER, "another pepper", made["aws_secret_access_key"], made["secret"], "Signature="):
        assert canary not in log


def test_wrong_signatures_are_counted_by_all_processes_together(start, key_store: KeyStore) -> None:
    key_store.create("shop", "queue|post|orders")
    server: ServerProcess = start("--workers", "2")
    forger = Signer("shop", "wrong")
    with server.talks() as talks:
        assert_patience_is_shared(lambda talk: send(talk, forger).status, 403, talks)
        assert send(talks[0], Signer("shop", key_store.aws_secret("shop"))).status == 200
