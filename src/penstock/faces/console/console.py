"""What every page of the console has: the broker, the sessions, the gate, and how to say no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.broker import Broker
from penstock.clock import Clock, system_clock
from penstock.edge.http import Request, Response
from penstock.faces.console.gate import Gate, Nobody, Visitor
from penstock.faces.console.sessions import Sessions, SessionTerms
from penstock.faces.console.visit import Visit
from penstock.faces.guard import Origins
from penstock.faces.metrics import Reports
from penstock.faces.patience import Patience
from penstock.keys import Keyring


@dataclass(frozen=True, slots=True)
class Landmark:
    """A page that the navigation leads to. With an `action`, only those who may do that on every queue see it."""

    label: str
    path: str
    action: str = ""


# In this order. Those that are not served are left out.
PLACES: Final = (
    Landmark("Queues", "/console"),
    Landmark("Ledger", "/console/ledger", "poll"),
    Landmark("Tasks", "/console/tasks"),
    Landmark("Actions", "/console/actions", "admin"),
    Landmark("Keys", "/console/keys", "admin"),
)


class Console:
    """`by_tls` says that the server itself speaks TLS; `reports` tells what its processes do."""

    def __init__(
        self,
        broker: Broker,
        keyring: Keyring,
        *,
        origins: Origins | None = None,
        patience: Patience | None = None,
        clock: Clock = system_clock,
        terms: SessionTerms = SessionTerms(),
        by_tls: bool = False,
        reports: Reports = list,
    ) -> None:
        self.broker = broker
        self.keyring = keyring
        self.patience = patience or Patience()
        self.clock = clock
        self.by_tls = by_tls
        self.reports = reports
        self.sessions = Sessions(keyring, clock, terms)
        self.gate = Gate(keyring, self.sessions, origins or Origins(), self.refuse)
        # The paths of pages without parameters, once the routes are made.
        self.paths: frozenset[str] = frozenset()

    def navigation(self, visit: Visit) -> list[dict[str, object]]:
        """The places that this visitor may go to. The current one is the longest that the path begins with."""
        if isinstance(visit.visitor, Visitor) and visit.visitor.rules == ():
            return []
        seen = [place for place in PLACES if place.path in self.paths and (not place.action or visit.may(place.action))]
        here = max(
            (place.path for place in seen if f"{visit.request.path}/".startswith(f"{place.path}/")), key=len, default=""
        )
        return [{"label": place.label, "path": place.path, "current": place.path == here} for place in seen]

    def refuse(self, request: Request, status: int, why: str) -> Response:
        """The page for those who are turned away, whether they are known or not."""
        known = request.caller
        visitor = known if isinstance(known, Visitor) else Visitor(Nobody(), self.sessions.begin())
        return Visit(self, request, visitor).refused(status, why)

    def not_found(self, request: Request) -> Response:
        return self.refuse(request, 404, f"there is no page {request.path[:100]}")
