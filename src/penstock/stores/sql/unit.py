"""All verbs of the SQL store in one object."""

from __future__ import annotations

from penstock.stores.sql.consumers import ConsumerVerbs
from penstock.stores.sql.counts import CountVerbs
from penstock.stores.sql.departures import DepartureVerbs
from penstock.stores.sql.exports import ExportVerbs
from penstock.stores.sql.keys import KeyVerbs
from penstock.stores.sql.moves import MoveVerbs
from penstock.stores.sql.nouns import SqlConsumers, SqlExports, SqlKeys, SqlLedger, SqlMoves, SqlShipments
from penstock.stores.sql.pushes import PushVerbs
from penstock.stores.sql.queues import QueueVerbs
from penstock.stores.sql.receipts import ReceiptVerbs
from penstock.stores.sql.sends import SendVerbs
from penstock.stores.sql.session import Session
from penstock.stores.sql.shipments import ShipmentVerbs
from penstock.stores.sql.views import ViewVerbs


class SqlUnit(
    QueueVerbs,
    MoveVerbs,
    PushVerbs,
    SendVerbs,
    ConsumerVerbs,
    ShipmentVerbs,
    ReceiptVerbs,
    DepartureVerbs,
    CountVerbs,
    ViewVerbs,
    ExportVerbs,
    KeyVerbs,
):
    def __init__(self, session: Session) -> None:
        self.session = session

    def prove_writable(self) -> None:
        self.session.engine.prove_writable()

    @property
    def stirred(self) -> set[str]:
        return self.session.stirred

    @property
    def sent_to(self) -> set[str]:
        return self.session.sent_to

    @property
    def messages(self) -> SqlUnit:
        return self

    @property
    def moves(self) -> SqlMoves:
        return SqlMoves(self)

    @property
    def shipments(self) -> SqlShipments:
        return SqlShipments(self)

    @property
    def ledger(self) -> SqlLedger:
        return SqlLedger(self)

    @property
    def exports(self) -> SqlExports:
        return SqlExports(self)

    @property
    def consumers(self) -> SqlConsumers:
        return SqlConsumers(self)

    @property
    def keys(self) -> SqlKeys:
        return SqlKeys(self)
