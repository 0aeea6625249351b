"""The document as it is built for all faces together, without a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.edge.router import Route
from penstock.faces.emodb import emodb_routes
from penstock.faces.mqcore import RESERVED, mqcore_routes
from penstock.faces.mqs import mqs_routes
from penstock.faces.native import native_routes

# Routes are only looked at here: no handler runs, so no broker is needed.
NO_BROKER: Any = None
NO_KEYRING: Any = None
ROUTES: Mapping[str, Sequence[Route]] = {
    "mqs": mqs_routes(NO_BROKER),
    "native": native_routes(NO_BROKER, NO_KEYRING),
    "emodb": emodb_routes(NO_BROKER),
    "mqcore": mqcore_routes(NO_BROKER, 10_000, RESERVED),
}
