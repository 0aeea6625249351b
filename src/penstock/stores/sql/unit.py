"""All verbs of the SQL store in one object."""

from __future__ import annotations

from penstock.stores.sql.claims import ClaimVerbs
from penstock.stores.sql.departures import DepartureVerbs
from penstock.stores.sql.queues import QueueVerbs
from penstock.stores.sql.receipts import ReceiptVerbs
from penstock.stores.sql.session import Session
from penstock.stores.sql.views import ViewVerbs


class SqlUnit(QueueVerbs, ClaimVerbs, ReceiptVerbs, DepartureVerbs, ViewVerbs):
    def __init__(self, session: Session) -> None:
        self.session = session

    @property
    def stirred(self) -> set[str]:
        return self.session.stirred
