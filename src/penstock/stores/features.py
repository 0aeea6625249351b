"""What a store may keep beyond the least that every store keeps."""

from __future__ import annotations

from enum import Enum


class Feature(Enum):
    """What a store may keep beyond queues and messages that are sent, claimed and acked. The value says it in words.

    A verb or a value that a store does not have raises FeatureMissing.
    """

    SETTINGS = "settings of a queue"
    ATTRIBUTES = "attributes, delays and deadlines of a message"
    RECEIPTS = "receipts that know their claim, renewed and released"
    BARE_IDS = "acks that do not name the queue"
    DEDUP = "deduplication"
    REDRIVE = "dead-letter queues"
    PEEK = "peeking"
    MOVE = "moves between queues"
    PURGE = "purging"
    LEDGER = "the ledger"
    SHIPMENTS = "shipments, exports of the ledger and sends with a key"
    KEYS = "API keys"


ALL_FEATURES = frozenset(Feature)
