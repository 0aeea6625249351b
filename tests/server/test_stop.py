"""A stop as clients see it: every request that was accepted gets an answer."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from devtools.databases import Databases
from penstock.limits import Limits
from tests.servers import ThreadServer
from tests.talk import Reply
from tests.waiting import wait_until

LIMITS = Limits(step_rows=1, claim_rows=1)


def filled(store: str, count: int, **settings: object) -> ThreadServer:
    server = ThreadServer(store, limits=LIMITS, **settings)
    with server.talk() as talk:
        assert talk("PUT", "/v1/queues/q", b"{}").status == 201
        body = b'{"messages":[' + b",".join([b'{"body":"x"}'] * count) + b"]}"
        assert talk("POST", "/v1/queues/q/messages", body).status == 201
    return server


def asked(server: ThreadServer, method: str, path: str, body: bytes) -> tuple[threading.Thread, list[Reply]]:
    replies: list[Reply] = []

    def ask() -> None:
        with server.talk() as talk:
            replies.append(talk(method, path, body))

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, replies


def has_begun(server: ThreadServer, count: int) -> bool:
    def left(unit: Any) -> int:
        return unit.count("q", server.clock(), 100_000).ready

    return server.in_unit(left, write=False) < count


@pytest.mark.parametrize(
    ("method", "path", "body", "told"),
    [
        ("POST", "/v1/queues/q/purge", b"{}", b'{"purged":400}'),
        ("PUT", "/v1/queues/q/shipments/c/1", b'{"limit":400,"hold_ms":60000}', b'"messages":400'),
    ],
    ids=["purge", "shipment"],
)
def test_what_takes_many_steps_is_answered(tmp_path: Path, method: str, path: str, body: bytes, told: bytes) -> None:
    server = filled(f"sqlite:///{tmp_path}/s.db", 400)
    thread, replies = asked(server, method, path, body)
    wait_until(lambda: has_begun(server, 400))
    server.stop()
    thread.join()
    assert replies[0].status in (200, 201), replies
    assert told in replies[0].body


def test_what_outlasts_the_grace_is_answered_503(tmp_path: Path) -> None:
    server = filled(f"sqlite:///{tmp_path}/s.db", 10_000, stop_grace_s=0.4)
    thread, replies = asked(server, "POST", "/v1/queues/q/purge", b"{}")
    wait_until(lambda: has_begun(server, 10_000))
    server.stop()
    thread.join()
    assert replies[0].status == 503, replies
    assert replies[0].headers["Retry-After"]


def test_a_database_is_left_after_the_last_unit(shared_postgres: Databases, caplog: pytest.LogCaptureFixture) -> None:
    url = shared_postgres.new_url()
    server = filled(url, 200)
    try:
        thread, replies = asked(server, "POST", "/v1/queues/q/purge", b"{}")
        wait_until(lambda: replies or has_begun(server, 200))
        server.stop()
        thread.join()
        assert replies[0].body == b'{"purged":200}'
        assert caplog.records == []
    finally:
        server.stop()
        shared_postgres.drop(url)
