"""The access log, the ids of requests, and what neither may ever tell."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.keys.test_http import bearer
from tests.server.test_systemd import Listener
from tests.servers import ServerProcess, ThreadServer
from tests.waiting import wait_until

SECRET = "canary-of-a-query-77"
MADE = re.compile(r"[0-9a-f]{32}")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    servers = []

    def begin(*flags: str) -> ServerProcess:
        """One that logs errors alone does not log where it listens, but tells systemd."""
        if "error" not in flags:
            servers.append(ServerProcess(tmp_path, *flags))
            return servers[-1]
        with closing(Listener(f"{tmp_path}/n")) as systemd:
            environ = {**os.environ, **systemd.environ}
            servers.append(server := ServerProcess(tmp_path, *flags, waits=False, env=environ))
            server.url = systemd.hear()["STATUS"].removeprefix("serves ")
        return server

    yield begin
    for server in servers:
        server.stop()


def lines(server: ServerProcess) -> list[dict[str, Any]]:
    found = map(json.loads, server.log.read_text().splitlines())
    return [line for line in found if line["logger"] == "penstock.access"]


def line_of(server: ServerProcess, request_id: str) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        return [line for line in lines(server) if line["request_id"] == request_id]

    wait_until(found)
    [line] = found()
    return line


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_line_for_every_request(start: Callable[..., ServerProcess], workers: str) -> None:
    server = start("--access-log", "--log-format", "json", "--log-level", "error", "--workers", workers)
    with server.talk() as talk:
        answer = talk("PUT", f"/v1/queues/q?secret={SECRET}", {}, x_request_id="first")
        assert answer.headers["x-request-id"] == "first"
        made = talk("PUT", "/v1/queues/q", {}).headers["x-request-id"]
        assert MADE.fullmatch(made)
        talk("GET", "/health", x_request_id="third")
        talk("HEAD", "/health", x_request_id="fourth")
        talk("GET", "/nowhere/at/all", x_request_id="fifth")
    line = line_of(server, made)
    assert line.keys() == {
        *("at", "level", "logger", "message"),
        *("address", "key", "method", "path", "route", "status", "bytes", "ms", "request_id"),
    }
    assert (line["address"], line["key"], line["method"]) == ("127.0.0.1", None, "PUT")
    assert (line["path"], line["route"], line["status"]) == ("/v1/queues/q", "/v1/queues/{queue}", 201)
    assert line["bytes"] > 10
    assert line["ms"] > 0
    third, fourth, fifth = (line_of(server, name) for name in ("third", "fourth", "fifth"))
    assert (third["bytes"], fourth["bytes"]) == (5, 0)
    assert (fifth["route"], fifth["status"]) == (None, 404)
    assert line_of(server, "first")["status"] == 400
    assert SECRET not in server.log.read_text()


def test_as_text_and_with_the_name_of_a_key(start: Callable[..., ServerProcess]) -> None:
    server = start("--access-log")
    with server.talk() as talk:
        secret = talk("POST", "/v1/keys", {"name": "shop", "rules": ["queue|*|*"]}).json["secret"]
        talk("GET", "/v1/queues", **bearer(secret), x_request_id="mine")
        talk("GET", "/v1/queues", **bearer("psk_wrong"), x_request_id="theirs")
    wait_until(lambda: "theirs\n" in server.log.read_text())
    text = server.log.read_text()
    assert re.search(r" INFO    127\.0\.0\.1 shop GET /v1/queues /v1/queues 200 \d+ [\d.]+ mine\n", text)
    assert re.search(r" INFO    127\.0\.0\.1 - GET /v1/queues /v1/queues 401 \d+ [\d.]+ theirs\n", text)
    assert secret not in text
    assert "psk_wrong" not in text


def test_it_is_turned_on_and_off_while_the_server_runs(start: Callable[..., ServerProcess], tmp_path: Path) -> None:
    server = start("--log-format", "json")
    for number, is_on in enumerate((False, True, False)):
        if number:
            (tmp_path / "penstock.toml").write_text(f"access_log = {str(is_on).lower()}\n")
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda number=number: server.log.read_text().count("settings are read again") == number)

        def has_its_way(is_on: bool = is_on) -> bool:
            with server.talks() as talks:
                return {"x-request-id" in talk("GET", "/health").headers for talk in talks} == {is_on}

        wait_until(has_its_way)
    assert lines(server)


@pytest.mark.parametrize("given", ["a", "x" * 128, "!~#/{}=\"'"])
def test_a_sane_id_comes_back_without_an_access_log(server: ThreadServer, given: str) -> None:
    with server.talk() as talk:
        assert talk("GET", "/health", x_request_id=given).headers["x-request-id"] == given
        assert talk("GET", "/health", x_request_id=given).headers["x-request-id"] == given
        assert talk("GET", "/health").headers["x-request-id"] is None


@pytest.mark.parametrize("given", ["", "x" * 129, "two words", "\xe4", "a\tb"])
def test_any_other_does_not(server: ThreadServer, given: str) -> None:
    with server.talk() as talk:
        assert talk("GET", "/health", x_request_id=given).headers["x-request-id"] is None


def test_a_request_that_fails_has_an_id_in_its_answer_and_in_the_log(
    server: ThreadServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise ZeroDivisionError

    server.store.unit = fail
    monkeypatch.setattr(logging.getLogger("penstock"), "propagate", True)
    with caplog.at_level(logging.ERROR, "penstock"), server.talk() as talk:
        named = talk("GET", f"/v1/ledger?queue={SECRET}", x_request_id="r-1")
        unnamed = talk("GET", "/queues")
    assert (named.status, unnamed.status) == (500, 500)
    assert named.headers["x-request-id"] == "r-1"
    made = unnamed.headers["x-request-id"]
    assert MADE.fullmatch(made)
    said = [record.getMessage() for record in caplog.records]
    assert "request r-1 failed: GET /v1/ledger" in said
    assert f"request {made} failed: GET /queues" in said
    assert SECRET not in caplog.text


def test_what_cannot_be_read_has_a_line_too(start: Callable[..., ServerProcess]) -> None:
    server = start("--access-log", "--log-format", "json")
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"not http at all\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 400 ")
    wait_until(lambda: lines(server))
    [line] = lines(server)
    assert (line["status"], line["method"], line["path"], line["route"]) == (400, None, None, None)


def test_a_path_stays_on_its_line(start: Callable[..., ServerProcess]) -> None:
    server = start("--access-log", "--log-format", "json")
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET /%0a" + b"x" * 3000 + b" HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: p\r\n\r\n")
        client.recv(65536)
    line = line_of(server, "p")
    assert line["path"].startswith("/%0axxx")
    assert len(line["path"]) < 1100
    assert os.linesep not in line["message"]
