"""What a server under a little load tells Prometheus."""

from __future__ import annotations

from pathlib import Path

from penstock.client import Client
from penstock.timings import Timings
from tests.servers import ThreadServer
from tests.waiting import wait_until


def answer_under_load(folder: Path) -> bytes:
    # A scrape that does not wait for its store has no figures of it.
    server = ThreadServer(f"sqlite:///{folder}/penstock.db", timings=Timings(probe_s=60))
    try:
        with Client(server.url) as client:
            client.create_queue("q")
            client.send("q", "x")
            [message] = client.claim("q")
            client.ack("q", [message.receipt])
            client.claim("q", wait_ms=10)

        told = b""

        def is_all_told() -> bool:
            nonlocal told
            with server.talk() as talk:
                told = talk("GET", "/metrics").body
            return b"penstock_waiting_request_duration_seconds_count" in told and b'route="/metrics"' in told

        # Another edge may have served them, of which this one hears within a second.
        wait_until(is_all_told)
        return told
    finally:
        server.stop()
