"""A heartbeat keeps a shipment while it is worked on, and ends with it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.client import Client, Shipment, ShipmentRef
from penstock.spark.heartbeat import Heartbeat
from tests.servers import ThreadServer
from tests.waiting import wait_until

FIRST = ShipmentRef("q", "c", 1)
HOUR_MS = 3_600_000


class Pauses(threading.Event):
    """The pauses of a heartbeat: short, and `passed` is told how long each should have been."""

    def __init__(self, passed: Callable[[float], None]) -> None:
        super().__init__()
        self._passed = passed

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self._passed(timeout)
        return super().wait(0.001)


def beating(client: Client, passed: Callable[[float], None] = lambda seconds: None) -> Heartbeat:
    heartbeat = Heartbeat(client, FIRST, HOUR_MS)
    heartbeat._stopped = Pauses(passed)
    return heartbeat


def claim(client: Client) -> Shipment:
    client.send("q", "a")
    claimed = client.claim_shipment(FIRST, 10, HOUR_MS)
    assert claimed is not None
    return claimed


def test_it_keeps_a_shipment(client: Client, server: ThreadServer) -> None:
    """On the server, all the time passes that it would have waited."""
    claimed = claim(client)
    with beating(client, server.clock.advance):
        wait_until(lambda: client.shipment(FIRST).until >= claimed.until + HOUR_MS)
    client.settle_shipment(FIRST)


def test_it_ends_with_its_shipment(client: Client) -> None:
    claim(client)
    heartbeat = beating(client)
    client.release_shipment(FIRST)
    heartbeat.start()
    heartbeat._thread.join()


def test_it_does_not_wait_for_another_thread(client: Client, server: ThreadServer) -> None:
    """A beat gets through while another thread of the same client waits for an answer."""
    answered = threading.Event()

    def wait_long() -> None:
        client.claim("q", wait_ms=60_000)
        answered.set()

    claimed = claim(client)
    waiting = threading.Thread(target=wait_long)
    waiting.start()
    wait_until(server.waiting_claims)
    with beating(client):
        wait_until(lambda: client.shipment(FIRST).until > claimed.until)
    assert not answered.is_set()
    client.send("q", "b")
    waiting.join()
