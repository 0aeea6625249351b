"""`kill -9` in the middle of a shipment's claim, its settling and its release, and in the middle of keyed sends."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.servers import ServerProcess
from tests.talk import Talk
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

COUNT = 30_000
QUEUE = "/v1/queues/q"
SHIPMENT = f"{QUEUE}/shipments/lake/1"


def fill(talk: Talk) -> None:
    assert talk("PUT", QUEUE, {}).status == 201
    for start in range(0, COUNT, 10_000):
        lines = "\n".join(json.dumps({"body": str(number)}) for number in range(start, start + 10_000))
        reply = talk(
            "POST", f"{QUEUE}/messages", lines, content_type="application/x-ndjson", idempotency_key=str(start)
        )
        assert reply.status == 201


def interrupted(server: ServerProcess, ask: Callable[[Talk], object], is_underway: Callable[[Talk], bool]) -> None:
    """The server is killed while it is at it; the answer never comes."""

    def asking() -> None:
        with server.talk() as talk, suppress(OSError, http.client.HTTPException):
            ask(talk)

    thread = threading.Thread(target=asking)
    thread.start()
    with server.talk() as talk:
        while not is_underway(talk):
            pass
    server.kill()
    thread.join()


def state(talk: Talk) -> str | None:
    return talk("GET", SHIPMENT).json.get("state")


def read(talk: Talk) -> list[int]:
    found: list[int] = []
    while page := talk("GET", f"{SHIPMENT}/messages?start={len(found)}").json["messages"]:
        found += [int(message["body"]) for message in page]
    return found


def departed(talk: Talk) -> int:
    return talk("GET", QUEUE).json["tally"]["departed"]


def test_killed_in_the_middle_of_a_claim(serve) -> None:
    server = serve()
    with server.talk() as talk:
        fill(talk)
    interrupted(server, lambda talk: talk("PUT", SHIPMENT, {"limit": COUNT}), lambda talk: state(talk) is not None)
    with serve().talk() as talk:
        assert state(talk) in ("gathering", "open")
        assert talk("PUT", SHIPMENT, {"limit": COUNT}).json["messages"] == COUNT
        assert read(talk) == list(range(COUNT))
        assert talk("POST", f"{SHIPMENT}/settle").json["state"] == "settled"
        assert talk("GET", QUEUE).json["tally"] == {"arrived": COUNT, "departed": COUNT}


def test_killed_in_the_middle_of_settling(serve) -> None:
    server = serve()
    with server.talk() as talk:
        fill(talk)
        assert talk("PUT", SHIPMENT, {"limit": COUNT}).status == 201
    interrupted(server, lambda talk: talk("POST", f"{SHIPMENT}/settle"), lambda talk: departed(talk) > 0)
    with serve().talk() as talk:
        # Decided is decided: it can no longer be read, and the rest finishes whether or not anyone asks.
        assert state(talk) == "settled"
        assert talk("GET", f"{SHIPMENT}/messages").status == 410
        wait_until(lambda: departed(talk) >= COUNT)
        count = talk("GET", QUEUE).json["count"]
        assert (count["total"], departed(talk)) == (0, COUNT)
        assert talk("POST", f"{QUEUE}/claim", {}).json["messages"] == []


def test_killed_in_the_middle_of_a_release(serve) -> None:
    server = serve()
    with server.talk() as talk:
        fill(talk)
        assert talk("PUT", SHIPMENT, {"limit": COUNT}).status == 201
    interrupted(server, lambda talk: talk("POST", f"{SHIPMENT}/release"), lambda talk: state(talk) == "released")
    with serve().talk() as talk:
        assert talk("POST", f"{SHIPMENT}/release").json["state"] == "released"
        again = SHIPMENT.replace("lake/1", "lake/2")
        assert talk("PUT", again, {"limit": COUNT}).json["messages"] == COUNT


@pytest.mark.parametrize("after", [0.01, 0.05])
def test_a_keyed_send_is_stored_once_whatever_dies(serve, after: float) -> None:
    """Sent until it is answered, over servers that are killed: every message is there, and there once."""
    lines = "\n".join(json.dumps({"body": str(number)}) for number in range(10_000))
    server = serve()
    with server.talk() as talk:
        assert talk("PUT", QUEUE, {}).status == 201
    for key in ("a", "b", "c"):
        answered = threading.Event()
        while not answered.is_set():

            def send(url: str = server.url, key: str = key, answered: threading.Event = answered) -> None:
                try:
                    with Talk(url) as talk:
                        headers = {"content_type": "application/x-ndjson", "idempotency_key": key}
                        reply = talk("POST", f"{QUEUE}/messages", lines, **headers)
                except (OSError, http.client.HTTPException):
                    return
                assert reply.status in (200, 201)
                answered.set()

            thread = threading.Thread(target=send)
            thread.start()
            if thread.join(after) is None and thread.is_alive():
                server.kill()
                thread.join()
                server = serve()
            after *= 2  # at last it is slow enough to be answered
    with server.talk() as talk:
        assert talk("GET", QUEUE).json["tally"] == {"arrived": 30_000, "departed": 0}
