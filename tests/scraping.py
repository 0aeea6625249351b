"""What a server under a little load tells Prometheus."""

from __future__ import annotations

from pathlib import Path

from penstock.client import Client
from tests.servers import ThreadServer
from tests.waiting import wait_until


def answer_under_load(folder: Path) -> bytes:
    server = ThreadServer(f"sqlite:///{folder}/penstock.db")
    try:
        with Client(server.url) as client:
            client.create_queue("q")
            client.send("q", "x")
            [message] = client.claim("q")
            client.ack("q", [message.receipt])
            client.claim("q", wait_ms=10)

        def answer() -> bytes:
            with server.talk() as talk:
                return talk("GET", "/metrics").body

        # Which another edge may have served, of which this one hears within a second.
        wait_until(lambda: b"penstock_waiting_request_duration_seconds_count" in answer())
        wait_until(lambda: b'route="/metrics"' in answer())
        return answer()
    finally:
        server.stop()
