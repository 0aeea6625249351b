"""All verbs of the SQL store in one object."""

from __future__ import annotations

from penstock.stores.sql.consumers import ConsumerVerbs
from penstock.stores.sql.counts import CountVerbs
from penstock.stores.sql.departures import DepartureVerbs
from penstock.stores.sql.exports import ExportVerbs
from penstock.stores.sql.keys import KeyVerbs
from penstock.stores.sql.moves import MoveVerbs
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
