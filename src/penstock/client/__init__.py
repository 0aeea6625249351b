"""A small client of a Penstock server, over HTTP and the standard library alone.

    from penstock.client import Client

    with Client("http://127.0.0.1:8080") as client:
        client.create_queue("jobs", visibility_ms=60_000)
        client.send("jobs", "hello")
        client.work("jobs", lambda message: print(message.text))

One client serves any number of threads, and forked processes as well. `AsyncClient` is the same for asyncio.
"""

from __future__ import annotations

from penstock.client.async_client import AsyncClient
from penstock.client.client import Client
from penstock.client.errors import (
    ClientError,
    InvalidRequest,
    KeyExists,
    KeyNotFound,
    MoveConflict,
    MoveNotFound,
    QueueExists,
    QueueNotFound,
    Refused,
    SendConflict,
    ServerFailed,
    ShipmentConflict,
    ShipmentEnded,
    ShipmentNotFound,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
    Unreachable,
)
from penstock.client.patience import Patience
from penstock.client.values import (
    Action,
    ActionFilter,
    AttributeEquals,
    Backoff,
    ClaimedMessage,
    Count,
    Draft,
    Export,
    ExportRef,
    JsonEquals,
    Key,
    LedgerFilter,
    LedgerRow,
    Message,
    MessageFilter,
    Move,
    MoveTerms,
    NewKey,
    Peeked,
    Process,
    Queue,
    Redrive,
    Sent,
    SentCounts,
    Settings,
    Shipment,
    ShipmentRef,
    Tally,
    TaskTerms,
)
from penstock.client.work import Discard, Retry, Worked

__all__ = [
    "Action",
    "ActionFilter",
    "AsyncClient",
    "AttributeEquals",
    "Backoff",
    "ClaimedMessage",
    "Client",
    "ClientError",
    "Count",
    "Discard",
    "Draft",
    "Export",
    "ExportRef",
    "InvalidRequest",
    "JsonEquals",
    "Key",
    "KeyExists",
    "KeyNotFound",
    "LedgerFilter",
    "LedgerRow",
    "Message",
    "MessageFilter",
    "Move",
    "MoveConflict",
    "MoveNotFound",
    "MoveTerms",
    "NewKey",
    "Patience",
    "Peeked",
    "Process",
    "Queue",
    "QueueExists",
    "QueueNotFound",
    "Redrive",
    "Refused",
    "Retry",
    "SendConflict",
    "Sent",
    "SentCounts",
    "ServerFailed",
    "Settings",
    "Shipment",
    "ShipmentConflict",
    "ShipmentEnded",
    "ShipmentNotFound",
    "ShipmentRef",
    "Tally",
    "TaskTerms",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "Unreachable",
    "Worked",
]
