"""A heartbeat keeps a shipment while it is worked on, and ends with it."""

from __future__ import annotations

import threading
import time

from penstock.client import Client, ShipmentRef
from penstock.spark.heartbeat import Heartbeat

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


def test_it_does_not_wait_for_another_thread(client: Client) -> None:
    """A beat gets through while another thread waits for an answer."""
    answered = threading.Event()

    def wait_long() -> None:
        client.claim("q", wait_ms=30_000)
        answered.set()

    waiting = threading.Thread(target=wait_long)
    waiting.start()
    assert client.queue("q").name == "q"
    assert not answered.is_set()
    client.send("q", "a")
    waiting.join()
