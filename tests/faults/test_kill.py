"""`kill -9` of the server under load, again and again."""

from __future__ import annotations

import threading

import pytest

from tests.faults.crowd import wait_until
from tests.faults.load import Load, check, create_queue, drain


@pytest.mark.parametrize("sends", [5, 20, 80])
def test_a_killed_server_keeps_every_promise(serve, sends: int) -> None:
    load = Load()
    server = serve()
    with server.talk() as talk:
        create_queue(talk, visibility_timeout=1)
    for _ in range(3):
        before = len(load.sent)
        threads = load.run(server.url, senders=6, receivers=3)
        wait_until(lambda before=before: len(load.sent) >= before + sends)
        server.kill()
        for thread in threads:
            thread.join()
        server = serve()
    with server.talk() as talk:
        left = drain(talk)
    assert load.other_answers == []
    assert len(load.sent) > 10
    check(load, left)


def test_sigterm_ends_gracefully(serve) -> None:
    """Whatever was accepted is answered, waiting polls end, nothing answers 5xx, and the exit code is 0."""
    load = Load()
    server = serve()
    with server.talk() as talk:
        create_queue(talk, visibility_timeout=1)
    threads = load.run(server.url, senders=6, receivers=6)
    wait_until(lambda: len(load.deleted) > 20)
    assert server.terminate() == 0
    for thread in threads:
        thread.join()
    assert load.other_answers == []
    server = serve()
    with server.talk() as talk:
        left = drain(talk)
    check(load, left)
    # No request was left without an answer, so nothing is in doubt.
    assert load.sent == load.deleted | load.perhaps_deleted | set(left)


def test_sigterm_does_not_wait_for_long_polls(serve) -> None:
    server = serve()
    statuses = []
    with server.talk() as talk:
        create_queue(talk, visibility_timeout=1)

    def poll() -> None:
        with server.talk() as talk:
            statuses.append(talk("GET", "/messages/q", x_mqs_max_wait_time="19").status)

    threads = [threading.Thread(target=poll) for _ in range(5)]
    for thread in threads:
        thread.start()
    wait_until(lambda: server.waiting_claims() == 5)
    assert server.terminate() == 0
    for thread in threads:
        thread.join()
    assert statuses == [204] * 5
