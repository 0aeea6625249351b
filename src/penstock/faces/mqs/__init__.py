"""The mqs API: queues with settings, and messages of any content type.

Checks come in the document's order: whether the queue exists, then whether the request parses, then its values. A name
that no queue can have is therefore one that does not exist, except where a queue is to be made.
"""

from __future__ import annotations

from penstock.broker import Broker
from penstock.edge.router import Route
from penstock.faces.mqs.health import health_routes
from penstock.faces.mqs.messages import message_routes
from penstock.faces.mqs.queues import queue_routes


def mqs_routes(broker: Broker, cut_oversize: bool = True) -> list[Route]:
    """`cut_oversize`: a message past 1 MB is cut off and stored, as documented; otherwise it answers 413."""
    return [*health_routes(broker), *queue_routes(broker), *message_routes(broker, cut_oversize)]
