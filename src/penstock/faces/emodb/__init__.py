"""EmoDB's QueueService and DedupQueueService.

Two name spaces: `/queue/1/x` is the queue every other face calls `x`; `/dedupq/1/x` is `dedupq/x`, which only this face
and the native API can name. Queues come into being with their first message; one that does not exist is an empty one.
"""

from __future__ import annotations

from penstock.broker import Broker
from penstock.edge.router import Route
from penstock.faces.emodb.administration import administration_routes
from penstock.faces.emodb.messages import message_routes
from penstock.faces.emodb.service import DEDUP_QUEUE_SERVICE, QUEUE_SERVICE


def emodb_routes(broker: Broker) -> list[Route]:
    return [
        route
        for service in (QUEUE_SERVICE, DEDUP_QUEUE_SERVICE)
        for route in (*message_routes(broker, service), *administration_routes(broker, service))
    ]
