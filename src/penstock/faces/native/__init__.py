"""The native API under `/v1`: the core's own verbs and words, in JSON, and in bulk in Arrow.

The client, the command line and the data pipeline speak it.
"""

from __future__ import annotations

from penstock.broker import Broker
from penstock.edge.router import Route
from penstock.faces.native.actions import action_routes
from penstock.faces.native.figures import figure_routes
from penstock.faces.native.keys import key_routes
from penstock.faces.native.leases import lease_routes
from penstock.faces.native.ledger import ledger_routes
from penstock.faces.native.message_ids import message_id_routes
from penstock.faces.native.messages import message_routes
from penstock.faces.native.moves import move_routes
from penstock.faces.native.queues import queue_routes
from penstock.faces.native.receipts import receipt_routes
from penstock.faces.native.send import send_route
from penstock.faces.native.shipments import shipment_routes
from penstock.faces.native.store import store_routes
from penstock.keys import Keyring


def native_routes(broker: Broker, keyring: Keyring) -> list[Route]:
    return [
        *queue_routes(broker),
        *figure_routes(broker),
        send_route(broker),
        *message_routes(broker),
        *message_id_routes(broker),
        *receipt_routes(broker),
        *move_routes(broker),
        *shipment_routes(broker),
        *lease_routes(broker),
        *ledger_routes(broker),
        *key_routes(broker, keyring),
        *action_routes(broker),
        *store_routes(broker),
    ]
