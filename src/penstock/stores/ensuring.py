"""Queues that come into being when somebody first uses them."""

from __future__ import annotations

from contextlib import suppress

from penstock.errors import QueueExists
from penstock.model import Settings
from penstock.stores.protocol import Unit


def ensure_queue(unit: Unit, name: str, settings: Settings, now: int) -> None:
    """Where there is no such queue, create it with these settings."""
    if unit.find_queue(name) is None:
        with suppress(QueueExists):  # another process has been faster
            unit.create_queue(name, settings, now)
