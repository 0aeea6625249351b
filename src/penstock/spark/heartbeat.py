"""Keeps a shipment from being lost while it is worked on: a thread that sends heartbeats."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from penstock.client import Client, ClientError, Refused, Shipment, ShipmentRef

_LONGEST_PAUSE_S = 300.0


class Heartbeat:
    """Several beats fit into the time that the shipment is held, so one that fails does no harm. It does not report a
    shipment that has ended: reading or settling it does."""

    def __init__(self, client: Client, shipment: ShipmentRef | Shipment, hold_ms: int) -> None:
        self._client = client
        self._shipment = shipment
        self._hold_ms = hold_ms
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"heartbeat of shipment {shipment.number}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No beat comes after this, except one that is under way."""
        self._stopped.set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._thread.join()

    def _run(self) -> None:
        pause_s = min(self._hold_ms / 4000, _LONGEST_PAUSE_S)
        while not self._stopped.wait(pause_s):
            try:
                self._client.beat_shipment(self._shipment, self._hold_ms)
            except Refused:
                return
            except ClientError:
                continue
