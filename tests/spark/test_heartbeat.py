"""A heartbeat keeps a shipment while it is worked on, and ends with it."""

from __future__ import annotations

import threading
import time

from penstock.client import Client, ShipmentRef
from penstock.spark.heartbeat import Heartbeat
from tests.servers import ThreadServer
from tests.waiting import wait_until

FIRST = ShipmentRef("q", "c", 1)


def test_it_keeps_a_shipment(client: Client) -> None:
    client.send("q", "a")
    claimed = client.claim_shipment(FIRST, 10, 1_000)
    assert claimed is not None
    with Heartbeat(client, FIRST, 1_000):
        while client.shipment(FIRST).until < claimed.until + 1_000:
            time.sleep(0.05)
    client.settle_shipment(FIRST)


def test_it_ends_with_its_shipment(client: Client) -> None:
    client.send("q", "a")
    claimed = client.claim_shipment(FIRST, 10, 1_000)
    assert claimed is not None
    heartbeat = Heartbeat(client, claimed, 1_000)
    client.release_shipment(FIRST)
    heartbeat.start()
    heartbeat._thread.join()


def test_it_does_not_wait_for_another_thread(client: Client, server: ThreadServer) -> None:
    """A beat gets through while another thread of the same client waits for an answer."""
    answered = threading.Event()

    def wait_long() -> None:
        client.claim("q", wait_ms=30_000)
        answered.set()

    client.send("q", "a")
    claimed = client.claim_shipment(FIRST, 10, 2_000)
    assert claimed is not None
    waiting = threading.Thread(target=wait_long)
    waiting.start()
    wait_until(server.waiting_claims)
    with Heartbeat(client, FIRST, 2_000):
        wait_until(lambda: client.shipment(FIRST).until > claimed.until)
    assert not answered.is_set()
    client.send("q", "b")
    waiting.join()
