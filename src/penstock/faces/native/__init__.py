"""The native API under `/v1`: the core's own verbs and words, in JSON. The client and the command line speak it."""

from __future__ import annotations

from penstock.broker import Broker
from penstock.edge.router import Route
from penstock.faces.native.keys import key_routes
from penstock.faces.native.messages import message_routes
from penstock.faces.native.queues import queue_routes


def native_routes(broker: Broker) -> list[Route]:
    return [*queue_routes(broker), *message_routes(broker), *key_routes(broker)]
