"""The MQ-Core API: six endpoints at the root of the server, `/{queue}` and the messages below it.

A queue made here has default settings. Messages are acked by their bare id, by any caller: the API has no
receipts. A name that no queue can have is one that does not exist, except where a queue is to be made.
"""

from __future__ import annotations

from penstock.broker import Broker
from penstock.edge.router import Route
from penstock.faces.mqcore.messages import message_routes
from penstock.faces.mqcore.queues import queue_routes
from penstock.faces.mqcore.reserved import explaining, reserved_words

__all__ = ["explaining", "mqcore_routes", "reserved_words"]


def mqcore_routes(broker: Broker, redelivery_ms: int, reserved: frozenset[str] = frozenset()) -> list[Route]:
    """A message that was fetched comes back after `redelivery_ms`. `reserved` are the names that belong to other APIs
    on the same port."""
    return [*queue_routes(broker, reserved), *message_routes(broker, redelivery_ms, reserved)]
