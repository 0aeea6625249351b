"""Between the faces and a store: groups operations into units of durability, and lets claims wait."""

from penstock.broker.broker import LocalBroker
from penstock.broker.protocol import Broker, Form

__all__ = ["Broker", "Form", "LocalBroker"]
