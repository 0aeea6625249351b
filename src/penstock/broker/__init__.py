"""Between the faces and a store: groups operations into units of durability, and lets claims wait."""

from penstock.broker.broker import Broker
from penstock.broker.operations import AGAIN

__all__ = ["AGAIN", "Broker"]
